//! `GET /notifications` live: the notifications of the caller in the order in which they change.

use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    FeedCursor, FeedItem, GetNotificationFeed, NotificationNudge, SERVICE,
};

use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::run_reader::StreamToken;
use crate::sse::{
    LivePage, LiveSource, LiveStream, Next, invalid_last_event_id, live_unavailable, write_json,
};

/// Notifications of one query.
const PAGE: u64 = 100;

/// Describes a valid `Last-Event-ID`.
pub(super) const EVENT_ID: &str = "the id of an event of these notifications";

struct Feed {
    app: App,
    caller: Caller,
    unread: bool,
    after: Option<FeedCursor>,
}

/// Everything after `after`, or from the beginning, and then all changes.
pub(super) async fn stream(
    app: &App,
    caller: Caller,
    token: StreamToken,
    unread: bool,
    after: Option<FeedCursor>,
) -> Result<Response, Problem> {
    let user = caller.claims.user.as_str();
    let permit = app.streams.take(&caller.workspace, user)?;
    let nudges = app
        .bus
        .live::<NotificationNudge>(&caller.workspace, SERVICE);
    let nudges = nudges.await.map_err(|error| live_unavailable(&error))?;
    let source = Feed {
        app: app.clone(),
        caller,
        unread,
        after,
    };
    let (first, newest) = source.read_feed().await?;
    if after.is_some_and(|mark| mark.seq > newest) {
        return Err(invalid_last_event_id(EVENT_ID));
    }
    let live = LiveStream {
        app: app.clone(),
        token,
        source,
        permit,
    };
    Ok(live.respond(first, nudges))
}

impl Feed {
    /// A page, and the number of the newest change.
    async fn read_feed(&self) -> Result<(LivePage<FeedItem>, u64), Problem> {
        let query = GetNotificationFeed {
            person: self.caller.claims.user.clone(),
            after: self.after,
            unread: self.unread,
            limit: PAGE,
        };
        let page = self.app.bus.query(&self.caller.workspace, &query).await?;
        let next = if page.more { Next::Page } else { Next::Nudge };
        let items = page.items;
        Ok((LivePage { items, next }, page.newest))
    }
}

impl LiveSource for Feed {
    type Item = FeedItem;
    type Nudge = NotificationNudge;

    const READ_INTERVAL_MIN: Duration = Duration::from_millis(100);

    async fn read(&self) -> Result<LivePage<FeedItem>, Problem> {
        Ok(self.read_feed().await?.0)
    }

    fn is_about(&self, nudge: &NotificationNudge) -> bool {
        nudge.concerns(&self.caller.claims.user)
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
