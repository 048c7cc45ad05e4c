//! A person sends the arguments of a gated call back (S2-R4): the step that made them runs again with the feedback, and
//! the new arguments are asked about.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::ApprovalState;
use holdpoint_contracts::steps::Feedback;
use serde_json::json;

use crate::domain::decision::Undecided;
use crate::domain::model::plan::{Plan, PlannedStep, StepPart};
use crate::domain::model::run::{ApprovalDecision, HoldClosure, Run, Step, StepPhase};
use crate::domain::model::tool::is_built_in;
use crate::domain::rules::retried_steps::{depending_on, needed_by};
use crate::domain::transition::{RowData, RunTransition};

/// How often the result of one step may be sent back.
pub const REVISIONS_MAX: u32 = 5;

/// The step that makes the arguments of the step at `index`: the last tool call, in the order of the plan, whose result
/// they contain. Built-in tools take no feedback, and the work of people is not sent back. Neither the source nor the gated
/// step has `for_each`.
pub(crate) fn revised_step(plan: &Plan, run: &Run, index: usize) -> Option<usize> {
    // The siblings of an item may have used the result already.
    if run.steps.get(index)?.child_of.is_some() {
        return None;
    }
    let used = plan.results_used(StepPart::Step(index));
    let both = plan.steps.iter().zip(&run.steps);
    let is_revisable = |planned: &PlannedStep, step: &Step| {
        let tool = planned.action.tool().filter(|_| planned.for_each.is_none());
        let is_called = tool.is_some_and(|tool| !is_built_in(tool));
        let has_result = matches!(step.phase, StepPhase::Completed { .. }) && !step.by_person;
        is_called && has_result && revisions(step) < REVISIONS_MAX && used.contains(&step.id)
    };
    let places: Vec<_> = both
        .map(|(planned, step)| is_revisable(planned, step))
        .collect();
    places.iter().rposition(|is_revisable| *is_revisable)
}

fn revisions(step: &Step) -> u32 {
    let feedback = step.feedback.as_deref();
    feedback.map_or(0, |feedback| feedback.revision)
}

/// Starts the step that made the arguments again. The gated step asks again when it has ended.
pub(crate) fn revise_step(
    transition: &mut RunTransition<'_>,
    index: usize,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let plan = transition.plan()?;
    let instructions = closing.data.as_str().unwrap_or_default();
    let by = &closing.by;
    let source = revised_step(&plan.plan, &transition.run, index);
    let Some(id) = send_back(transition, index, closing) else {
        return Ok(());
    };
    // The handoff service refuses that. Otherwise people are asked about the same arguments again.
    let Some(source) = source else {
        return Ok(());
    };
    // Steps between the two keep their results. They do not unblock the gated step before the source has ended again.
    let needed = needed_by(&plan.plan, index);
    for between in depending_on(&plan.plan, source) {
        let is_between = between != source && needed.contains(&between);
        if let Some(step) = transition.step_mut(between).filter(|_| is_between) {
            step.is_kept = true;
        }
    }
    let Some(step) = transition.step_mut(source) else {
        return Ok(());
    };
    let revision = revisions(step) + 1;
    step.feedback = Some(Box::new(Feedback {
        instructions: instructions.to_owned(),
        by: by.clone(),
        revision,
        ..Feedback::default()
    }));
    step.dispatch += 1;
    step.phase = StepPhase::Planned;
    step.failures.count = 0;
    step.saved_part = None;
    // A gated source makes another call now.
    step.approval = None;
    step.questions.answered.clear();
    let source_id = step.id.clone();
    let data = RowData {
        is_reset: true,
        ..RowData::default()
    };
    transition.row(source, data);
    let message = format!(
        "{by} sent {id} back: {}. {source_id} runs again (revision {revision} of {REVISIONS_MAX}).",
        instructions.trim_end_matches('.')
    );
    let data = json!({ "by": by, "instructions": instructions, "gated": id, "revision": revision });
    transition.event(EventType::StepRevised, Some(&source_id), message, data);
    Ok(())
}

/// Records the decision at the gated step, which starts again after its source.
fn send_back(
    transition: &mut RunTransition<'_>,
    index: usize,
    closing: &HoldClosure,
) -> Option<String> {
    let step = transition.step_mut(index)?;
    let approval = step.approval.as_mut()?;
    approval.state = ApprovalState::Revised;
    approval.decision = Some(ApprovalDecision {
        by: closing.by.clone(),
        at: closing.at,
        comment: closing.data.as_str().map(str::to_owned),
        is_edited: false,
        edited_digest: None,
        votes: Vec::new(),
    });
    transition.set_phase(index, StepPhase::Planned, RowData::default())
}
