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
}

impl ChildRuns {
    /// The place of a child that has not ended.
    #[must_use]
    pub fn open_place(&self, child: RunId) -> Option<usize> {
        let mut runs = self.runs.iter();
        runs.position(|run| run.run == child && run.end.is_none())
    }

    #[must_use]
    pub fn have_ended(&self) -> bool {
        self.runs.iter().all(|run| run.end.is_some())
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
