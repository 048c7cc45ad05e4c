//! Holds on people: how they begin, and what their owner's word does to the run.
//!
//! The handoff service decides who may answer and when time is up; here it only takes effect, once,
//! and while the run stands still it is kept.

pub(super) mod asking;
pub(super) mod handing;
pub(super) mod handoff_events;
pub(super) mod missing_inputs;
pub(super) mod opening;
pub(in crate::domain) mod words;

use holdpoint_contracts::asking::GivenAnswer;
use holdpoint_contracts::handoff::Completion;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::effect::Reply;
use crate::domain::input::RunInput;
use crate::domain::need::{Fact, INPUT, Need};
use crate::domain::refusal::Refusal;
use crate::domain::run::people::{HoldClosure, PersonHold, spec_name};
use crate::domain::run::{Choice, Run, StepPhase, millis_between};

use super::transition::{RowData, RunTransition};
use super::{advance, control, uncertain};
use crate::domain::decision::{Decision, Lookup, Outcome, Undecided};

/// Code of a step whose person is not there (S0-R1).
pub(super) const ASSIGNEE_INACTIVE: &str = "assignee_inactive";
/// Code of a step that nobody answered in time.
pub(super) const HUMAN_TIMEOUT: &str = "human_timeout";

/// What the open holds on people of a run asked: for their desired states and their ends.
pub(super) fn needs(run: &Run) -> Vec<Need> {
    let mut needs: Vec<_> = run
        .people()
        .map(|(_, on)| Need::Value(run.id, spec_name(on.id)))
        .collect();
    if run.missing_inputs_hold.is_some() {
        needs.push(Need::Value(run.id, INPUT.to_owned()));
    }
    needs
}

/// What an input may lack whatever became of the run meanwhile.
pub(super) fn needs_of(run: &Run, input: &RunInput) -> Vec<Need> {
    let (workspace, agent) = (run.workspace.clone(), run.agent.clone());
    // Nearly everything may begin the next step.
    let mut needs = vec![Need::Plan(workspace.clone(), agent, run.plan)];
    match input {
        // The step may be dispatched again, with the arguments that it had.
        RunInput::LeaseEnded { step, .. } | RunInput::StepParks { step, .. } => {
            needs.push(Need::Request(run.id, step.clone()));
        }
        RunInput::TakeOver { .. } => {
            if let Some(contact) = &run.contact {
                needs.push(Need::Activities(workspace.clone(), contact.clone()));
                needs.push(Need::Contact(workspace, contact.clone()));
            }
        }
        RunInput::Start { .. }
        | RunInput::Pause { .. }
        | RunInput::Resume { .. }
        | RunInput::Cancel { .. }
        | RunInput::Watch
        | RunInput::Follow
        | RunInput::TimerFired { .. }
        | RunInput::StartStep { .. }
        | RunInput::AskPeople { .. }
        | RunInput::StepResult { .. }
        | RunInput::HoldClosed { .. }
        | RunInput::HandoffUpdate { .. }
        | RunInput::Incident { .. } => {}
    }
    needs
}

/// Where a hold on people stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a step of the plan, or of its tool.
    Step(usize),
    /// Before all steps.
    Gate,
    /// Beside them: an operator owns the run.
    Barge,
}

