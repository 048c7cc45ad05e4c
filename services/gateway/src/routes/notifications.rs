//! `/notifications`: what the caller was told. Everybody sees their own copies and no other. A narrowed token
//! marks none as read: the person has not read it.

mod live;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::Decision;
use holdpoint_contracts::notification::{
    FeedCursor, GetNotification, ListNotifications, NotificationView, ReadNotification,
    ReadNotifications,
};
use holdpoint_ids::NotificationId;
use serde::Deserialize;

use super::requests;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId, StreamToken};
use crate::params::Params;
use crate::problem::ApiError;
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
    /// Id of a live event: what changed later stays as it is.
    #[serde(default)]
    until: Option<FeedCursor>,
}

/// Newest first; or live, in the order in which they changed.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    caller.may(Right::Look)?;
    let params = params.only(&["unread", "limit", "cursor"])?;
    let unread = params.read_as("unread")?.unwrap_or(false);
    if wants_stream(&headers) {
        let resumed = last_event_id(&headers, live::WHAT)?;
        let standing = StreamToken::of(&headers);
        return Ok(live::stream(app, (caller, standing), unread, resumed).await?);
    }
    let query = ListNotifications {
        person: caller.claims.user.clone(),
        unread,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    let page = app.bus.query(&caller.workspace, &query).await?;
    Ok(Json(page).into_response())
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<NotificationId>,
    params: Params,
) -> Result<Json<NotificationView>, ApiError> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    Ok(Json(own(&app, &caller, id).await?))
}

async fn own(app: &App, caller: &Caller, id: NotificationId) -> Result<NotificationView, Problem> {
    let person = caller.claims.user.clone();
    let query = GetNotification { person, id };
    app.bus.query(&caller.workspace, &query).await
}

async fn read(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<NotificationId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    let command = ReadNotification { id };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::OK))
}

async fn read_all(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    let ReadAllBody { until } = body.json_or_empty()?;
    let command = ReadNotifications {
        person: caller.claims.user.clone(),
        until: until.map(|mark| mark.seq),
    };
    let answered = app.command(&caller, body.key, command).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Answers the question that the notification is of, as `/requests/{id}/respond` does.
async fn respond(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<NotificationId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Decide)?;
    params.only(&[])?;
    let requests::RespondBody { answer, version } = body.json()?;
    let request = own(&app, &caller, id).await?.request.ok_or_else(|| {
        let detail = format!("`{id}` asks nothing: it is of no request");
        Problem::new(409, "not_a_request", detail)
    })?;
    let decision = Decision::Respond { answer };
    requests::decide(&app, &caller, body, (request, decision, version)).await
}
