//! Waiting for a request: until the handoff service knows it, or until it has ended.

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use holdpoint_contracts::handoff::{self, GetRequest, RequestNudge, RequestView};
use holdpoint_contracts::{Problem, subject};
use holdpoint_ids::{HoldId, Workspace};
use tokio::time::Instant;

use crate::app::App;
use crate::auth::run_reader::RunReader;

/// The request is queried at most this often, however many nudges come.
pub(crate) const QUERY_INTERVAL_MIN: Duration = Duration::from_millis(50);
/// A lost nudge delays the answer by at most this time.
const QUERY_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// How long the desired state of a new hold may take to reach the handoff service.
const DELIVERY_MAX: Duration = Duration::from_secs(3);

/// Reads a request. A run shows its request a moment before the handoff service has it (C-3), so an expected
/// request is queried again for some seconds.
pub(crate) async fn read_when_delivered(
    app: &App,
    workspace: &Workspace,
    id: HoldId,
    is_expected: bool,
) -> Result<RequestView, Problem> {
    let deadline = Instant::now() + DELIVERY_MAX;
    loop {
        match app.bus.query(workspace, &GetRequest { id }).await {
            Err(problem) if problem.status == 404 && is_expected && Instant::now() < deadline => {
                tokio::time::sleep(QUERY_INTERVAL_MIN).await;
            }
            other => return other,
        }
    }
}

/// The request once it has ended, or as it is at the deadline. It is queried after a nudge, and every few
/// seconds in case a nudge was lost.
pub(crate) async fn await_request(
    reader: &RunReader,
    id: HoldId,
    deadline: Instant,
    has_ended: impl Fn(&RequestView) -> bool,
) -> Result<RequestView, Problem> {
    let (app, workspace, query) = (&reader.app, &reader.workspace, GetRequest { id });
    if deadline <= Instant::now() {
        return app.bus.query(workspace, &query).await;
    }
    let _permit = app.streams.take(workspace, &reader.name())?;
    let nudges = subject::live(workspace, handoff::SERVICE);
    let mut nudges = app.bus.client().subscribe(nudges).await.map_err(|error| {
        tracing::warn!(%error, "cannot subscribe to nudges; a long poll is refused with 503");
        Problem::unavailable("waiting is not possible at the moment; try again")
    })?;
    loop {
        let asked_at = Instant::now();
        let request = app.bus.query(workspace, &query).await?;
        let is_over = Instant::now() >= deadline || app.closing.is_cancelled();
        if has_ended(&request) || is_over {
            return Ok(request);
        }
        tokio::select! {
            () = await_nudge(&mut nudges, id) => {
                tokio::time::sleep_until(deadline.min(asked_at + QUERY_INTERVAL_MIN)).await;
            }
            () = tokio::time::sleep_until(deadline.min(asked_at + QUERY_INTERVAL_MAX)) => {}
            () = app.closing.cancelled() => {}
        }
    }
}

/// Waits for a nudge about the request, or for a malformed one.
async fn await_nudge(nudges: &mut (impl Stream<Item = async_nats::Message> + Unpin), id: HoldId) {
    while let Some(message) = nudges.next().await {
        match serde_json::from_slice::<RequestNudge>(&message.payload) {
            Ok(nudge) if !nudge.requests.contains_key(&id) => {}
            Ok(_) | Err(_) => return,
        }
    }
    // The subscription ended with its connection; the slow queries continue.
    std::future::pending::<()>().await;
}
