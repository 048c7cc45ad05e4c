//! The live end of a run's history, as server-sent events.

use axum::response::Response;
use axum::response::sse::Event;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{self, GetHistory};
use holdpoint_contracts::history::{HistoryItem, Nudge};
use holdpoint_ids::RunId;

use crate::auth::run_reader::{RunReader, StreamToken};
use crate::problem::{ApiError, ApiResult};
use crate::redaction::runs::redact_items;
use crate::sse::{
    LivePage, LiveSource, LiveStream, Next, invalid_last_event_id, live_unavailable, write_json,
};

/// Items of one query.
const PAGE: u64 = 500;

/// The history of one run after an item.
pub(super) struct History {
    pub(super) reader: RunReader,
    pub(super) run: RunId,
    /// Number of the last sent item.
    pub(super) after: u64,
}

/// Everything after `resumed`, else after `source.after`, and then new items until the run is final.
pub(super) async fn stream(
    mut source: History,
    token: StreamToken,
    resumed: Option<u64>,
) -> ApiResult<Response> {
    let app = source.reader.app.clone();
    let workspace = &source.reader.workspace;
    let permit = app.streams.take(workspace, &source.reader.name())?;
    let nudges = app.bus.live::<Nudge>(workspace, executor::SERVICE);
    let nudges = nudges.await.map_err(|error| live_unavailable(&error))?;
    source.after = resumed.unwrap_or(source.after);
    let (first, last_seq) = source.read_history().await?;
    if resumed.is_some_and(|seq| seq > last_seq) {
        let expected = "at most the number of the newest event";
        return Err(invalid_last_event_id(expected).into());
    }
    let live = LiveStream {
        app,
        token,
        source,
        permit,
    };
    Ok(live.respond(first, nudges))
}

impl History {
    /// A page, and the number of the newest item.
    async fn read_history(&self) -> ApiResult<(LivePage<HistoryItem>, u64)> {
        let (run, after) = (self.run, self.after);
        let query = GetHistory {
            run,
            after,
            limit: PAGE,
        };
        let page = self.reader.query(query).await?;
        let reached = page.items.last().map_or(self.after, |item| item.seq);
        let next = if reached < page.last_seq && !page.items.is_empty() {
            Next::Page
        } else if page.run_final {
            Next::End
        } else {
            Next::Nudge
        };
        let items = redact_items(&self.reader, run, page.items).await;
        Ok((LivePage { items, next }, page.last_seq))
    }
}

impl LiveSource for History {
    type Item = HistoryItem;
    type Nudge = Nudge;

    async fn read(&self) -> Result<LivePage<HistoryItem>, Problem> {
        let read = self.read_history().await;
        read.map(|(page, _last_seq)| page)
            .map_err(|ApiError(problem)| problem)
    }

    fn is_about(&self, nudge: &Nudge) -> bool {
        let is_new = |(run, seq): &(RunId, u64)| *run == self.run && *seq > self.after;
        nudge.runs.iter().any(is_new)
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
