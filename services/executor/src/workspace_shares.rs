//! Fair queueing between workspaces (finding B-6, decision 55).
//!
//! A workspace with many calls of one queue in progress sends further ones to the overflow of that queue. Workers keep
//! some slots free of the overflow, so a call of another workspace does not wait behind it.
//!
//! Each replica counts the calls that it has dispatched. Another replica may decide how a call ends. It then tells all
//! replicas, because it does not know the call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use holdpoint_bus::Bus;
use holdpoint_contracts::run::StepStatus;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_ids::{RunId, Workspace};
use tokio_util::sync::CancellationToken;

use crate::domain::StepRow;

/// Calls of one workspace in one queue that are in progress before the next ones go to the overflow.
pub(crate) const SHARE: usize = 16;

/// Most calls that are counted. Further ones are in the overflow, if the counted ones of their workspace are.
const COUNTED_MAX: usize = 200_000;

/// How long a call counts at most. Its end may be lost with the connection to the bus.
const COUNTED_FOR: Duration = Duration::from_mins(10);

/// How often calls are searched that no longer count.
const SEARCH_EVERY: Duration = Duration::from_mins(1);

/// Ends of calls in one message, so that it stays far below the largest message of the bus. Further calls count until
/// [`COUNTED_FOR`] has passed.
const ENDED_MAX: usize = 1_000;

/// A call: the run and its step.
type CallRef = (RunId, String);

/// The calls in progress that this replica has dispatched.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceShares {
    calls: Mutex<Calls>,
}

/// A workspace and one of its queues.
type ShareKey = (Workspace, String);

#[derive(Debug, Default)]
struct Calls {
    by_run: HashMap<RunId, Vec<Call>>,
    counts: HashMap<ShareKey, usize>,
    total: usize,
    searched_at: Option<Instant>,
}

#[derive(Debug)]
struct Call {
    step: String,
    share: ShareKey,
    since: Instant,
    lane: Lane,
}

impl WorkspaceShares {
    /// Counts a dispatch and chooses its lane. A call that is dispatched again keeps its lane.
    pub(crate) fn assign_lane(&self, dispatch: &StepDispatch, queue: &str) -> Lane {
        let share = (dispatch.workspace.clone(), queue.to_owned());
        (self.calls()).add(dispatch.run, &dispatch.step, share, Instant::now())
    }

