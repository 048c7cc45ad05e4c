//! `GET /mails`: what was kept as files instead of sent.
//!
//! A notification holds a link that acts as the person it is of: nobody else sees it, not even an
//! owner, who decides in their own name. A narrowed token does not see it either: the link has all
//! rights of the person. What agents sent everybody sees who may look.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::FIRST_WORKSPACE;
use serde_json::Value;

use crate::WantedMails;
use crate::app::App;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/mails", get(list))
}

/// The cursor counts the mails before the page. One caller at a time reads, and no more than the page.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<Value>>, ApiError> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let (limit, skip) = (params.limit()?, params.read_as("cursor")?.unwrap_or(0));
    let mails = app
        .mails
        .ok_or_else(|| Problem::not_found("mails are sent here, not kept"))?;
    let wanted = WantedMails {
        shown: Box::new(move |workspace, person| {
            is_of(workspace, caller.workspace.as_str()) && is_shown(person, &caller)
        }),
        skip,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
    };
    let reading = app.reading_mails.lock().await;
    let page = mails(wanted).await.map_err(|error| {
        tracing::error!(%error, "the kept mails cannot be listed");
        Problem::internal()
    })?;
    drop(reading);
    Ok(Json(page))
}

/// The workspace of mails that name none: they are older than the header.
const UNNAMED: &str = FIRST_WORKSPACE;

/// A mail is shown in its own workspace only.
fn is_of(named: Option<&str>, workspace: &str) -> bool {
    named.unwrap_or(UNNAMED) == workspace
}

/// A mail that names a person is shown to that person only, and not to a narrowed token of theirs.
fn is_shown(person: Option<&str>, caller: &Caller) -> bool {
    person.is_none_or(|person| caller.is_whole() && person == caller.claims.user.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(name: &str, is_whole: bool) -> Caller {
        let claims = holdpoint_auth::Claims {
            workspace: "acme".parse().unwrap(),
            user: name.parse().unwrap(),
            roles: Vec::new(),
            expires_at: chrono::DateTime::UNIX_EPOCH,
        };
        Caller::played(claims, is_whole)
    }

    /// Mend A-H2: the link in a mail has all rights of the person, and a narrowed token has not.
    #[test]
    fn a_narrowed_token_does_not_see_the_mails_of_its_user() {
        let narrowed = played("ada", false);
        assert!(!is_shown(Some("ada"), &narrowed));
        assert!(is_shown(None, &narrowed));
    }

    #[test]
    fn somebody_elses_mail_is_not_shown() {
        let played = |name: &str| played(name, true);
        assert!(is_of(Some("acme"), "acme"));
        assert!(!is_of(Some("other"), "acme"));
        assert!(is_shown(None, &played("ada")));
        assert!(is_shown(Some("ada"), &played("ada")));
        assert!(!is_shown(Some("ada"), &played("owner")));
    }

    /// Mend A-H3: a mail without a workspace is a mail of `default`, and of no other.
    #[test]
    fn a_mail_without_a_workspace_is_of_the_first_one_only() {
        assert!(!is_of(None, "acme"));
        assert!(is_of(None, "default"));
    }
}
