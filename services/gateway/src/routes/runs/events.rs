//! `GET /runs/{run}/events`: history as a page, or live.
//!
//! Live, it subscribes before it reads, and a nudge only makes it read again: what a nudge says is
//! never sent, so a lost one costs a moment and no item.

mod live;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetHistory, HistoryPage};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::RunId;

use crate::app::App;
use crate::caller::{Named, Reader};
use crate::params::{Params, invalid};
use crate::problem::Refused;

/// History after a number: `after`, or the `cursor` of the page before.
pub(super) async fn events(
    State(app): State<App>,
    reader: Reader,
    Named(run): Named<RunId>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    reader.sees(run)?;
    let params = params.only(&["after", "cursor", "limit"])?;
    let after = match (params.read_as("after")?, params.read_as("cursor")?) {
        (Some(_), Some(_)) => return Err(Refused(invalid("give `after` or `cursor`, not both"))),
        (after, cursor) => after.or(cursor).unwrap_or(0),
    };
    let limit = params.limit()?;
    if wants_stream(&headers) {
        let resumed = last_event_id(&headers)?;
        return Ok(live::stream(app, reader.workspace, run, after, resumed).await?);
    }
    let page = app
        .bus
        .query(&reader.workspace, &GetHistory { run, after, limit })
        .await?;
    Ok(Json(as_list(page)).into_response())
}

fn as_list(page: HistoryPage) -> Page<HistoryItem> {
    let reached = page.items.last().map(|item| item.seq);
    let next_cursor = reached
        .filter(|seq| *seq < page.last_seq)
        .map(|seq| seq.to_string());
    Page {
        items: page.items,
        next_cursor,
    }
}

fn wants_stream(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let seq = value.to_str().ok().and_then(|text| text.parse().ok());
    seq.map(Some)
        .ok_or_else(|| wrong_last_event_id("is the number of an event"))
}

fn wrong_last_event_id(what: &str) -> Problem {
    Problem::new(
        400,
        "invalid_last_event_id",
        format!("`Last-Event-ID` {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::HeaderName::from_static(name),
            value.parse().unwrap(),
        )])
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
    fn a_last_event_id_is_a_number() {
        assert_eq!(last_event_id(&HeaderMap::new()).unwrap(), None);
        assert_eq!(
            last_event_id(&headers("last-event-id", "7")).unwrap(),
            Some(7)
        );
        for wrong in ["x", "-1", "", "1.5"] {
            let problem = last_event_id(&headers("last-event-id", wrong)).unwrap_err();
            assert_eq!(
                (problem.status, problem.code.as_str()),
                (400, "invalid_last_event_id")
            );
        }
    }
}
