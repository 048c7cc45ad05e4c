//! What the question of a running tool does to its step (S3-R2): the tool parks, or gets its answer.
//!
//! A parked tool has ended, and the question is the phase of its step.

use holdpoint_contracts::asking::GivenAnswer;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use crate::domain::decision::Undecided;
use crate::domain::model::run::{AnsweredQuestion, OpenQuestion, Step, StepPhase, answer_name};
use crate::domain::model::time::millis_between;
use crate::domain::rules::fail_step::fail_step;
use crate::domain::rules::next_steps::redispatch_step;
use crate::domain::transition::{RowData, RunTransition};

/// The tool has ended, and its step waits without a lease. If the answer has already come, the step is
/// dispatched again at once. A tool that has asked nothing would wait forever, so its step fails.
pub(crate) fn park_tool(transition: &mut RunTransition<'_>, index: usize) -> Result<(), Undecided> {
    let moves = transition.run.moves();
    let Some(step) = transition.step_mut(index) else {
        return Ok(());
    };
    let id = step.id.clone();
    if let Some(open) = step.questions.open.take() {
        let (hold, asks) = (open.on.id, open.on.asks.clone());
        step.phase = StepPhase::Parked(open);
        transition.row(index, RowData::default());
        let message = format!("{id} has parked until it is answered: {asks}");
        let data = json!({ "hold": hold, "kind": HoldKind::Input, "parked": true });
        transition.event(EventType::RunWaiting, Some(&id), message, data);
        return Ok(());
    }
    if !step.is_answered() {
        let message = "its tool parked without a question; ask first (`request-input`), \
                       then park";
        fail_step(transition, index, "parked_without_question", message, None);
        return Ok(());
    }
    step.phase = StepPhase::Planned;
    if moves {
        return redispatch_step(transition, index);
    }
    // A paused run starts nothing: the step starts again on resume.
    transition.row(index, RowData::default());
    Ok(())
}

/// Stores the answer for the tool. It gets it when it asks again, and with the next dispatch. A parked tool
/// is dispatched again with it.
pub(crate) fn answer_tool_question(
    transition: &mut RunTransition<'_>,
    index: usize,
    given: &GivenAnswer,
    description: String,
) -> Result<(), Undecided> {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return Ok(());
    };
    let (id, dispatch) = (step.id.clone(), step.dispatch);
    let is_parked = matches!(step.phase, StepPhase::Parked(_));
    let Some(open) = take_question(step) else {
        return Ok(());
    };
    // Time before this dispatch does not count for it.
    let dispatch_of = step.phase.grant().map(|grant| &grant.handed);
    let dispatched = step.phase.try_as_queued_ref().or(dispatch_of);
    let handed_at = dispatched.map(|dispatched| dispatched.at);
    if let Some(at) = handed_at {
        step.questions.blocked_ms += millis_between(at.max(open.on.since), now);
    }
    let hold = open.on.id.number;
    step.questions.answered.push(AnsweredQuestion {
        key: open.key.clone(),
        hold,
        mode: open.mode,
        dispatch,
    });
    let data = json!({
        "by": given.by, "hold": given.question_id, "key": open.key,
        "continuation": given.continuation,
    });
    transition.value(answer_name(hold), json!(given));
    transition.event(EventType::RunResumed, Some(&id), description, data);
    if is_parked {
        return redispatch_step(transition, index);
    }
    Ok(())
}

/// Removes the open question from its step. A parked step starts again.
fn take_question(step: &mut Step) -> Option<Box<OpenQuestion>> {
    if let StepPhase::Parked(open) = &step.phase {
        let open = open.clone();
        step.phase = StepPhase::Planned;
        return Some(open);
    }
    step.questions.open.take()
}
