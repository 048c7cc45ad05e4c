//! The child runs of a step, as it waits for them and as the API shows them.

use holdpoint_contracts::run::ChildRunView;

use crate::domain::model::run::child_runs::RUNS_BELOW_MAX;
use crate::domain::model::run::{ChildRuns, Run, Step};

impl Step {
    /// The child runs that the step waits for.
    #[must_use]
    pub fn awaited_runs(&self) -> Option<&ChildRuns> {
        let hold = self.phase.try_as_waiting_ref()?;
        hold.child_runs?;
        self.child_runs.as_deref()
    }

    /// The runs that it has started. The status of an open one is in its row.
    #[must_use]
    pub fn child_run_views(&self) -> Vec<ChildRunView> {
        let runs = self.child_runs.iter().flat_map(|runs| &runs.runs);
        let views = runs.map(|run| ChildRunView {
            run: run.run,
            agent: run.agent.clone(),
            status: run.end.filter(|_| !run.is_refused),
        });
        views.collect()
    }
}

impl Run {
    /// How many runs may be in progress below each run of a step that would start so many; none: those are too many.
    #[must_use]
    pub fn share_of_child(&self, count: usize) -> Option<u32> {
        let own = self.parent.as_deref().and_then(|parent| parent.runs_below);
        let awaited = self.steps.iter().filter_map(Step::awaited_runs);
        let runs = awaited.flat_map(|runs| &runs.runs);
        let open = runs.filter(|run| run.end.is_none()).count();
        let siblings = u32::try_from(open + count).ok()?;
        let left = own.unwrap_or(RUNS_BELOW_MAX).checked_sub(siblings)?;
        left.checked_div(siblings)
    }
}
