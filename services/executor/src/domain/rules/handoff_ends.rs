//! Handoffs: a person owns the run, and gives it back or ends it (S0-AC6, S0-AC7, S0-T3).

use holdpoint_contracts::handoff::{Completion, Disposition};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use serde_json::{Value, json};

use crate::domain::definition::people::is_whom;
use crate::domain::effect::Reply;
use crate::domain::refusal::Refusal;
use crate::domain::run::people::{HoldClosure, INTERVENTION, PersonHold, Taken};
use crate::domain::run::{StepPhase, millis_between};

use super::super::transition::{RowData, RunTransition};
use super::super::{advance, control, uncertain};
use super::{complete, completion, refused, skipped, step_of, timed_out};
use crate::domain::decision::{Decision, Outcome, Undecided};

/// Longest notes of whoever hands a run back that its steps can read, in characters; longer ones are cut
/// for them, and stand in full in the run's history.
pub(in crate::domain::decide) const NOTES_CHARS_MAX: usize = 10_000;

/// A person owns the run from now on: its other live steps are revoked, and nothing of the agent
/// starts until they hand it back. The hold stays.
pub(super) fn taken_over(
    mut transition: RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Decision {
    fence(&mut transition)?;
    control::stop_waits(&mut transition);
    let taken = Taken {
        by: closing.by.clone(),
        at: closing.at,
    };
    if let Some(on) = transition.run.people_mut().find(|one| one.id == on.id) {
        on.taken = Some(taken);
    }
    tell_taken(&mut transition, on, closing);
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// A person has taken over what somebody else had given away.
pub(super) fn taken_on(
    mut transition: RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
    is_news: bool,
) -> Decision {
    let answer = Reply::Closed(CloseReply::Applied);
    if super::handoff_events::pass_on(&mut transition, on.id, &closing.by, closing.at) {
        tell_taken(&mut transition, on, closing);
    } else if !is_news {
        return Ok(Outcome::Unchanged(answer));
    }
    transition.decided(answer)
}

fn tell_taken(transition: &mut RunTransition<'_>, on: &PersonHold, closing: &HoldClosure) {
    let step = step_of(transition, on.id);
    transition.event(
        EventType::HandoffTakenOver,
        step.as_deref(),
        format!("{} has taken over.", closing.by),
        json!({ "request": on.id, "by": closing.by, "at": instant::write(closing.at) }),
    );
}

/// An operator becomes the owner of a live run, as if it had been handed to them.
pub(in crate::domain::decide) fn take_over(
    mut transition: RunTransition<'_>,
    by: &Actor,
) -> Decision {
    if transition.run.is_final() {
        let (run, status) = (transition.run.id, transition.run.status());
        return Err(Undecided::Refused(Refusal::RunFinal(run, status)));
    }
    if !is_whom(&format!("@user.{by}")) {
        return Err(Undecided::Refused(Refusal::NoPerson(by.clone())));
    }
    if let Some(taken) = transition.run.taken() {
        let (run, who) = (transition.run.id, taken.by.clone());
        return match who == by.0 {
            true => Ok(control::unchanged(&transition)),
            false => Err(Undecided::Refused(Refusal::AlreadyTaken(run, who))),
        };
    }
    let mut on = super::opening::takeover_hold(&mut transition, &by.0)?;
    fence(&mut transition)?;
    control::stop_waits(&mut transition);
    on.taken = Some(Taken {
        by: by.0.clone(),
        at: transition.now,
    });
    let id = on.id;
    transition.run.takeover_hold = Some(Box::new(on));
    transition.event(
        EventType::HandoffTakenOver,
        None,
        format!("{by} has taken over."),
        json!({ "request": id, "by": by, "at": instant::write(transition.now), "operator_takeover": true }),
    );
    transition.changed()
}

/// Revokes every step that is out: its number rises, so that whatever its worker still says is
/// evidence. What may be done twice has its turn again when the run is handed back; about the rest
/// people are asked.
fn fence(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    prepare(transition)?;
    for index in 0..transition.run.steps.len() {
        let Some(step) = transition.step_mut(index) else {
            continue;
        };
        step.questions.open = None;
        let lost = match &step.phase {
            StepPhase::Queued(_) | StepPhase::Parked(_) => None,
            StepPhase::Working(working) => Some(working.clone()),
            StepPhase::Planned
            | StepPhase::Waiting(_)
            | StepPhase::Uncertain(_)
            | StepPhase::Asked(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. } => continue,
        };
        step.dispatch += 1;
        let id = step.id.clone();
        transition.retract_hand_out(&id);
        match lost.filter(|working| !working.handed.idempotent) {
            Some(working) => uncertain::ask(transition, index, working),
            None => {
                if let Some(step) = transition.step_mut(index) {
                    step.phase = StepPhase::Planned;
                }
                transition.row(index, RowData::default());
            }
        }
    }
    Ok(())
}

/// What the steps that are out lack to be asked about.
pub(super) fn prepare(transition: &RunTransition<'_>) -> Result<(), Undecided> {
    let out: Vec<usize> = transition
        .run
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| matches!(step.phase, StepPhase::Working(_)))
        .map(|(index, _)| index)
        .collect();
    uncertain::prepare(transition, &out)
}

/// A handoff step has ended.
pub(super) fn over(
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
            let mut data = super::opening::offered(on);
            completed(transition, on, closing, &done);
            put(&mut data, &done, closing);
            let description = handed_back(&done, &closing.by);
            complete(transition, index, (description, data), waited_ms);
            if done.disposition == Disposition::Finish {
                finish(transition, &closing.by);
            }
        }
        HoldOutcome::Timeout => {
            let step = step_of(transition, on.id);
            let message = super::words::nobody(on);
            let data = json!({ "request": on.id, "on_timeout": on.on_timeout });
            transition.event(EventType::HandoffExpired, step.as_deref(), message, data);
            match on.on_timeout {
                OnTimeout::Continue | OnTimeout::Default => {
                    let mut data = super::opening::offered(on);
                    if let Some(fields) = data.as_object_mut() {
                        fields.insert("outcome".to_owned(), "timeout".into());
                        fields.insert("notes".to_owned(), "".into());
                        fields.insert("outcome_type".to_owned(), "timeout".into());
                        fields.insert("by".to_owned(), "timeout".into());
                    }
                    let description = "Nobody took it in time; going on.".to_owned();
                    complete(transition, index, (description, data), waited_ms);
                }
                OnTimeout::Skip => skipped(transition, index, on),
                OnTimeout::Fail | OnTimeout::Escalate => timed_out(transition, index, on),
            }
        }
        HoldOutcome::Cancelled => {
            let step = step_of(transition, on.id);
            let message = closing.data.get("message").and_then(Value::as_str);
            let message = message.unwrap_or("The request was withdrawn.").to_owned();
            let data = json!({ "request": on.id });
            transition.event(EventType::HandoffWithdrawn, step.as_deref(), message, data);
            refused(transition, index, closing);
        }
        HoldOutcome::Answered
        | HoldOutcome::Approved
        | HoldOutcome::Rejected
        | HoldOutcome::TakenOver
        | HoldOutcome::Fired => {}
    }
    Ok(())
}

