//! `/notifications`: the notifications of the caller. Every user reads only their own. A narrowed token marks none as
//! read, because it does not prove that the person has read it.

mod live;

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, Decision};
use holdpoint_contracts::notification::{
    FeedCursor, GetNotification, ListNotifications, NotificationView, ReadNotification,
    ReadNotifications,
};
use holdpoint_ids::NotificationId;
use serde::Deserialize;

use super::requests::decisions::{RespondBody, decide};
use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::may::{Decide, Demand, InPerson, Look, May};
use crate::auth::run_reader::StreamToken;
use crate::body::Body;
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::params::Params;
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::sse::{last_event_id, wants_stream};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/notifications", get(list))
        .route("/notifications/read", post(read_all))
        .route("/notifications/{id}", get(show))
        .route("/notifications/{id}/read", post(read))
        .route("/notifications/{id}/respond", post(respond))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadAllBody {
    /// Id of a live event. Later changes stay unread.
    #[serde(default)]
    until: Option<FeedCursor>,
}

/// Newest first; or live, in the order of their changes.
async fn list(caller: May<Look>, params: Params, headers: HeaderMap) -> ApiResult<Response> {
    let params = params.only(&["unread", "limit", "cursor"])?;
    let unread = params.read_as("unread")?.unwrap_or(false);
    if wants_stream(&headers) {
        let after = last_event_id(&headers, live::EVENT_ID)?;
        let token = StreamToken::of(&headers);
        let reader = Caller::clone(&caller);
        return Ok(live::stream(&caller.app, reader, token, unread, after).await?);
    }
    let query = ListNotifications {
        person: caller.claims.user.clone(),
        unread,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(caller.query(query).await?.into_response())
}

async fn show(call: Call<Look, NotificationId>) -> JsonResult<NotificationView> {
    read_own(&call.caller, call.id).await
}

async fn read_own<D: Demand>(caller: &May<D>, id: NotificationId) -> JsonResult<NotificationView> {
    let person = caller.claims.user.clone();
    caller.query(GetNotification { person, id }).await
}

async fn read(call: Call<InPerson<Look>, NotificationId, Body>) -> ApiResult<impl IntoResponse> {
    let command = ReadNotification { id: call.id };
    call.caller.command(call.key, command).await
}

async fn read_all(
    call: Call<InPerson<Look>, NoId, OptionalJson<ReadAllBody>>,
) -> ApiResult<impl IntoResponse> {
    let command = ReadNotifications {
        person: call.caller.claims.user.clone(),
        until: call.body.until.map(|mark| mark.seq),
    };
    call.caller.command(call.key, command).await
}

/// Answers the request of the notification, as `/requests/{id}/respond` does.
async fn respond(
    call: Call<Decide, NotificationId, JsonBody<RespondBody>>,
) -> CommandResult<Decided> {
    let (id, RespondBody { answer, version }) = (call.id, call.body);
    let Json(notification) = read_own(&call.caller, id).await?;
    let request = notification.request.ok_or_else(|| {
        let detail = format!("`{id}` is not about a request, so it cannot be answered");
        ApiError(Problem::new(409, "not_a_request", detail))
    })?;
    let decision = Decision::Respond { answer };
    decide(&call.caller, call.key, request, decision, version).await
}