/// A hold on people was closed, or a person owns the run by it. Twice is once.
pub(super) fn closed(
    mut transition: RunTransition<'_>,
    hold: HoldId,
    closing: &HoldClosure,
) -> Decision {
    if transition.run.closed.contains(&hold.number) {
        let is_late = closing.outcome != HoldOutcome::Timeout
            && transition.run.timed_out.contains(&hold.number);
        return Ok(Outcome::Unchanged(Reply::Closed(match is_late {
            true => CloseReply::RunEnded,
            false => CloseReply::Applied,
        })));
    }
    let Some(on) = standing(&transition, hold) else {
        return uncertain::closed(transition, hold, choice(closing), closing);
    };
    let is_news = handoff_events::before(&mut transition, &on, closing);
    // What was told with it may have moved its deadline, or passed it on.
    let mut on = standing(&transition, hold).unwrap_or(on);
    let told = |transition: RunTransition<'_>, answer| {
        let answer = Reply::Closed(answer);
        if is_news {
            transition.decided(answer)
        } else {
            Ok(Outcome::Unchanged(answer))
        }
    };
    // A kept timeout does not bind: its owner may have undone it, and then a person has answered.
    let is_kept = |kept: &HoldClosure| {
        kept.outcome != HoldOutcome::Timeout || closing.outcome == HoldOutcome::Timeout
    };
    if on.closing.as_ref().is_some_and(is_kept) {
        return told(transition, CloseReply::OnResume);
    }
    if !fits(on.kind, closing) {
        return Err(Undecided::Refused(Refusal::UnknownAnswer(hold)));
    }
    uncertain::prepare(&transition, &[])?;
    match closing.outcome {
        // The person's word stops the timer, and whatever it had said before.
        HoldOutcome::Timeout if on.taken.is_some() => return told(transition, CloseReply::Applied),
        HoldOutcome::TakenOver if on.taken.is_some() => {
            return handing::taken_on(transition, &on, closing, is_news);
        }
        HoldOutcome::TakenOver => return handing::taken_over(transition, &on, closing),
        // Time only proposes: what the pause leaves of it is asked for again on resume, and its owner,
        // who may have undone it by then, says it again.
        HoldOutcome::Timeout
            if on.has_time_left_after(closing) || !transition.run.pauses.is_empty() =>
        {
            return told(transition, CloseReply::OnResume);
        }
        HoldOutcome::Answered
        | HoldOutcome::Approved
        | HoldOutcome::Rejected
        | HoldOutcome::Completed
        | HoldOutcome::Timeout
        | HoldOutcome::Cancelled
        | HoldOutcome::Fired => {}
    }
    // What is said of its end names the time that it had.
    on.length_ms = closing
        .by_rung
        .map_or(on.length_ms, |end| Some(end.after_ms));
    note(&mut transition, &on, closing);
    if !takes_effect(&transition, &on) {
        if let Some(on) = transition.run.people_mut().find(|on| on.id == hold) {
            on.closing = Some(HoldClosure {
                handoff_events: Vec::new(),
                ..closing.clone()
            });
        }
        return transition.decided(Reply::Closed(CloseReply::OnResume));
    }
    apply(&mut transition, &on, closing)?;
    uncertain::apply_answers(&mut transition)?;
    advance::advance(&mut transition)?;
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// A hold on people as it stands; none: there is none.
fn standing(transition: &RunTransition<'_>, hold: HoldId) -> Option<PersonHold> {
    let mut people = transition.run.people();
    let (_, on) = people.find(|(_, on)| on.id == hold)?;
    Some(on.clone())
}

/// The option that was chosen about an uncertain step; none: not one of them. The answer itself, or
/// an object around it.
fn choice(closing: &HoldClosure) -> Option<Choice> {
    let is_answer = closing.outcome == HoldOutcome::Answered;
    let answer = closing.data.get("answer").unwrap_or(&closing.data);
    is_answer
        .then(|| serde_json::from_value(answer.clone()).ok())
        .flatten()
}

/// Whether a hold of that kind can be closed so.
fn fits(kind: HoldKind, closing: &HoldClosure) -> bool {
    match (kind, closing.outcome) {
        (HoldKind::Input | HoldKind::Handoff, HoldOutcome::Timeout | HoldOutcome::Cancelled)
        | (HoldKind::Handoff, HoldOutcome::TakenOver) => true,
        (HoldKind::Input, HoldOutcome::Answered) => !closing.data.is_null(),
        (HoldKind::Handoff, HoldOutcome::Completed) => completion(closing).is_some(),
        (
            HoldKind::Input | HoldKind::Handoff | HoldKind::Timer | HoldKind::Approval,
            HoldOutcome::Answered
            | HoldOutcome::Approved
            | HoldOutcome::Rejected
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Timeout
            | HoldOutcome::Cancelled
            | HoldOutcome::Fired,
        ) => false,
    }
}

