//! What the end of a hold on people does to its run (S3-R3, S3-R5).
//!
//! The handoff service decides who may answer and when a deadline has passed. Here that only takes effect.

use holdpoint_contracts::asking::GivenAnswer;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, OnTimeout};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{HoldClosure, PersonHold};
use crate::domain::model::time::millis_between;
use crate::domain::rules::budgets::end_budget_hold;
use crate::domain::rules::close_approval::close_approval;
use crate::domain::rules::end_person_step::{
    answer_text, complete_person_step, fail_on_timeout, fail_refused, skip_on_timeout,
};
use crate::domain::rules::handoff_ends::{end_handoff, end_takeover};
use crate::domain::rules::missing_inputs::end_missing_inputs;
use crate::domain::rules::missing_tools::end_missing_tool;
use crate::domain::rules::open_hold::load_spec;
use crate::domain::rules::timers::continue_waits;
use crate::domain::rules::tool_questions::answer_tool_question;
use crate::domain::transition::RunTransition;

/// The place of a hold on people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldPlace {
    /// In a step of the plan, or of its tool.
    Step(usize),
    /// Beside a queued step: no node offers its tool.
    MissingTool(usize),
    /// Before all steps.
    MissingInputs,
    /// Beside them: an operator owns the run.
    Takeover,
    /// Beside them: the budget of the run is used up.
    Budget,
}

pub(crate) fn apply_closure(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let Some(place) = place_of(transition, on.id) else {
        return Ok(());
    };
    // The step waits for a node, which its own clock counts.
    if !matches!(place, HoldPlace::MissingTool(_)) {
        transition.run.clocks.human_ms += millis_between(on.since, transition.now);
    }
    transition.run.closed.push(on.id.number);
    if closing.outcome == HoldOutcome::Timeout {
        transition.run.timed_out.push(on.id.number);
    }
    match (place, on.kind) {
        (HoldPlace::Takeover, _) => end_takeover(transition, closing),
        (HoldPlace::Budget, _) => end_budget_hold(transition, on, closing),
        (HoldPlace::MissingTool(index), _) => end_missing_tool(transition, index, closing),
        (HoldPlace::MissingInputs, _) => end_missing_inputs(transition, on, closing)?,
        (HoldPlace::Step(index), HoldKind::Handoff) => end_handoff(transition, index, on, closing)?,
        (HoldPlace::Step(index), HoldKind::Approval) => {
            close_approval(transition, index, on, closing)?;
        }
        (
            HoldPlace::Step(index),
            HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun,
        ) => {
            close_question(transition, index, on, closing)?;
        }
    }
    if on.taken.is_some() {
        continue_waits(transition);
    }
    Ok(())
}

fn place_of(transition: &RunTransition<'_>, hold: HoldId) -> Option<HoldPlace> {
    let is_it = |on: &PersonHold| on.id == hold;
    if transition
        .run
        .missing_inputs_hold
        .as_deref()
        .is_some_and(is_it)
    {
        return Some(HoldPlace::MissingInputs);
    }
    if transition.run.takeover_hold.as_deref().is_some_and(is_it) {
        return Some(HoldPlace::Takeover);
    }
    if transition.run.budget_hold().is_some_and(is_it) {
        return Some(HoldPlace::Budget);
    }
    let mut steps = transition.run.steps.iter();
    let index = steps.position(|step| step.on_people().is_some_and(is_it))?;
    let step = transition.step(index)?;
    Some(match step.missing_tool() {
        Some(_) => HoldPlace::MissingTool(index),
        None => HoldPlace::Step(index),
    })
}

/// A step's question has ended (S3-R3, S3-R5).
fn close_question(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    match closing.outcome {
        HoldOutcome::Answered => {
            answer_question(transition, index, on, &closing.data, &closing.by)?;
        }
        HoldOutcome::Timeout => {
            let spec = load_spec(transition, on.id)?;
            match on.on_timeout {
                OnTimeout::Skip | OnTimeout::Continue => skip_on_timeout(transition, index, on),
                OnTimeout::Default => {
                    let answer = spec.default.unwrap_or_default();
                    let by = "timeout";
                    let data =
                        json!({ "hold": on.id, "question": on.asks, "answer": answer, "by": by });
                    let message = format!(
                        "No answer came in time; the default {} counts.",
                        answer_text(&answer)
                    );
                    let step = transition.step(index).map(|step| step.id.clone());
                    transition.event(EventType::InputAnswered, step.as_deref(), message, data);
                    answer_question(transition, index, on, &answer, by)?;
                }
                OnTimeout::Fail | OnTimeout::Escalate => fail_on_timeout(transition, index, on),
            }
        }
        HoldOutcome::Cancelled => fail_refused(transition, index, closing),
        HoldOutcome::Approved
        | HoldOutcome::Rejected
        | HoldOutcome::Revised
        | HoldOutcome::Completed
        | HoldOutcome::TakenOver
        | HoldOutcome::Fired => {}
    }
    Ok(())
}

/// The answer becomes the step's result, or is given to its tool. The agent reads it as the user's words
/// (S3-R4).
fn answer_question(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    answer: &Value,
    by: &str,
) -> Result<(), Undecided> {
    let said = answer_text(answer);
    let given = GivenAnswer {
        question_id: on.id,
        answer: answer.clone(),
        by: by.to_owned(),
        continuation: format!("User responded: {said}"),
    };
    let description = format!("{by} answered: {said}.");
    if transition
        .step(index)
        .is_some_and(|step| step.open_question().is_some())
    {
        return answer_tool_question(transition, index, &given, description);
    }
    let data = json!(given);
    let waited_ms = millis_between(on.since, transition.now);
    complete_person_step(transition, index, description, data, waited_ms);
    Ok(())
}
