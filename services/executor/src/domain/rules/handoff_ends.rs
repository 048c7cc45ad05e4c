//! A person gives a run back, or ends it (S0-AC6, S0-AC7, S0-T3).

use holdpoint_contracts::handoff::{Completion, Disposition};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, OnTimeout};
use holdpoint_contracts::instant;
use serde_json::{Value, json};

use crate::domain::decision::Undecided;
use crate::domain::model::run::{HoldClosure, INTERVENTION, PersonHold};
use crate::domain::model::time::millis_between;
use crate::domain::rules::end_person_step::{
    complete_person_step, completion, fail_on_timeout, fail_refused, skip_on_timeout, step_of_hold,
};
use crate::domain::rules::next_steps::complete_if_ended;
use crate::domain::step_response::{add_fields, handoff_data};
use crate::domain::transition::RunTransition;
use crate::domain::views::hold_messages::timeout_message;

/// Longest notes of an operator that the steps can read, in characters. The history has all of them.
pub(crate) const NOTES_CHARS_MAX: usize = 10_000;

pub(crate) fn end_handoff(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let waited_ms = millis_between(on.since, transition.now);
    match closing.outcome {
        HoldOutcome::Completed => {
            let Some(done) = completion(closing) else {
                return Ok(());
            };
            let mut data = handoff_data(on);
            record_completion(transition, on, closing, &done);
            let outcome = json!({
                "outcome": "completed", "notes": done.notes, "outcome_type": done.outcome_type,
                "disposition": done.disposition, "by": closing.by, "at": instant::write(closing.at),
            });
            add_fields(&mut data, outcome);
            let description = completion_text(&done, &closing.by);
            complete_person_step(transition, index, description, data, waited_ms);
            if done.disposition == Disposition::Finish {
                finish_run(transition, &closing.by);
            }
        }
        HoldOutcome::Timeout => {
            let step = step_of_hold(transition, on.id);
            let message = timeout_message(on);
            let data = json!({ "request": on.id, "on_timeout": on.on_timeout });
            transition.event(EventType::HandoffExpired, step.as_deref(), message, data);
            match on.on_timeout {
                OnTimeout::Continue | OnTimeout::Default => {
                    let mut data = handoff_data(on);
                    let outcome = json!({
                        "outcome": "timeout", "notes": "", "outcome_type": "timeout", "by": "timeout",
                    });
                    add_fields(&mut data, outcome);
                    let description = "It was not completed in time; the run continues.".to_owned();
                    complete_person_step(transition, index, description, data, waited_ms);
                }
                OnTimeout::Skip => skip_on_timeout(transition, index, on),
                OnTimeout::Fail | OnTimeout::Escalate => fail_on_timeout(transition, index, on),
            }
        }
        HoldOutcome::Cancelled => {
            let step = step_of_hold(transition, on.id);
            let message = closing.data.get("message").and_then(Value::as_str);
            let message = message.unwrap_or("The request was withdrawn.").to_owned();
            let data = json!({ "request": on.id });
            transition.event(EventType::HandoffWithdrawn, step.as_deref(), message, data);
            fail_refused(transition, index, closing);
        }
        HoldOutcome::Answered
        | HoldOutcome::Approved
        | HoldOutcome::Rejected
        | HoldOutcome::Revised
        | HoldOutcome::TakenOver
        | HoldOutcome::Fired => {}
    }
    Ok(())
}

/// An operator who took the run over gives it back, or ends it.
pub(crate) fn end_takeover(transition: &mut RunTransition<'_>, closing: &HoldClosure) {
    let Some(on) = transition.run.takeover_hold.take() else {
        return;
    };
    let Some(done) = completion(closing) else {
        // No person owns it any more, so the agent continues.
        let message = timeout_message(&on);
        let data = json!({ "request": on.id, "outcome": closing.outcome });
        transition.event(EventType::HandoffWithdrawn, None, message, data);
        return;
    };
    record_completion(transition, &on, closing, &done);
    match done.disposition {
        Disposition::Finish => finish_run(transition, &closing.by),
        Disposition::ReturnToAgent => {
            transition.value(INTERVENTION.to_owned(), intervention_value(&done, closing));
            transition.event(
                EventType::RunResumed,
                None,
                completion_text(&done, &closing.by),
                json!({ "by": closing.by, "notes": done.notes }),
            );
        }
    }
}

/// What the remaining steps can read of it.
fn intervention_value(done: &Completion, closing: &HoldClosure) -> Value {
    let notes: String = done.notes.chars().take(NOTES_CHARS_MAX).collect();
    json!({
        "notes": notes,
        "outcome_type": done.outcome_type,
        "by": closing.by,
        "at": instant::write(closing.at),
    })
}

/// S0-T3: the words are fixed.
fn record_completion(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
    done: &Completion,
) {
    let step = step_of_hold(transition, on.id);
    transition.event(
        EventType::HandoffCompleted,
        step.as_deref(),
        format!(
            "Handoff completed by {} at {}",
            closing.by,
            instant::write(closing.at)
        ),
        json!({
            "request": on.id,
            "by": closing.by,
            "at": instant::write(closing.at),
            "notes": done.notes,
            "outcome_type": done.outcome_type,
            "disposition": done.disposition,
        }),
    );
}

fn completion_text(done: &Completion, by: &str) -> String {
    match done.disposition {
        Disposition::Finish => format!("{by} has done it and ended the run."),
        Disposition::ReturnToAgent => format!("{by} has done it; the agent goes on."),
    }
}

/// The person has ended the run. Its open steps are skipped, and it is complete (S0-T3).
fn finish_run(transition: &mut RunTransition<'_>, by: &str) {
    transition.ended_by = Some(by.to_owned());
    let data = json!({ "reason": "handoff_completed", "by": by });
    transition.skip_rest(&format!("Skipped: {by} has ended the run."), &data);
    (
        transition.run.missing_inputs_hold,
        transition.run.takeover_hold,
    ) = (None, None);
    complete_if_ended(transition);
}
