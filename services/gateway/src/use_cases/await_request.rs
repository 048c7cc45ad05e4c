//! Waiting for a request: until the handoff service knows it, or until it has ended.

use std::time::Duration;

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{GetRequest, RequestView};
use holdpoint_ids::{HoldId, Workspace};
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::auth::run_reader::RunReader;
use crate::nudges::Topic;

/// The request is queried at most this often, however many nudges come.
const QUERY_INTERVAL_MIN: Duration = Duration::from_millis(5);
/// A lost nudge delays the answer by at most this time.
pub(crate) const QUERY_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// The same, for a wait of a few seconds.
pub(crate) const SHORT_QUERY_INTERVAL: Duration = Duration::from_millis(500);
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
    let mut changes = app.nudges.subscribe(Topic::Request(id));
    loop {
        match app.bus.query(workspace, &GetRequest { id }).await {
            Err(problem) if problem.status == 404 && is_expected && Instant::now() < deadline => {
                let latest = deadline.min(Instant::now() + SHORT_QUERY_INTERVAL);
                drop(timeout_at(latest, changes.next()).await);
            }
            other => return other,
        }
    }
}

/// The request once it has ended, or as it is at the deadline. The wait counts as a live stream of the reader.
pub(crate) async fn await_request(
    reader: &RunReader,
    id: HoldId,
    deadline: Instant,
    has_ended: impl Fn(&RequestView) -> bool,
) -> Result<RequestView, Problem> {
    let (app, workspace) = (&reader.app, &reader.workspace);
    if deadline <= Instant::now() {
        return app.bus.query(workspace, &GetRequest { id }).await;
    }
    let _permit = app.streams.take(workspace, &reader.name())?;
    query_until(app, workspace, id, deadline, has_ended).await
}

/// The request once it satisfies the condition, or as it is at the deadline. It is queried after a nudge, and every
/// few seconds in case a nudge was lost.
pub(super) async fn query_until(
    app: &App,
    workspace: &Workspace,
    id: HoldId,
    deadline: Instant,
    is_satisfied: impl Fn(&RequestView) -> bool,
) -> Result<RequestView, Problem> {
    let mut changes = app.nudges.subscribe(Topic::Request(id));
    loop {
        let asked_at = Instant::now();
        let request = app.bus.query(workspace, &GetRequest { id }).await?;
        let is_over = Instant::now() >= deadline || app.closing.is_cancelled();
        if is_satisfied(&request) || is_over {
            return Ok(request);
        }
        tokio::select! {
            () = changes.next() => {
                tokio::time::sleep_until(deadline.min(asked_at + QUERY_INTERVAL_MIN)).await;
            }
            () = tokio::time::sleep_until(deadline.min(asked_at + QUERY_INTERVAL_MAX)) => {}
            () = app.closing.cancelled() => {}
        }
    }
}
