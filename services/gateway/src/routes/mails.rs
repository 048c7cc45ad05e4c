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

use crate::app::App;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::Refused;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/mails", get(list))
}

/// The cursor counts the mails before the page.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<Value>>, Refused> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let (limit, skip) = (params.limit()?, params.read_as("cursor")?.unwrap_or(0));
    let mails = app
        .mails
        .ok_or_else(|| Problem::not_found("mails are sent here, not kept"))?;
    let reading = app.reading_mails.lock().await;
    let mails = mails().await.map_err(|error| {
        tracing::error!(%error, "the kept mails cannot be listed");
        Problem::internal()
    })?;
    let mails = mails
        .into_iter()
        .filter(|mail| is_of(mail, caller.workspace.as_str()) && is_shown(mail, &caller))
        .collect();
    let page = page(mails, skip, limit);
    drop(reading);
    Ok(Json(page))
}

/// The workspace of mails that name none: they are older than the header.
const UNNAMED: &str = FIRST_WORKSPACE;

/// A mail is shown in its own workspace only.
fn is_of(mail: &Value, workspace: &str) -> bool {
    let named = mail.get("workspace").filter(|named| !named.is_null());
    named.map_or(workspace == UNNAMED, |named| named == workspace)
}

/// A mail that names a person is shown to that person only, and not to a narrowed token of theirs.
fn is_shown(mail: &Value, caller: &Caller) -> bool {
    let person = mail.get("person").filter(|person| !person.is_null());
    person.is_none_or(|person| caller.is_whole() && person == caller.claims.user.as_str())
}

fn page(mails: Vec<Value>, skip: usize, limit: u64) -> Page<Value> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = skip.saturating_add(limit);
    let next_cursor = (end < mails.len()).then(|| end.to_string());
    Page {
        items: mails.into_iter().skip(skip).take(limit).collect(),
        next_cursor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        assert!(!is_shown(&json!({"person": "ada"}), &narrowed));
        assert!(is_shown(&json!({"to": "a@b.c"}), &narrowed));
    }

    #[test]
    fn pages_follow_each_other_without_gap() {
        let mails = || vec![json!(1), json!(2), json!(3)];
        let first = page(mails(), 0, 2);
        assert_eq!(
            (first.items.len(), first.next_cursor.as_deref()),
            (2, Some("2"))
        );
        let second = page(mails(), 2, 2);
        assert_eq!((second.items, second.next_cursor), (vec![json!(3)], None));
        assert_eq!(page(mails(), 9, 2).items, Vec::<Value>::new());
    }

    #[test]
    fn somebody_elses_mail_is_not_shown() {
        let played = |name: &str| played(name, true);
        assert!(is_of(&json!({"workspace": "acme"}), "acme"));
        assert!(!is_of(&json!({"workspace": "other"}), "acme"));
        assert!(is_shown(&json!({"to": "a@b.c"}), &played("ada")));
        assert!(is_shown(&json!({"person": "ada"}), &played("ada")));
        assert!(!is_shown(&json!({"person": "ada"}), &played("owner")));
    }

    /// Mend A-H3: a mail without a workspace is a mail of `default`, and of no other.
    #[test]
    fn a_mail_without_a_workspace_is_of_the_first_one_only() {
        for mail in [json!({"to": "a@b.c"}), json!({"workspace": null})] {
            assert!(!is_of(&mail, "acme"), "{mail}");
            assert!(is_of(&mail, "default"), "{mail}");
        }
    }
}
