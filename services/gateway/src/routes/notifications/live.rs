//! `GET /notifications` live: the caller's own notifications in the order in which they changed, and then
//! what comes.
//!
//! It subscribes before it reads, and a nudge only makes it read again: a lost one costs a moment and no
//! notification. Between nudges it looks rarely, and after one no more often than [`LOOK_AT_MOST`].

use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{
    FeedCursor, FeedItem, FeedPage, GetNotificationFeed, NotificationNudge, SERVICE,
};
use tokio::sync::mpsc;

use crate::app::App;
use crate::caller::{Caller, StreamToken};
use crate::concurrency::ConcurrencyPermit;
use crate::sse::{self, LOOK_AGAIN, wrong_last_event_id};

/// Notifications that are asked for at a time.
const PAGE: u64 = 100;
/// Those that wait for a slow reader; then no more are asked for.
const AHEAD: usize = 64;
/// However many nudges come, the owner is asked no more often than this.
const LOOK_AT_MOST: Duration = Duration::from_millis(100);

/// What a reader gave that never was the id of an event.
pub(super) const WHAT: &str = "is the id of an event of these notifications";

/// One reader of their own notifications.
struct Live {
    app: App,
    caller: Caller,
    standing: StreamToken,
    unread: bool,
    /// The last one that was handed over.
    after: Option<FeedCursor>,
    _permit: ConcurrencyPermit,
}

/// Everything after `resumed`, or from the beginning, and then what changes.
pub(super) async fn stream(
    app: App,
    (caller, standing): (Caller, StreamToken),
    unread: bool,
    resumed: Option<FeedCursor>,
) -> Result<Response, Problem> {
    let user = caller.claims.user.as_str();
    let permit = app.streams.take(&caller.workspace, user)?;
    let nudges = app
        .bus
        .live::<NotificationNudge>(&caller.workspace, SERVICE);
    let nudges = nudges.await.map_err(|error| {
        tracing::warn!(%error, "no live notifications");
        Problem::unavailable("live notifications cannot be had at the moment; try again")
    })?;
    let live = Live {
        app,
        caller,
        standing,
        unread,
        after: resumed,
        _permit: permit,
    };
    let first = live.page().await?;
    if resumed.is_some_and(|mark| mark.seq > first.newest) {
        return Err(wrong_last_event_id(WHAT));
    }
    let (items, receiver) = mpsc::channel(AHEAD);
    let tasks = live.app.tasks.clone();
    tasks.spawn(live.follow(first, nudges, items));
    Ok(sse::answer(receiver, as_event))
}

impl Live {
    async fn page(&self) -> Result<FeedPage, Problem> {
        let query = GetNotificationFeed {
            person: self.caller.claims.user.clone(),
            after: self.after,
            unread: self.unread,
            limit: PAGE,
        };
        self.app.bus.query(&self.caller.workspace, &query).await
    }

    /// Hands over page after page, until the reader has gone or the gateway ends.
    async fn follow(
        mut self,
        first: FeedPage,
        mut nudges: impl Stream<Item = NotificationNudge> + Unpin,
        items: mpsc::Sender<FeedItem>,
    ) {
        let closing = self.app.closing.clone();
        let following = async {
            let mut page = Some(first);
            while let Some(news) = page {
                let more = news.more;
                if !self.hand_over(news, &items).await {
                    return;
                }
                if !more {
                    tokio::time::sleep(LOOK_AT_MOST).await;
                    let nudged = self.nudged(&mut nudges);
                    drop(tokio::time::timeout(LOOK_AGAIN, nudged).await);
                }
                page = self.next_page().await;
            }
        };
        tokio::select! {
            () = following => {}
            () = items.closed() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Hands over one page; whether the reader is still there.
    async fn hand_over(&mut self, news: FeedPage, items: &mpsc::Sender<FeedItem>) -> bool {
        for item in news.items {
            self.after = Some(item.mark);
            if items.send(item).await.is_err() {
                return false;
            }
        }
        true
    }

    /// The next page, asked for until the owner answers; none for whoever may listen no more.
    async fn next_page(&self) -> Option<FeedPage> {
        loop {
            let page = match self.standing.holds(&self.app).await {
                Ok(true) => self.page().await,
                Ok(false) => return None,
                Err(problem) => Err(problem),
            };
            match page {
                Ok(page) => return Some(page),
                Err(problem) if problem.is_transient() => tokio::time::sleep(LOOK_AGAIN).await,
                Err(problem) => {
                    tracing::warn!(%problem, "live notifications end early");
                    return None;
                }
            }
        }
    }

    /// Waits for a nudge that may be about the caller.
    async fn nudged(&self, nudges: &mut (impl Stream<Item = NotificationNudge> + Unpin)) {
        while let Some(nudge) = nudges.next().await {
            if nudge.concerns(&self.caller.claims.user) {
                return;
            }
        }
        // The subscription has ended with its connection; the clock goes on.
        std::future::pending::<()>().await;
    }
}

fn as_event(item: &FeedItem) -> Event {
    let event = Event::default()
        .id(item.mark.to_string())
        .event("notification");
    event.json_data(&item.notification).unwrap_or_else(|error| {
        tracing::error!(%error, "a notification that cannot be written");
        Event::default().comment("a notification that cannot be shown")
    })
}
