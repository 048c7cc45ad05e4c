//! Server-sent events of the API.
//!
//! A stream subscribes to nudges before it reads, and a nudge only makes it read again. So a lost nudge costs a
//! moment and no item.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::Problem;
use holdpoint_ids::Workspace;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::auth::run_reader::StreamToken;
use crate::concurrency::ConcurrencyPermit;
use crate::nudges::{Changes, Topic};

/// A lost nudge delays an item by at most this time.
const READ_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// A comment is sent at this interval, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Items that wait for a slow reader; then no more are read.
const ITEMS_AHEAD: usize = 64;

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether `Accept` names an event stream.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The event after which a reader continues; `expected` describes a valid id.
pub(crate) fn last_event_id<T: FromStr>(
    headers: &HeaderMap,
    expected: &str,
) -> Result<Option<T>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| invalid_last_event_id(expected))
}

fn invalid_last_event_id(expected: &str) -> Problem {
    Problem::new(
        400,
        "invalid_last_event_id",
        format!("invalid `Last-Event-ID`; expected {expected}"),
    )
}

/// The response that sends these events. Proxies do not buffer it.
pub(crate) fn respond(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let sse = Sse::new(events.map(Ok::<_, Infallible>));
    let sse = sse.keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(BUFFERING, "no")], sse).into_response()
}

/// What a stream reads, item after item.
pub(crate) trait LiveSource: Send + Sync + 'static {
    type Item: Send + 'static;

    /// Pause after a page before the next nudge is awaited, however many nudges come.
    const READ_INTERVAL_MIN: Duration = Duration::ZERO;

    /// The workspace, and the name for which the stream counts.
    fn caller(&self) -> (&Workspace, String);

    /// The items after the last sent one.
    fn read(&self) -> impl Future<Output = Result<LivePage<Self::Item>, Problem>> + Send;

    /// Its changes may bring new items.
    fn topic(&self) -> Topic;

    /// Notes that an item was sent; the next page begins after it.
    fn mark_sent(&mut self, item: &Self::Item);

    fn write_event(item: &Self::Item) -> Event;
}

pub(crate) struct LivePage<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Next,
    /// Number of the newest item.
    pub(crate) newest: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Page,
    /// Nothing until a nudge.
    Nudge,
    /// The end of the stream.
    End,
}

pub(crate) struct LiveStream<S> {
    pub(crate) app: App,
    /// Checked before every page, so that a revoked token ends the stream.
    pub(crate) token: StreamToken,
    pub(crate) source: S,
}

impl<S: LiveSource> LiveStream<S> {
    /// Sends a first page and then what follows. The stream ends with its source or its token, when the reader
    /// disconnects, and when the gateway stops.
    ///
    /// # Errors
    /// 400 for a reader that has `seen` an item above the newest one; `expected` describes a valid id.
    pub(crate) async fn respond(
        self,
        seen: Option<u64>,
        expected: &str,
    ) -> Result<Response, Problem> {
        let (workspace, name) = self.source.caller();
        let permit = self.app.streams.take(workspace, &name)?;
        let changes = self.app.nudges.subscribe(self.source.topic());
        let first = self.source.read().await?;
        if seen.is_some_and(|seen| seen > first.newest) {
            return Err(invalid_last_event_id(expected));
        }
        let (sender, receiver) = mpsc::channel(ITEMS_AHEAD);
        let (tasks, closing) = (self.app.tasks.clone(), self.app.closing.clone());
        tasks.spawn(async move {
            let closed = sender.clone();
            tokio::select! {
                () = self.send_pages(first, changes, &sender, permit) => {}
                () = closed.closed() => {}
                () = closing.cancelled() => {}
            }
        });
        let events = ReceiverStream::new(receiver).map(|item| S::write_event(&item));
        Ok(respond(events))
    }

    async fn send_pages(
        mut self,
        first: LivePage<S::Item>,
        mut changes: Changes,
        sender: &mpsc::Sender<S::Item>,
        _permit: ConcurrencyPermit,
    ) {
        let mut page = first;
        loop {
            for item in page.items {
                self.source.mark_sent(&item);
                if sender.send(item).await.is_err() {
                    return;
                }
            }
            match page.next {
                Next::Page => {}
                Next::Nudge => {
                    tokio::time::sleep(S::READ_INTERVAL_MIN).await;
                    drop(tokio::time::timeout(READ_INTERVAL_MAX, changes.next()).await);
                }
                Next::End => return,
            }
            page = match read_page(&self.app, &self.token, &self.source).await {
                Some(page) => page,
                None => return,
            };
        }
    }
}

/// The next page. It is read until its service answers; none for an invalid token or a permanent problem.
async fn read_page<S: LiveSource>(
    app: &App,
    token: &StreamToken,
    source: &S,
) -> Option<LivePage<S::Item>> {
    loop {
        let page = match token.is_valid(app).await {
            Ok(true) => source.read().await,
            Ok(false) => return None,
            Err(problem) => Err(problem),
        };
        match page {
            Ok(page) => return Some(page),
            Err(problem) if problem.is_transient() => tokio::time::sleep(READ_INTERVAL_MAX).await,
            Err(problem) => {
                tracing::warn!(%problem, "live events cannot be read; the stream is closed");
                return None;
            }
        }
    }
}

pub(crate) fn write_json(event: Event, data: &impl Serialize) -> Event {
    event.json_data(data).unwrap_or_else(|error| {
        tracing::error!(%error, "live event cannot be serialized; the reader gets a comment instead");
        Event::default().comment("an event that cannot be shown")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn a_stream_is_what_was_asked_for_by_name() {
        for accept in [
            "text/event-stream",
            "application/json, Text/Event-Stream;q=0.5",
        ] {
            assert!(wants_stream(&headers("accept", accept)), "{accept}");
        }
        for accept in ["*/*", "application/json", ""] {
            assert!(!wants_stream(&headers("accept", accept)), "{accept}");
        }
    }

    #[test]
    fn a_last_event_id_is_what_an_event_had() {
        let read = |headers: &HeaderMap| last_event_id::<u64>(headers, "a number");
        assert_eq!(read(&HeaderMap::new()).unwrap(), None);
        assert_eq!(read(&headers("last-event-id", "7")).unwrap(), Some(7));
        for wrong in ["x", "-1", "", "1.5"] {
            let problem = read(&headers("last-event-id", wrong)).unwrap_err();
            assert_eq!(
                (problem.status, problem.code.as_str()),
                (400, "invalid_last_event_id"),
                "{wrong}"
            );
        }
    }
}
