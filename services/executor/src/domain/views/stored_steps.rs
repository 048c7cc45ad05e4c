//! What tables have of the steps of a run.

use std::collections::{BTreeMap, HashMap};

use holdpoint_contracts::run::LeaseEvent;

use crate::domain::model::run::{Run, StepApproval};
use crate::domain::model::step_row::StepRow;

/// What a view of steps needs from tables.
#[derive(Debug, Default)]
pub struct StoredSteps {
    pub rows: Vec<StepRow>,
    pub lease_events: BTreeMap<String, Vec<LeaseEvent>>,
    /// Of children that have ended.
    pub approvals: HashMap<String, StepApproval>,
}

impl StoredSteps {
    /// The steps whose approver gave other arguments (S2-R4), each with the hidden parts of its call.
    #[must_use]
    pub fn edited_steps(&self, run: &Run) -> BTreeMap<String, Vec<String>> {
        let is_edited = |approval: &StepApproval| {
            let decision = approval.approval();
            decision.is_some_and(|decision| decision.edited_digest.is_some())
        };
        let steps = run.steps.iter();
        let steps = steps.filter_map(|step| Some((&step.id, step.approval.as_deref()?)));
        let all = steps.chain(&self.approvals);
        let edited = all.filter(|(_, approval)| is_edited(approval));
        let called = |id: &str| {
            let row = self.rows.iter().find(|row| row.step == id)?;
            row.called.as_deref()
        };
        let hidden = |id: &str| called(id).map_or_else(Vec::new, |it| it.redaction.clone());
        edited.map(|(id, _)| (id.clone(), hidden(id))).collect()
    }
}
