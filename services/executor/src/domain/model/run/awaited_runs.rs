//! The child runs of a step, as it waits for them and as the API shows them.

use holdpoint_contracts::run::ChildRunView;

use crate::domain::model::run::{ChildRuns, Step};

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