/// What a person did of a handoff.
fn completion(closing: &HoldClosure) -> Option<Completion> {
    serde_json::from_value(closing.data.clone()).ok()
}

/// What is recorded at once, whenever it takes effect.
fn note(transition: &mut RunTransition<'_>, on: &PersonHold, closing: &HoldClosure) {
    if closing.outcome != HoldOutcome::Answered {
        return;
    }
    let step = step_of(transition, on.id);
    transition.event(
        EventType::InputAnswered,
        step.as_deref(),
        format!("{} answered: {}.", closing.by, in_words(&closing.data)),
        json!({ "hold": on.id, "question": on.asks, "answer": closing.data, "by": closing.by }),
    );
}

/// Whether a close may take effect now: while a person owns the run only theirs does, and before the
/// first question is answered only its own.
fn takes_effect(transition: &RunTransition<'_>, on: &PersonHold) -> bool {
    let run = &transition.run;
    let is_first = run
        .missing_inputs_hold
        .as_ref()
        .is_none_or(|missing_inputs_hold| missing_inputs_hold.id == on.id);
    let is_owners = run.taken().is_none() || on.taken.is_some();
    run.pauses.is_empty() && is_owners && (is_first || on.taken.is_some())
}

/// Lets the closes that were kept take effect.
pub(super) fn apply_kept(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    loop {
        let kept = transition.run.people().find_map(|(_, on)| {
            let closing = on
                .closing
                .clone()
                .filter(|_| takes_effect(transition, on))?;
            Some((on.clone(), closing))
        });
        let Some((on, closing)) = kept else {
            return Ok(());
        };
        // Each has its turn once, whatever comes of it.
        if let Some(it) = transition.run.people_mut().find(|it| it.id == on.id) {
            it.closing = None;
        }
        if fits(on.kind, &closing) {
            apply(transition, &on, &closing)?;
        }
    }
}

fn apply(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    let Some(place) = place_of(transition, on.id) else {
        return Ok(());
    };
    transition.run.clocks.human_ms += millis_between(on.since, transition.now);
    transition.run.closed.push(on.id.number);
    if closing.outcome == HoldOutcome::Timeout {
        transition.run.timed_out.push(on.id.number);
    }
    match (place, on.kind) {
        (Place::Barge, _) => handing::barge_over(transition, closing),
        (Place::Gate, _) => missing_inputs::over(transition, on, closing)?,
        (Place::Step(index), HoldKind::Handoff) => handing::over(transition, index, on, closing)?,
        (Place::Step(index), HoldKind::Input | HoldKind::Approval | HoldKind::Timer) => {
            question_over(transition, index, on, closing)?;
        }
    }
    if on.taken.is_some() {
        control::go_on_waits(transition);
    }
    Ok(())
}

fn place_of(transition: &RunTransition<'_>, hold: HoldId) -> Option<Place> {
    let is_it = |on: &PersonHold| on.id == hold;
    if transition
        .run
        .missing_inputs_hold
        .as_deref()
        .is_some_and(is_it)
    {
        return Some(Place::Gate);
    }
    if transition.run.takeover_hold.as_deref().is_some_and(is_it) {
        return Some(Place::Barge);
    }
    let mut steps = transition.run.steps.iter();
    let index = steps.position(|step| step.on_people().is_some_and(is_it));
    index.map(Place::Step)
}

fn step_of(transition: &RunTransition<'_>, hold: HoldId) -> Option<String> {
    let mut people = transition.run.people();
    let (step, _) = people.find(|(_, on)| on.id == hold)?;
    step.map(|step| step.id.clone())
}

