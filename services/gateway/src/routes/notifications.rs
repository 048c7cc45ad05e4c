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
use crate::body::{Body, JsonBody, OptionalJson};
use crate::command_outcome::CommandOutcome;
use crate::params::{NoParams, Params};
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};
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

async fn show(
    caller: May<Look>,
    PathId(id): PathId<NotificationId>,
    _: NoParams,
) -> ApiResult<Json<NotificationView>> {
    read_own(&caller, id).await
}

async fn read_own<D: Demand>(
    caller: &May<D>,
    id: NotificationId,
) -> ApiResult<Json<NotificationView>> {
    let person = caller.claims.user.clone();
    caller.query(GetNotification { person, id }).await
}

async fn read(
    caller: May<InPerson<Look>>,
    PathId(id): PathId<NotificationId>,
    _: NoParams,
    body: Body,
) -> ApiResult<impl IntoResponse> {
    caller.command(body.key, ReadNotification { id }).await
}

async fn read_all(
    caller: May<InPerson<Look>>,
    _: NoParams,
    body: OptionalJson<ReadAllBody>,
) -> ApiResult<impl IntoResponse> {
    let command = ReadNotifications {
        person: caller.claims.user.clone(),
        until: body.value.until.map(|mark| mark.seq),
    };
    caller.command(body.key, command).await
}

/// Answers the request of the notification, as `/requests/{id}/respond` does.
async fn respond(
    caller: May<Decide>,
    PathId(id): PathId<NotificationId>,
    _: NoParams,
    body: JsonBody<RespondBody>,
) -> ApiResult<CommandOutcome<Decided>> {
    let RespondBody { answer, version } = body.value;
    let Json(notification) = read_own(&caller, id).await?;
    let request = notification.request.ok_or_else(|| {
        let detail = format!("`{id}` is not about a request, so it cannot be answered");
        ApiError(Problem::new(409, "not_a_request", detail))
    })?;
    let decision = Decision::Respond { answer };
    decide(&caller, body.key, request, decision, version).await
}