/// An operator who took the run over by themselves gives it back, or ends it.
pub(super) fn barge_over(transition: &mut RunTransition<'_>, closing: &HoldClosure) {
    let Some(on) = transition.run.takeover_hold.take() else {
        return;
    };
    let Some(done) = completion(closing) else {
        // Nobody owns it any more: the agent goes on.
        let message = super::words::nobody(&on);
        let data = json!({ "request": on.id, "outcome": closing.outcome });
        transition.event(EventType::HandoffWithdrawn, None, message, data);
        return;
    };
    completed(transition, &on, closing, &done);
    match done.disposition {
        Disposition::Finish => finish(transition, &closing.by),
        Disposition::ReturnToAgent => {
            transition.value(INTERVENTION.to_owned(), returned(&done, closing));
            transition.event(
                EventType::RunResumed,
                None,
                handed_back(&done, &closing.by),
                json!({ "by": closing.by, "notes": done.notes }),
            );
        }
    }
}

/// What the steps that are left can read of it.
fn returned(done: &Completion, closing: &HoldClosure) -> Value {
    let notes: String = done.notes.chars().take(NOTES_CHARS_MAX).collect();
    json!({
        "notes": notes,
        "outcome_type": done.outcome_type,
        "by": closing.by,
        "at": instant::write(closing.at),
    })
}

/// `run.intervention` of an expression: its fields are there also where nobody took the run over, so that
/// what names them needs no condition.
pub(in crate::domain::decide) fn intervention(kept: Option<&Value>) -> Value {
    let nobody = || json!({ "notes": "", "outcome_type": "none", "by": "", "at": "" });
    kept.cloned().unwrap_or_else(nobody)
}

/// S0-T3: the words are fixed.
fn completed(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
    done: &Completion,
) {
    let step = step_of(transition, on.id);
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

fn handed_back(done: &Completion, by: &str) -> String {
    match done.disposition {
        Disposition::Finish => format!("{by} has done it and ended the run."),
        Disposition::ReturnToAgent => format!("{by} has done it; the agent goes on."),
    }
}

fn put(data: &mut Value, done: &Completion, closing: &HoldClosure) {
    let Some(fields) = data.as_object_mut() else {
        return;
    };
    fields.insert("outcome".to_owned(), "completed".into());
    fields.insert("notes".to_owned(), done.notes.as_str().into());
    fields.insert("outcome_type".to_owned(), json!(done.outcome_type));
    fields.insert("disposition".to_owned(), json!(done.disposition));
    fields.insert("by".to_owned(), closing.by.as_str().into());
    fields.insert("at".to_owned(), instant::write(closing.at).into());
}

/// The person has ended the run: what is left of it is skipped, and it is complete (S0-T3).
fn finish(transition: &mut RunTransition<'_>, by: &str) {
    transition.skip_rest(&format!("Skipped: {by} has ended the run."), by);
    (
        transition.run.missing_inputs_hold,
        transition.run.takeover_hold,
    ) = (None, None);
    advance::complete_if_all_ended(transition);
}
