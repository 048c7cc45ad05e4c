//! Server-sent events of the API: who asks for them, from where on, and how they are sent.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use holdpoint_contracts::Problem;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// A lost nudge is made up for after this time.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A comment as a sign of life, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Whether a stream is asked for by name.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// The event after which a reader goes on; `what` says what its id is.
pub(crate) fn last_event_id<T: FromStr>(
    headers: &HeaderMap,
    what: &str,
) -> Result<Option<T>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some).ok_or_else(|| wrong_last_event_id(what))
}

pub(crate) fn wrong_last_event_id(what: &str) -> Problem {
    Problem::new(
        400,
        "invalid_last_event_id",
        format!("`Last-Event-ID` {what}"),
    )
}

/// Sends what comes out of a channel, until that is closed.
pub(crate) fn answer<T: Send + 'static>(
    items: mpsc::Receiver<T>,
    as_event: impl Fn(&T) -> Event + Send + 'static,
) -> Response {
    let events = ReceiverStream::new(items).map(move |item| Ok::<_, Infallible>(as_event(&item)));
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(BUFFERING, "no")], sse).into_response()
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
        let read = |headers: &HeaderMap| last_event_id::<u64>(headers, "is a number");
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