    /// Discounts the calls that have ended by their newest rows. Returns the message to the other replicas, if this one
    /// does not know some of them.
    pub(crate) fn note<'r>(&self, rows: impl Iterator<Item = &'r StepRow>) -> Option<Bytes> {
        // A retry resets a row and dispatches its step in one decision.
        let newest: BTreeMap<_, _> = rows.map(|row| ((row.run, &row.step), row)).collect();
        let mut calls = self.calls();
        let ended = newest.into_values().filter(|row| !is_in_progress(row));
        let unknown = ended.filter(|row| !calls.remove(row.run, &row.step) && row.dispatch > 0);
        let unknown: Vec<_> = unknown.map(|row| (row.run, &row.step)).collect();
        let sent = unknown.get(..ENDED_MAX).unwrap_or(&unknown);
        if sent.is_empty() {
            return None;
        }
        let body = serde_json::to_vec(sent);
        let body = body.inspect_err(|error| tracing::error!(%error, "ended calls not written"));
        body.ok().map(Bytes::from)
    }

    /// Discounts calls that another replica has ended.
    fn discount(&self, message: &[u8]) -> serde_json::Result<()> {
        let ended: Vec<CallRef> = serde_json::from_slice(message)?;
        let mut calls = self.calls();
        for (run, step) in ended {
            calls.remove(run, &step);
        }
        Ok(())
    }

    /// Follows the other replicas until `stop`.
    pub(crate) async fn follow(self: Arc<Self>, bus: Bus, stop: CancellationToken) {
        let subject = subject::ended_calls();
        let mut ended = match bus.client().subscribe(subject).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::warn!(%error, "ends of calls at other replicas are not followed");
                return;
            }
        };
        while let Some(Some(message)) = stop.run_until_cancelled(ended.next()).await {
            if let Err(error) = self.discount(&message.payload) {
                tracing::warn!(%error, "ends of calls at another replica cannot be read");
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a worker has the step or will get it.
fn is_in_progress(row: &StepRow) -> bool {
    matches!(
        row.status,
        StepStatus::Queued | StepStatus::Claimed | StepStatus::InProgress | StepStatus::Stale
    )
}

impl Calls {
    fn add(&mut self, run: RunId, step: &str, share: ShareKey, now: Instant) -> Lane {
        self.forget_old(now);
        let mut of_run = self.by_run.get(&run).into_iter().flatten();
        if let Some(call) = of_run.find(|call| call.step == step) {
            return call.lane;
        }
        let count = self.counts.get(&share).copied().unwrap_or(0);
        let lane = if count < SHARE {
            Lane::Normal
        } else {
            Lane::Overflow
        };
        if self.total < COUNTED_MAX {
            self.total += 1;
            self.counts.insert(share.clone(), count + 1);
            self.by_run.entry(run).or_default().push(Call {
                step: step.to_owned(),
                share,
                since: now,
                lane,
            });
        }
        lane
    }

    /// Whether it was counted.
    fn remove(&mut self, run: RunId, step: &str) -> bool {
        let Some(calls) = self.by_run.get_mut(&run) else {
            return false;
        };
        let Some(index) = calls.iter().position(|call| call.step == step) else {
            return false;
        };
        let call = calls.swap_remove(index);
        if calls.is_empty() {
            self.by_run.remove(&run);
        }
        self.discount(&call.share);
        true
    }

    fn discount(&mut self, share: &ShareKey) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.counts.get_mut(share) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(share);
            }
        }
    }

    fn forget_old(&mut self, now: Instant) {
        let searched_at = *self.searched_at.get_or_insert(now);
        if now.duration_since(searched_at) < SEARCH_EVERY {
            return;
        }
        self.searched_at = Some(now);
        let mut old = Vec::new();
        self.by_run.retain(|_, calls| {
            let is_old = |call: &mut Call| now.duration_since(call.since) >= COUNTED_FOR;
            old.extend(calls.extract_if(.., is_old).map(|call| call.share));
            !calls.is_empty()
        });
        for share in old {
            self.discount(&share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(workspace: &str, queue: &str) -> ShareKey {
        (workspace.parse().unwrap(), queue.to_owned())
    }

    fn add_many(calls: &mut Calls, share: &ShareKey, number: usize, now: Instant) -> Vec<RunId> {
        let runs: Vec<_> = (0..number).map(|_| RunId::fresh()).collect();
        for run in &runs {
            calls.add(*run, "step-01", share.clone(), now);
        }
        runs
    }

    /// B-6
    #[test]
    fn calls_above_the_share_of_a_workspace_go_to_the_overflow() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let acme = share("acme", "http_request");
        let runs = add_many(&mut calls, &acme, SHARE, now);
        let lane = |calls: &mut Calls, share: &ShareKey| {
            let run = RunId::fresh();
            let lane = calls.add(run, "step-01", share.clone(), now);
            calls.remove(run, "step-01");
            lane
        };
        assert_eq!(lane(&mut calls, &acme), Lane::Overflow);
        assert_eq!(
            lane(&mut calls, &share("other", "http_request")),
            Lane::Normal
        );
        assert_eq!(lane(&mut calls, &share("acme", "log")), Lane::Normal);
        calls.remove(runs[3], "another-step");
        assert_eq!(lane(&mut calls, &acme), Lane::Overflow);
        calls.remove(runs[3], "step-01");
        assert_eq!(lane(&mut calls, &acme), Lane::Normal);
    }

    #[test]
    fn a_call_that_is_dispatched_again_counts_once_and_keeps_its_lane() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let acme = share("acme", "http_request");
        let runs = add_many(&mut calls, &acme, SHARE + 1, now);
        for _ in 0..3 {
            assert_eq!(
                calls.add(runs[0], "step-01", acme.clone(), now),
                Lane::Normal
            );
            assert_eq!(
                calls.add(runs[SHARE], "step-01", acme.clone(), now),
                Lane::Overflow
            );
        }
        for run in runs {
            calls.remove(run, "step-01");
            calls.remove(run, "step-01");
        }
        assert!(calls.by_run.is_empty() && calls.counts.is_empty());
        assert_eq!(calls.total, 0);
    }

    #[test]
    fn a_call_whose_end_is_not_seen_counts_for_some_minutes() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let acme = share("acme", "http_request");
        add_many(&mut calls, &acme, SHARE, now);
        let later = |calls: &mut Calls, after: Duration| {
            let run = RunId::fresh();
            calls.add(run, "step-01", acme.clone(), now + after)
        };
        assert_eq!(
            later(&mut calls, COUNTED_FOR - SEARCH_EVERY),
            Lane::Overflow
        );
        assert_eq!(later(&mut calls, COUNTED_FOR), Lane::Normal);
        assert_eq!(calls.total, 2);
    }

    fn row(run: RunId, status: StepStatus) -> StepRow {
        crate::outbound::tests::step_row(run, status)
    }

    /// Two replicas: one dispatches, and the other one decides how the call ends.
    #[test]
    fn a_call_that_another_replica_ends_counts_no_more() {
        let [first, second] = [WorkspaceShares::default(), WorkspaceShares::default()];
        let now = Instant::now();
        let runs = add_many(&mut first.calls(), &share("acme", "log"), 3, now);
        let rows = [
            row(runs[0], StepStatus::Completed),
            row(runs[1], StepStatus::InProgress),
        ];
        let message = second.note(rows.iter()).unwrap();
        first.discount(&message).unwrap();
        assert_eq!(first.calls().total, 2);
        assert!(
            first
                .note(std::iter::once(&row(runs[2], StepStatus::Failed)))
                .is_none()
        );
        assert_eq!(first.calls().total, 1);
        assert!(first.discount(b"{}").is_err());
    }

    /// A retry resets the row and dispatches the step in one decision.
    #[test]
    fn the_newest_row_of_a_batch_counts() {
        let shares = WorkspaceShares::default();
        let runs = add_many(
            &mut shares.calls(),
            &share("acme", "log"),
            1,
            Instant::now(),
        );
        let rows = [
            row(runs[0], StepStatus::Planned),
            row(runs[0], StepStatus::Queued),
        ];
        assert!(shares.note(rows.iter()).is_none());
        assert_eq!(shares.calls().total, 1);
    }

    #[test]
    fn the_number_of_counted_calls_has_a_bound() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        calls.total = COUNTED_MAX;
        add_many(&mut calls, &share("acme", "log"), 10, now);
        assert!(calls.by_run.is_empty() && calls.counts.is_empty());
    }
}