/// A step's question has ended (S3-R3, S3-R5).
fn question_over(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    closing: &HoldClosure,
) -> Result<(), Undecided> {
    match closing.outcome {
        HoldOutcome::Answered => answered(transition, index, on, (&closing.data, &closing.by))?,
        HoldOutcome::Timeout => {
            let spec = spec(transition, on.id)?;
            match on.on_timeout {
                OnTimeout::Skip | OnTimeout::Continue => skipped(transition, index, on),
                OnTimeout::Default => {
                    let answer = spec.default.unwrap_or_default();
                    let by = "timeout";
                    let data =
                        json!({ "hold": on.id, "question": on.asks, "answer": answer, "by": by });
                    let message = format!("Nobody answered in time; {} counts.", in_words(&answer));
                    let step = transition.step(index).map(|step| step.id.clone());
                    transition.event(EventType::InputAnswered, step.as_deref(), message, data);
                    answered(transition, index, on, (&answer, by))?;
                }
                OnTimeout::Fail | OnTimeout::Escalate => timed_out(transition, index, on),
            }
        }
        HoldOutcome::Cancelled => refused(transition, index, closing),
        HoldOutcome::Approved
        | HoldOutcome::Rejected
        | HoldOutcome::Completed
        | HoldOutcome::TakenOver
        | HoldOutcome::Fired => {}
    }
    Ok(())
}

/// The answer is the step's result, or goes to its tool; the agent reads it as what the user said
/// (S3-R4).
fn answered(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: &PersonHold,
    (answer, by): (&Value, &str),
) -> Result<(), Undecided> {
    let said = in_words(answer);
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
        return asking::answered(transition, index, &given, description);
    }
    let data = json!(given);
    let waited_ms = millis_between(on.since, transition.now);
    complete(transition, index, (description, data), waited_ms);
    Ok(())
}

/// A step on people is done.
fn complete(
    transition: &mut RunTransition<'_>,
    index: usize,
    (description, data): (String, Value),
    waited_ms: u64,
) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Completed { at: now };
    let id = step.id.clone();
    let response = ActionResult {
        success: true,
        description: description.clone(),
        error: None,
        data: data.clone(),
        duration_ms: waited_ms,
    };
    let row = RowData {
        response: Some(response),
        ..RowData::default()
    };
    transition.row(index, row);
    let by = data.get("by").cloned().unwrap_or_default();
    transition.value(id.clone(), data);
    transition.event(
        EventType::RunResumed,
        Some(&id),
        description,
        json!({ "by": by }),
    );
}

/// Time was up, and the plan says that the step is skipped then.
fn skipped(transition: &mut RunTransition<'_>, index: usize, on: &PersonHold) {
    let now = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Skipped { at: now };
    let id = step.id.clone();
    let message = format!("Skipped: {}", words::nobody(on));
    let row = RowData {
        why: Some(message.clone()),
        ..RowData::default()
    };
    transition.row(index, row);
    transition.event(
        EventType::StepSkipped,
        Some(&id),
        message,
        json!({ "hold": on.id, "reason": "timeout" }),
    );
}

/// Time was up, and the plan says that the run fails then (S3-R5).
fn timed_out(transition: &mut RunTransition<'_>, index: usize, on: &PersonHold) {
    advance::fail_step(transition, index, HUMAN_TIMEOUT, &words::nobody(on), None);
}

/// The owner does not put it to anybody (S0-R1): in its words.
fn refused(transition: &mut RunTransition<'_>, index: usize, closing: &HoldClosure) {
    let text = |name: &str| closing.data.get(name).and_then(Value::as_str);
    let code = text("code").unwrap_or("withdrawn").to_owned();
    let message = text("message").unwrap_or("The request was withdrawn.");
    advance::fail_step(transition, index, &code, message, None);
}

/// What a hold asks, as its owner was told.
pub(super) fn spec(transition: &RunTransition<'_>, hold: HoldId) -> Result<HoldSpec, Undecided> {
    let need = Need::Value(transition.run.id, spec_name(hold));
    match transition.lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(spec)) => {
            serde_json::from_value((*spec).clone()).map_err(|_unreadable| lost(hold))
        }
        Lookup::Missing | Lookup::Found(_) => Err(lost(hold)),
    }
}

const fn lost(hold: HoldId) -> Undecided {
    Undecided::Refused(Refusal::SpecMissing(hold))
}

/// An answer as a person reads it: texts without quotes, cut.
pub(super) fn in_words(answer: &Value) -> String {
    let text = match answer {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            answer.to_string()
        }
    };
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}
