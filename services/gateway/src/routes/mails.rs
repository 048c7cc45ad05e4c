//! `GET /mails`: mails that were stored as files instead of sent.
//!
//! A notification contains a link with all rights of its recipient. Only the recipient reads it, and not with a
//! narrowed token. Mails of agents are readable with the right to look.

use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::FIRST_WORKSPACE;
use serde_json::Value;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::may::{Look, May};
use crate::deps::WantedMails;
use crate::params::Params;
use crate::problem::ApiResult;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/mails", get(list))
}

/// The cursor counts the mails before the page. Requests read one after the other, each only its page.
async fn list(caller: May<Look>, params: Params) -> ApiResult<Json<Page<Value>>> {
    let params = params.only(&["limit", "cursor"])?;
    let (limit, skip) = (params.limit()?, params.read_as("cursor")?.unwrap_or(0));
    let app = caller.app.clone();
    let mails = app.mails.clone();
    let mails = mails.ok_or_else(|| Problem::not_found("mails are sent, not stored"))?;
    let wanted = WantedMails {
        shown: Box::new(move |workspace, person| {
            is_of_workspace(workspace, caller.workspace.as_str()) && is_shown(person, &caller)
        }),
        skip,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let reading = app.reading_mails.lock().await;
    let page = mails(wanted).await.map_err(|error| {
        tracing::error!(%error, "stored mails cannot be read; the request is answered with 500");
        Problem::internal()
    })?;
    drop(reading);
    Ok(Json(page))
}

/// The workspace of mails without one, which are older than the header.
const WORKSPACE_DEFAULT: &str = FIRST_WORKSPACE;

/// A mail is shown in its workspace only.
fn is_of_workspace(named: Option<&str>, workspace: &str) -> bool {
    named.unwrap_or(WORKSPACE_DEFAULT) == workspace
}

/// A mail with a recipient is shown to the recipient only, and not to a narrowed token.
fn is_shown(person: Option<&str>, caller: &Caller) -> bool {
    person.is_none_or(|person| caller.is_whole() && person == caller.claims.user.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(name: &str, is_whole: bool) -> Caller {
        Caller::for_test(crate::testing::claims(name, &[]), is_whole)
    }

    /// Mend A-H2: the link in a mail has all rights of the person, and a narrowed token has not.
    #[test]
    fn a_narrowed_token_does_not_see_the_mails_of_its_user() {
        let narrowed = played("ada", false);
        assert!(!is_shown(Some("ada"), &narrowed));
        assert!(is_shown(None, &narrowed));
    }

    #[test]
    fn a_mail_is_not_shown_to_other_users() {
        let played = |name: &str| played(name, true);
        assert!(is_of_workspace(Some("acme"), "acme"));
        assert!(!is_of_workspace(Some("other"), "acme"));
        assert!(is_shown(None, &played("ada")));
        assert!(is_shown(Some("ada"), &played("ada")));
        assert!(!is_shown(Some("ada"), &played("owner")));
    }

    /// Mend A-H3: a mail without a workspace is a mail of `default`, and of no other.
    #[test]
    fn a_mail_without_a_workspace_belongs_to_the_first_one() {
        assert!(!is_of_workspace(None, "acme"));
        assert!(is_of_workspace(None, "default"));
    }
}
