//! Fair queueing between workspaces (finding B-6, decision 55).
//!
//! A workspace with many calls of one queue in progress sends further ones to the backlog of that queue. Workers keep
//! some slots free of the backlog, so a call of another workspace does not wait behind it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdpoint_contracts::run::StepStatus;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::subject::Lane;
use holdpoint_ids::{RunId, Workspace};

use crate::domain::StepRow;

/// Calls of one workspace in one queue that are in progress before the next ones go to the backlog.
pub(crate) const SHARE: usize = 16;

/// Most calls that are counted. Further ones are in the backlog, if the counted ones of their workspace are.
const COUNTED_MAX: usize = 200_000;

/// How long a call counts whose end another replica has decided.
const COUNTED_FOR: Duration = Duration::from_hours(1);

/// How often calls are searched that no longer count.
const SEARCH_EVERY: Duration = Duration::from_mins(10);

/// The calls in progress that this replica has dispatched. A lane is no right, so a wrong count only delays.
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
    /// The lane of a dispatch, which counts from now on. A call that is dispatched again keeps its lane.
    pub(crate) fn lane(&self, dispatch: &StepDispatch, queue: &str) -> Lane {
        let share = (dispatch.workspace.clone(), queue.to_owned());
        let step = (dispatch.run, dispatch.step.as_str());
        self.calls().add(step, share, Instant::now())
    }

    /// Notes the new state of a step. One that a worker has or will get counts, and no other one.
    pub(crate) fn note(&self, row: &StepRow) {
        let is_in_progress = matches!(
            row.status,
            StepStatus::Queued | StepStatus::Claimed | StepStatus::InProgress | StepStatus::Stale
        );
        if !is_in_progress {
            self.calls().remove(row.run, &row.step);
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    fn add(&mut self, (run, step): (RunId, &str), share: ShareKey, now: Instant) -> Lane {
        self.forget_old(now);
        let mut of_run = self.by_run.get(&run).into_iter().flatten();
        if let Some(call) = of_run.find(|call| call.step == step) {
            return call.lane;
        }
        let count = self.counts.get(&share).copied().unwrap_or(0);
        let lane = if count < SHARE {
            Lane::Normal
        } else {
            Lane::Backlog
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

    fn remove(&mut self, run: RunId, step: &str) {
        let Some(calls) = self.by_run.get_mut(&run) else {
            return;
        };
        let Some(index) = calls.iter().position(|call| call.step == step) else {
            return;
        };
        let call = calls.swap_remove(index);
        if calls.is_empty() {
            self.by_run.remove(&run);
        }
        self.discount(&call.share);
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
            calls.add((*run, "step-01"), share.clone(), now);
        }
        runs
    }

    /// B-6
    #[test]
    fn calls_above_the_share_of_a_workspace_go_to_the_backlog() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let acme = share("acme", "http_request");
        let runs = add_many(&mut calls, &acme, SHARE, now);
        let lane = |calls: &mut Calls, share: &ShareKey| {
            let run = RunId::fresh();
            let lane = calls.add((run, "step-01"), share.clone(), now);
            calls.remove(run, "step-01");
            lane
        };
        assert_eq!(lane(&mut calls, &acme), Lane::Backlog);
        assert_eq!(
            lane(&mut calls, &share("other", "http_request")),
            Lane::Normal
        );
        assert_eq!(lane(&mut calls, &share("acme", "log")), Lane::Normal);
        calls.remove(runs[3], "another-step");
        assert_eq!(lane(&mut calls, &acme), Lane::Backlog);
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
                calls.add((runs[0], "step-01"), acme.clone(), now),
                Lane::Normal
            );
            assert_eq!(
                calls.add((runs[SHARE], "step-01"), acme.clone(), now),
                Lane::Backlog
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
    fn a_call_whose_end_is_not_seen_counts_for_an_hour() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        let acme = share("acme", "http_request");
        add_many(&mut calls, &acme, SHARE, now);
        let later = |calls: &mut Calls, after: Duration| {
            let run = RunId::fresh();
            calls.add((run, "step-01"), acme.clone(), now + after)
        };
        assert_eq!(later(&mut calls, COUNTED_FOR - SEARCH_EVERY), Lane::Backlog);
        assert_eq!(later(&mut calls, COUNTED_FOR), Lane::Normal);
        assert_eq!(calls.total, 2);
    }

    #[test]
    fn the_number_of_counted_calls_has_a_bound() {
        let (mut calls, now) = (Calls::default(), Instant::now());
        calls.total = COUNTED_MAX;
        add_many(&mut calls, &share("acme", "log"), 10, now);
        assert!(calls.by_run.is_empty() && calls.counts.is_empty());
    }
}
