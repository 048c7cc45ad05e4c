//! `/hooks/inbound/unmatched`: replies of unknown senders, which a person assigns to a contact or removes.

use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::ContactId;
use serde::Deserialize;

use super::contact_reply::{Recorded, activity_of, or_unknown_contact};
use crate::app::App;
use crate::auth::may::{Ask, Look, Operate};
use crate::call::{Call, JsonBody, NoBody};
use crate::params::Params;
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::store::unmatched_replies::{self, Stored, UnmatchedId, UnmatchedReply};

/// A hook with this name would hide the list.
pub(super) const RESERVED_NAME: &str = "unmatched";

/// Most replies of one page. The longest ones together stay below 10 MiB.
const PAGE_MAX: u64 = 100;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/hooks/inbound/unmatched", get(list))
        .route("/hooks/inbound/unmatched/{id}", delete(remove))
        .route("/hooks/inbound/unmatched/{id}/assign", post(assign))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Assignment {
    contact: ContactId,
}

/// Newest first.
async fn list(call: Call<Look, NoId, NoBody, Params>) -> JsonResult<Page<UnmatchedReply>> {
    let params = call.params.only(&["limit", "cursor"])?;
    let limit = params.limit()?.min(PAGE_MAX);
    let before = params.read_as("cursor")?;
    let (db, workspace) = (&call.caller.app.readers, &call.caller.workspace);
    let items = unmatched_replies::list(db, workspace, before, limit + 1).await?;
    Ok(Json(Page::cut(items, limit, |last| last.id.to_string())))
}

/// Records the reply under the key of its message, so that it is recorded once, also if this process ends before the
/// reply is closed.
async fn assign(call: Call<Ask, UnmatchedId, JsonBody<Assignment>>) -> JsonResult<Recorded> {
    let (caller, id, wanted) = (call.caller, call.id, call.body.contact);
    let (writer, workspace) = (&caller.app.writer, &caller.workspace);
    let contact = match unmatched_replies::find(writer, workspace, id).await? {
        None | Some(Stored::Removed(_)) => return Err(not_found(id)),
        Some(Stored::Assigned(contact)) => contact,
        Some(Stored::Listed(found)) => {
            let command = activity_of(&found.key, &wanted, found.reply.clone());
            let recorded = caller.ask(Some(found.key), command).await;
            let Json(recorded) = recorded.map_err(|error| or_unknown_contact(error.0))?;
            unmatched_replies::close(writer, workspace, id, Some(&recorded.id)).await?;
            recorded.id
        }
    };
    if contact == wanted {
        return Ok(Json(Recorded::of(contact)));
    }
    let detail = format!("the reply is already recorded for the contact `{contact}`");
    Err(ApiError(Problem::new(409, "already_assigned", detail)))
}

async fn remove(call: Call<Operate, UnmatchedId>) -> ApiResult<StatusCode> {
    let (caller, id) = (call.caller, call.id);
    if unmatched_replies::close(&caller.app.writer, &caller.workspace, id, None).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(not_found(id))
}

fn not_found(id: UnmatchedId) -> ApiError {
    let detail = format!("unmatched reply `{id}` not found");
    ApiError(Problem::not_found(detail))
}
