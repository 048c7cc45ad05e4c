//! `/notifications` and `/preferences`: the notifications of the caller, and which of them are sent. Every user
//! reads only their own. A narrowed token marks none as read, because it does not prove that the person has read it.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decided, Decision};
use holdpoint_contracts::notification::{
    FeedCursor, FeedItem, GetNotification, GetNotificationFeed, GetPreferences, ListNotifications,
    NotificationView, Preferences, PutPreferences, ReadNotification, ReadNotifications,
};
use holdpoint_ids::{NotificationId, Workspace};
use serde::Deserialize;

use super::requests::decisions::{RespondBody, decide};
use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::may::{Decide, Demand, InPerson, Look, May};
use crate::auth::run_reader::StreamToken;
use crate::body::Body;
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::nudges::Topic;
use crate::params::Params;
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::sse::{LivePage, LiveSource, LiveStream, Next, last_event_id, wants_stream, write_json};

/// Notifications of one query of a stream.
const LIVE_PAGE: u64 = 100;
/// Describes a valid `Last-Event-ID`.
const EVENT_ID: &str = "the id of an event of these notifications";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/notifications", get(list))
        .route("/notifications/read", post(read_all))
        .route("/notifications/{id}", get(show))
        .route("/notifications/{id}/read", post(read))
        .route("/notifications/{id}/respond", post(respond))
        .route("/preferences", get(show_preferences).put(put_preferences))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadAllBody {
    /// Id of a live event. Later changes stay unread.
    until: Option<FeedCursor>,
}

/// Newest first; or live, in the order of their changes.
async fn list(caller: May<Look>, params: Params, headers: HeaderMap) -> ApiResult<Response> {
    let params = params.only(&["unread", "limit", "cursor"])?;
    let unread = params.read_as("unread")?.unwrap_or(false);
    if wants_stream(&headers) {
        let after: Option<FeedCursor> = last_event_id(&headers, EVENT_ID)?;
        let live = LiveStream {
            app: caller.app.clone(),
            token: StreamToken::of(&headers),
            source: Feed {
                app: caller.app.clone(),
                caller: Caller::clone(&caller),
                unread,
                after,
            },
        };
        let seen = after.map(|mark| mark.seq);
        return Ok(live.respond(seen, EVENT_ID).await?);
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

/// A narrowed token neither reads nor changes preferences, because a change outlasts it.
async fn show_preferences(call: Call<InPerson<Look>>) -> JsonResult<Preferences> {
    let person = call.caller.claims.user.clone();
    call.caller.query(GetPreferences { person }).await
}

/// An absent field means its default. The answer to a chat address may be the only one that shows its secret.
/// So that command is never stored for later.
async fn put_preferences(
    call: Call<InPerson<Look>, NoId, JsonBody<Preferences>>,
) -> ApiResult<Response> {
    let (caller, key) = (call.caller, call.key);
    let command = PutPreferences {
        person: caller.claims.user.clone(),
        preferences: call.body,
    };
    let chat = command.preferences.channels.chat.as_ref();
    let answer = if chat.is_some_and(|chat| chat.url.is_some()) {
        caller.ask(key, command).await?.into_response()
    } else {
        caller.command(key, command).await?.into_response()
    };
    caller.app.zones.forget(&caller.claims);
    Ok(answer)
}

/// The live notifications of a caller, in the order in which they change.
struct Feed {
    app: App,
    caller: Caller,
    unread: bool,
    /// The last sent change; absent: from the beginning.
    after: Option<FeedCursor>,
}

impl LiveSource for Feed {
    type Item = FeedItem;

    const READ_INTERVAL_MIN: Duration = Duration::from_millis(100);

    fn caller(&self) -> (&Workspace, String) {
        (&self.caller.workspace, self.caller.claims.user.to_string())
    }

    async fn read(&self) -> Result<LivePage<FeedItem>, Problem> {
        let query = GetNotificationFeed {
            person: self.caller.claims.user.clone(),
            after: self.after,
            unread: self.unread,
            limit: LIVE_PAGE,
        };
        let page = self.app.bus.query(&self.caller.workspace, &query).await?;
        Ok(LivePage {
            items: page.items,
            next: if page.more { Next::Page } else { Next::Nudge },
            newest: page.newest,
        })
    }

    fn topic(&self) -> Topic {
        let Caller {
            workspace, claims, ..
        } = &self.caller;
        Topic::NotificationsOf(workspace.clone(), claims.user.clone())
    }

    fn mark_sent(&mut self, item: &FeedItem) {
        self.after = Some(item.mark);
    }

    fn write_event(item: &FeedItem) -> Event {
        let event = Event::default()
            .id(item.mark.to_string())
            .event("notification");
        write_json(event, &item.notification)
    }
}
