//! `GET /mails`: what was kept as files instead of sent.
//!
//! A notification holds a link that acts as the person it is of: nobody else sees it, not even an
//! owner, who decides in their own name. What agents sent everybody sees who may look.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
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
    let mails = mails().await.map_err(|error| {
        tracing::error!(%error, "the kept mails cannot be listed");
        Problem::internal()
    })?;
    let mails = mails
        .into_iter()
        .filter(|mail| {
            is_of(mail, caller.workspace.as_str()) && is_shown(mail, caller.claims.user.as_str())
        })
        .collect();
    Ok(Json(page(mails, skip, limit)))
}

/// A mail that names no workspace belongs to whoever runs the only one.
fn is_of(mail: &Value, workspace: &str) -> bool {
    mail.get("workspace").is_none_or(|named| named == workspace)
}

/// A mail that names a person is shown to that person only.
fn is_shown(mail: &Value, user: &str) -> bool {
    mail.get("person").is_none_or(|person| person == user)
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
        assert!(is_of(&json!({"to": "a@b.c"}), "acme"));
        assert!(is_of(&json!({"workspace": "acme"}), "acme"));
        assert!(!is_of(&json!({"workspace": "other"}), "acme"));
        assert!(is_shown(&json!({"to": "a@b.c"}), "ada"));
        assert!(is_shown(&json!({"person": "ada"}), "ada"));
        assert!(!is_shown(&json!({"person": "ada"}), "owner"));
    }
}
