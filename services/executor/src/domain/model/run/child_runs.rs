//! Runs that a step of a run has started, and the step that has started a run.

use holdpoint_contracts::executor::RemainingBudget;
use holdpoint_contracts::run::{ParentRunView, RunStatus};
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::{Deserialize, Serialize};

use crate::domain::model::plan::limits::Budget;
use crate::domain::model::plan::run_steps::RunsUntil;
use crate::domain::model::run::{Run, RunBudget};

/// Longest chain of child runs below the first run.
pub const CHILD_DEPTH_MAX: usize = 8;

/// Most runs in progress below the first run. Each run has a share, which its open child runs divide.
pub const RUNS_BELOW_MAX: u32 = 10_000;

/// Most bytes of the output of a run, as JSON.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of the outputs of all runs of a step, as JSON: what every result may have.
pub const OUTPUTS_BYTES_MAX: usize = 256 * 1024;

/// Name of the value with the output of a run. No step can have this name.
pub const OUTPUT: &str = "$output";

/// Name of the value with the output of a child run. No step can have this name.
#[must_use]
pub fn child_output_name(child: RunId) -> String {
    format!("?output-{child}")
}

/// The runs that a step has started. They outlive the phase of the step, so that a late end is known and counts in the
/// budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRuns {
    /// The hold that waits for them.
    pub hold: HoldId,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub until: RunsUntil,
    /// Version of the run that has sent their newest desired states.
    pub rev: u64,
    /// In the order of the plan.
    pub runs: Vec<ChildRun>,
    /// How many runs may be in progress below each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_below: Option<u32>,
    /// The failure that decides about the step: the first one, or the last one with [`RunsUntil::First`]. It is kept
    /// until the step ends, because a person may own the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<ChildRunFailure>>,
    /// The first run that has completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_completed: Option<RunId>,
    /// Bytes of the outputs of the completed runs, as JSON.
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub output_bytes: usize,
}

/// Why a child run has not completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRunFailure {
    pub run: RunId,
    /// `failed` or `cancelled`.
    pub status: RunStatus,
    /// Code of a refused start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub message: String,
}

/// What the ends of child runs make of their step.
#[derive(Debug)]
pub enum RunsOutcome {
    /// The end of this run completes it.
    One(RunId),
    /// All have completed.
    All,
    /// The outputs of the completed runs have this many bytes, which is too many.
    TooLarge(usize),
    Failed(ChildRunFailure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRun {
    pub run: RunId,
    pub agent: AgentName,
    /// How it has ended; none: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunStatus>,
    /// Its start was refused. It has ended then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

/// The step that has started a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRun {
    /// The hold that waits for the run. It names the parent.
    pub hold: HoldId,
    pub step: String,
    /// The newest desired state that was applied.
    pub rev: u64,
    /// The agents of the runs above, from the first one to the parent.
    pub ancestors: Vec<AgentName>,
    /// How many runs may be in progress below the run; none: [`RUNS_BELOW_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_below: Option<u32>,
    /// Its end was reported. The parent wants nothing more of the run then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_report: bool,
}

impl ChildRuns {
    /// The place of a child that has not ended.
    #[must_use]
    pub fn open_place(&self, child: RunId) -> Option<usize> {
        let mut runs = self.runs.iter();
        runs.position(|run| run.run == child && run.end.is_none())
    }

    /// Records that the run at a place has completed, with an output of this many bytes.
    pub fn record_completed(&mut self, place: usize, output_bytes: usize) {
        if let Some(run) = self.runs.get_mut(place) {
            run.end = Some(RunStatus::Completed);
            self.first_completed.get_or_insert(run.run);
        }
        self.output_bytes = self.output_bytes.saturating_add(output_bytes);
    }

    /// Records that the run at a place has ended without completing.
    pub fn record_failure(&mut self, place: usize, failure: ChildRunFailure) {
        if let Some(run) = self.runs.get_mut(place) {
            run.end = Some(failure.status);
            run.is_refused = failure.code.is_some();
        }
        if self.failure.is_none() || self.until == RunsUntil::First {
            self.failure = Some(Box::new(failure));
        }
    }

    /// What the recorded ends make of the step; none: it waits for more of them.
    #[must_use]
    pub fn outcome(&self) -> Option<RunsOutcome> {
        let have_ended = self.runs.iter().all(|run| run.end.is_some());
        let failure = self.failure.as_deref().cloned().map(RunsOutcome::Failed);
        match self.until {
            RunsUntil::Ended | RunsUntil::First => {
                let completed = self.first_completed.map(RunsOutcome::One);
                completed.or_else(|| failure.filter(|_| have_ended))
            }
            RunsUntil::All => {
                let is_large = self.output_bytes > OUTPUTS_BYTES_MAX;
                let too_large = is_large.then_some(RunsOutcome::TooLarge(self.output_bytes));
                let outcome = failure.or(too_large);
                outcome.or_else(|| have_ended.then_some(RunsOutcome::All))
            }
        }
    }

    /// Whether the step completes with all outputs when the run at a place completes.
    #[must_use]
    pub fn completes_with(&self, place: usize) -> bool {
        let mut others = self.runs.iter().enumerate().filter(|(at, _)| *at != place);
        self.until == RunsUntil::All
            && self.output_bytes <= OUTPUTS_BYTES_MAX
            && others.all(|(_, run)| run.end == Some(RunStatus::Completed))
    }
}

impl Run {
    /// The agents of the runs above, and its own one.
    #[must_use]
    pub fn agent_chain(&self) -> Vec<AgentName> {
        let above = self.parent.iter().flat_map(|parent| &parent.ancestors);
        above.chain([&self.agent]).cloned().collect()
    }

    #[must_use]
    pub fn parent_view(&self) -> Option<ParentRunView> {
        let parent = self.parent.as_deref()?;
        Some(ParentRunView {
            run: parent.hold.run,
            step: parent.step.clone(),
        })
    }

    /// Bounds its budget by what is left of that of its parent.
    pub fn bound_budget(&mut self, left: &RemainingBudget) {
        let since = self.created_at;
        let limits = self.limits.get_or_insert_default();
        let budget = limits.budget.get_or_insert_with(|| {
            let allowed = Budget {
                to: left.to.clone(),
                ..Budget::default()
            };
            Box::new(RunBudget::new(allowed, since, 0))
        });
        let allowed = &mut budget.allowed;
        allowed.steps = smaller(allowed.steps, left.steps);
        allowed.wall_time_ms = smaller(allowed.wall_time_ms, left.wall_time_ms);
        allowed.active_time_ms = smaller(allowed.active_time_ms, left.active_time_ms);
        allowed.cost = smaller(allowed.cost, left.cost);
    }
}

fn smaller<T: PartialOrd>(own: Option<T>, left: Option<T>) -> Option<T> {
    match (own, left) {
        (Some(own), Some(left)) if left < own => Some(left),
        (Some(own), _) => Some(own),
        (None, left) => left,
    }
}
