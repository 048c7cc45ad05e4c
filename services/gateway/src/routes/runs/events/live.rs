//! The live end of a run's history, as server-sent events.

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{self, GetHistory, HistoryPage};
use holdpoint_contracts::history::{HistoryItem, Nudge};
use holdpoint_ids::RunId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::app::App;
use crate::caller::{Reader, StreamToken};
use crate::concurrency::ConcurrencyPermit;
use crate::sse::{self, LOOK_AGAIN, wrong_last_event_id};

/// Items that are asked for at a time.
const PAGE: u64 = 500;
/// Items that wait for a slow reader; then no more are asked for.
const AHEAD: usize = 64;

/// One reader of one run.
struct Live {
    app: App,
    reader: Reader,
    standing: StreamToken,
    run: RunId,
    /// Number of the last item that was handed over.
    after: u64,
    _permit: ConcurrencyPermit,
}

/// Everything after `resumed`, or else after `after`, and then what comes, until the run is final.
pub(super) async fn stream(
    app: App,
    (reader, standing): (Reader, StreamToken),
    run: RunId,
    after: u64,
    resumed: Option<u64>,
) -> Result<Response, Problem> {
    let permit = app.streams.take(&reader.workspace, &reader.name())?;
    let nudges = app
        .bus
        .live::<Nudge>(&reader.workspace, executor::SERVICE)
        .await
        .map_err(|error| {
            tracing::warn!(%error, "no live events");
            Problem::unavailable("live events cannot be had at the moment; try again")
        })?;
    let after = resumed.unwrap_or(after);
    let live = Live {
        app,
        reader,
        standing,
        run,
        after,
        _permit: permit,
    };
    let first = live.page().await?;
    if resumed.is_some_and(|seq| seq > first.last_seq) {
        return Err(wrong_last_event_id(
            "is greater than the number of the newest event",
        ));
    }
    let (items, receiver) = mpsc::channel(AHEAD);
    let tasks = live.app.tasks.clone();
    tasks.spawn(live.follow(first, nudges, items));
    Ok(sse::answer(receiver, as_event))
}

impl Live {
    async fn page(&self) -> Result<HistoryPage, Problem> {
        let query = GetHistory {
            run: self.run,
            after: self.after,
            limit: PAGE,
        };
        let workspace = &self.reader.workspace;
        let mut page = self.app.bus.query(workspace, &query).await?;
        if page.items.is_empty() {
            return Ok(page);
        }
        let hidden = self.app.hidden(workspace, self.reader.user(), self.run);
        if let Some(hidden) = hidden.await {
            page.items = page
                .items
                .into_iter()
                .map(|item| hidden.item(item))
                .collect();
        }
        Ok(page)
    }

    /// Hands over page after page; returns when the run is final and all was handed over, when the
    /// reader has gone, or when the gateway ends.
    async fn follow(
        mut self,
        first: HistoryPage,
        mut nudges: impl Stream<Item = Nudge> + Unpin,
        items: mpsc::Sender<HistoryItem>,
    ) {
        let closing = self.app.closing.clone();
        let following = async {
            let mut page = first;
            while self.hand_over(page, &items).await {
                self.news(&mut nudges).await;
                page = match self.next_page().await {
                    Some(page) => page,
                    None => return,
                };
            }
        };
        tokio::select! {
            () = following => {}
            () = items.closed() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Hands over this page and what follows it; whether there is more to wait for.
    async fn hand_over(
        &mut self,
        mut page: HistoryPage,
        items: &mpsc::Sender<HistoryItem>,
    ) -> bool {
        loop {
            let is_empty = page.items.is_empty();
            for item in page.items {
                self.after = item.seq;
                if items.send(item).await.is_err() {
                    return false;
                }
            }
            if self.after >= page.last_seq || is_empty {
                return !page.run_final;
            }
            page = match self.next_page().await {
                Some(next) => next,
                None => return false,
            };
        }
    }

    /// The next page, asked for until the executor answers; none when the run is gone, and for whoever may
    /// listen no more.
    async fn next_page(&self) -> Option<HistoryPage> {
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
                    tracing::warn!(%problem, run = %self.run, "live events end early");
                    return None;
                }
            }
        }
    }

    /// Waits for a nudge about this run, or until it is time to look again.
    async fn news(&self, nudges: &mut (impl Stream<Item = Nudge> + Unpin)) {
        let again = Instant::now() + LOOK_AGAIN;
        let nudged = async {
            while let Some(nudge) = nudges.next().await {
                let news = |(run, seq): &(RunId, u64)| *run == self.run && *seq > self.after;
                if nudge.runs.iter().any(news) {
                    return;
                }
            }
            // The subscription has ended with its connection; the clock goes on.
            std::future::pending::<()>().await;
        };
        drop(tokio::time::timeout_at(again, nudged).await);
    }
}

fn as_event(item: &HistoryItem) -> Event {
    let event = Event::default()
        .id(item.seq.to_string())
        .event(item.kind.as_str());
    event.json_data(item).unwrap_or_else(|error| {
        tracing::error!(%error, "a history item that cannot be written");
        Event::default().comment("an item that cannot be shown")
    })
}
