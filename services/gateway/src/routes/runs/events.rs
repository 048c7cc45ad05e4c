//! `GET /runs/{run}/events`: the history as a page, or live.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetHistory, HistoryPage};
use holdpoint_contracts::history::HistoryItem;
use holdpoint_contracts::run::Page;
use holdpoint_ids::{RunId, Workspace};

use crate::auth::run_reader::{RunReader, StreamToken};
use crate::call::{Call, NoBody};
use crate::nudges::Topic;
use crate::params::{Params, invalid};
use crate::problem::{ApiError, ApiResult};
use crate::redaction::runs::redact_items;
use crate::sse::{LivePage, LiveSource, LiveStream, Next, last_event_id, wants_stream, write_json};

/// Items of one query of a stream.
const LIVE_PAGE: u64 = 500;

/// The history after a number, which is `after` or the `cursor` of the page before.
pub(super) async fn events(
    headers: HeaderMap,
    call: Call<RunReader, RunId, NoBody, Params>,
) -> ApiResult<Response> {
    let (reader, run) = (call.caller, call.id);
    reader.require_run(run)?;
    let params = call.params.only(&["after", "cursor", "limit"])?;
    let after = match (params.read_as("after")?, params.read_as("cursor")?) {
        (Some(_), Some(_)) => {
            return Err(ApiError(invalid("expected `after` or `cursor`, not both")));
        }
        (after, cursor) => after.or(cursor).unwrap_or(0),
    };
    let limit = params.limit()?;
    if wants_stream(&headers) {
        let resumed = last_event_id(&headers, "the number of an event")?;
        let after = resumed.unwrap_or(after);
        let live = LiveStream {
            app: reader.app.clone(),
            token: StreamToken::of(&headers),
            source: History { reader, run, after },
        };
        let expected = "at most the number of the newest event";
        return Ok(live.respond(resumed, expected).await?);
    }
    let query = GetHistory { run, after, limit };
    let mut page = reader.query(query).await?;
    page.items = redact_items(&reader, run, page.items).await;
    Ok(Json(as_page(page)).into_response())
}

fn as_page(page: HistoryPage) -> Page<HistoryItem> {
    let reached = page.items.last().map(|item| item.seq);
    let next_cursor = reached
        .filter(|seq| *seq < page.last_seq)
        .map(|seq| seq.to_string());
    Page {
        items: page.items,
        next_cursor,
    }
}

/// The history of one run after an item, until the run is final.
struct History {
    reader: RunReader,
    run: RunId,
    /// Number of the last sent item.
    after: u64,
}

impl LiveSource for History {
    type Item = HistoryItem;

    fn caller(&self) -> (&Workspace, String) {
        (&self.reader.workspace, self.reader.name())
    }

    async fn read(&self) -> Result<LivePage<HistoryItem>, Problem> {
        let query = GetHistory {
            run: self.run,
            after: self.after,
            limit: LIVE_PAGE,
        };
        let page = self.reader.query(query).await.map_err(|error| error.0)?;
        let reached = page.items.last().map_or(self.after, |item| item.seq);
        let next = if reached < page.last_seq && !page.items.is_empty() {
            Next::Page
        } else if page.run_final {
            Next::End
        } else {
            Next::Nudge
        };
        Ok(LivePage {
            items: redact_items(&self.reader, self.run, page.items).await,
            next,
            newest: page.last_seq,
        })
    }

    fn topic(&self) -> Topic {
        Topic::Run(self.run)
    }

    fn mark_sent(&mut self, item: &HistoryItem) {
        self.after = item.seq;
    }

    fn write_event(item: &HistoryItem) -> Event {
        let event = Event::default()
            .id(item.seq.to_string())
            .event(item.kind.as_str());
        write_json(event, item)
    }
}
