//! Holds on people: how they begin, and what their owner's word does to the run.
//!
//! The handoff service decides who may answer and when time is up; here it only takes effect, once,
//! and while the run stands still it is kept.

pub(super) mod asking;
pub(super) mod deeds;
pub(super) mod gate;
pub(super) mod handing;
pub(super) mod opening;
pub(in crate::domain) mod words;

use holdpoint_contracts::asking::GivenAnswer;
use holdpoint_contracts::handoff::Completion;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ClosedAnswer, HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::effect::Answer;
use crate::domain::input::RunInput;
use crate::domain::need::{Fact, Found, INPUT, Need};
use crate::domain::refusal::Refusal;
use crate::domain::run::people::{Closing, OnPeople, spec_name};
use crate::domain::run::{Choice, Run, StepPhase, millis_between};

use super::turn::{RowData, Stop, Turn};
use super::{Verdict, advance, control, uncertain};

/// Code of a step whose person is not there (S0-R1).
pub(super) const ASSIGNEE_INACTIVE: &str = "assignee_inactive";
/// Code of a step that nobody answered in time.
pub(super) const HUMAN_TIMEOUT: &str = "human_timeout";

/// What the open holds on people of a run asked: for their wishes and their ends.
pub(super) fn needs(run: &Run) -> Vec<Need> {
    let mut needs: Vec<_> = run
        .people()
        .map(|(_, on)| Need::Value(run.id, spec_name(on.id)))
        .collect();
    if run.gate.is_some() {
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
        // The step may be handed out again, with the arguments that it had.
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
        | RunInput::HoldHandled { .. }
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
pub(super) fn closed(mut turn: Turn<'_>, hold: HoldId, closing: &Closing) -> Result<Verdict, Stop> {
    if turn.run.closed.contains(&hold.number) {
        let is_late =
            closing.outcome != HoldOutcome::Timeout && turn.run.timed_out.contains(&hold.number);
        return Ok(Verdict::Unchanged(Answer::Closed(match is_late {
            true => ClosedAnswer::RunEnded,
            false => ClosedAnswer::Applied,
        })));
    }
    let Some(on) = standing(&turn, hold) else {
        return uncertain::closed(turn, hold, choice(closing), closing);
    };
    let is_news = deeds::before(&mut turn, &on, closing);
    // What was told with it may have moved its deadline, or passed it on.
    let mut on = standing(&turn, hold).unwrap_or(on);
    let told = |turn: Turn<'_>, answer| {
        let answer = Answer::Closed(answer);
        Ok(match is_news {
            true => turn.decided(answer),
            false => Verdict::Unchanged(answer),
        })
    };
    // A kept time-out does not bind: its owner may have undone it, and then a person has answered.
    let is_kept = |kept: &Closing| {
        kept.outcome != HoldOutcome::Timeout || closing.outcome == HoldOutcome::Timeout
    };
    if on.closing.as_ref().is_some_and(is_kept) {
        return told(turn, ClosedAnswer::OnResume);
    }
    if !fits(on.kind, closing) {
        return Err(Stop::Refused(Refusal::UnknownAnswer(hold)));
    }
    uncertain::prepare(&turn, &[])?;
    match closing.outcome {
        // The person's word stops the timer, and whatever it had said before.
        HoldOutcome::Timeout if on.taken.is_some() => return told(turn, ClosedAnswer::Applied),
        HoldOutcome::TakenOver if on.taken.is_some() => {
            return Ok(handing::taken_on(turn, &on, closing, is_news));
        }
        HoldOutcome::TakenOver => return handing::taken_over(turn, &on, closing),
        // Time only proposes: what the pause leaves of it is asked for again on resume, and its owner,
        // who may have undone it by then, says it again.
        HoldOutcome::Timeout if on.outlives(closing) || !turn.run.pauses.is_empty() => {
            return told(turn, ClosedAnswer::OnResume);
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
    note(&mut turn, &on, closing);
    if !takes_effect(&turn, &on) {
        if let Some(on) = turn.run.people_mut().find(|on| on.id == hold) {
            on.closing = Some(Closing {
                deeds: Vec::new(),
                ..closing.clone()
            });
        }
        return Ok(turn.decided(Answer::Closed(ClosedAnswer::OnResume)));
    }
    apply(&mut turn, &on, closing)?;
    uncertain::apply_answers(&mut turn)?;
    advance::advance(&mut turn)?;
    Ok(turn.decided(Answer::Closed(ClosedAnswer::Applied)))
}

/// A hold on people as it stands; none: there is none.
fn standing(turn: &Turn<'_>, hold: HoldId) -> Option<OnPeople> {
    let mut people = turn.run.people();
    let (_, on) = people.find(|(_, on)| on.id == hold)?;
    Some(on.clone())
}

/// The option that was chosen about an uncertain step; none: not one of them. The answer itself, or
/// an object around it.
fn choice(closing: &Closing) -> Option<Choice> {
    let is_answer = closing.outcome == HoldOutcome::Answered;
    let answer = closing.data.get("answer").unwrap_or(&closing.data);
    is_answer
        .then(|| serde_json::from_value(answer.clone()).ok())
        .flatten()
}

/// Whether a hold of that kind can be closed so.
fn fits(kind: HoldKind, closing: &Closing) -> bool {
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
fn completion(closing: &Closing) -> Option<Completion> {
    serde_json::from_value(closing.data.clone()).ok()
}

/// What is recorded at once, whenever it takes effect.
fn note(turn: &mut Turn<'_>, on: &OnPeople, closing: &Closing) {
    if closing.outcome != HoldOutcome::Answered {
        return;
    }
    let step = step_of(turn, on.id);
    turn.event(
        EventType::InputAnswered,
        step.as_deref(),
        format!("{} answered: {}.", closing.by, in_words(&closing.data)),
        json!({ "hold": on.id, "question": on.asks, "answer": closing.data, "by": closing.by }),
    );
}

/// Whether a close may take effect now: while a person owns the run only theirs does, and before the
/// first question is answered only its own.
fn takes_effect(turn: &Turn<'_>, on: &OnPeople) -> bool {
    let run = &turn.run;
    let is_first = run.gate.as_ref().is_none_or(|gate| gate.id == on.id);
    let is_owners = run.taken().is_none() || on.taken.is_some();
    run.pauses.is_empty() && is_owners && (is_first || on.taken.is_some())
}

/// Lets the closes that were kept take effect.
pub(super) fn apply_kept(turn: &mut Turn<'_>) -> Result<(), Stop> {
    loop {
        let kept = turn.run.people().find_map(|(_, on)| {
            let closing = on.closing.clone().filter(|_| takes_effect(turn, on))?;
            Some((on.clone(), closing))
        });
        let Some((on, closing)) = kept else {
            return Ok(());
        };
        // Each has its turn once, whatever comes of it.
        if let Some(it) = turn.run.people_mut().find(|it| it.id == on.id) {
            it.closing = None;
        }
        if fits(on.kind, &closing) {
            apply(turn, &on, &closing)?;
        }
    }
}

fn apply(turn: &mut Turn<'_>, on: &OnPeople, closing: &Closing) -> Result<(), Stop> {
    let Some(place) = place_of(turn, on.id) else {
        return Ok(());
    };
    turn.run.clocks.human_ms += millis_between(on.since, turn.now);
    turn.run.closed.push(on.id.number);
    if closing.outcome == HoldOutcome::Timeout {
        turn.run.timed_out.push(on.id.number);
    }
    match (place, on.kind) {
        (Place::Barge, _) => handing::barge_over(turn, closing),
        (Place::Gate, _) => gate::over(turn, on, closing)?,
        (Place::Step(index), HoldKind::Handoff) => handing::over(turn, index, on, closing)?,
        (Place::Step(index), HoldKind::Input | HoldKind::Approval | HoldKind::Timer) => {
            question_over(turn, index, on, closing)?;
        }
    }
    if on.taken.is_some() {
        control::go_on_waits(turn);
    }
    Ok(())
}

fn place_of(turn: &Turn<'_>, hold: HoldId) -> Option<Place> {
    let is_it = |on: &OnPeople| on.id == hold;
    if turn.run.gate.as_deref().is_some_and(is_it) {
        return Some(Place::Gate);
    }
    if turn.run.barge.as_deref().is_some_and(is_it) {
        return Some(Place::Barge);
    }
    let mut steps = turn.run.steps.iter();
    let index = steps.position(|step| step.on_people().is_some_and(is_it));
    index.map(Place::Step)
}

fn step_of(turn: &Turn<'_>, hold: HoldId) -> Option<String> {
    let mut people = turn.run.people();
    let (step, _) = people.find(|(_, on)| on.id == hold)?;
    step.map(|step| step.id.clone())
}

/// A step's question has ended (S3-R3, S3-R5).
fn question_over(
    turn: &mut Turn<'_>,
    index: usize,
    on: &OnPeople,
    closing: &Closing,
) -> Result<(), Stop> {
    match closing.outcome {
        HoldOutcome::Answered => answered(turn, index, on, (&closing.data, &closing.by))?,
        HoldOutcome::Timeout => {
            let spec = spec(turn, on.id)?;
            match on.on_timeout {
                OnTimeout::Skip | OnTimeout::Continue => skipped(turn, index, on),
                OnTimeout::Default => {
                    let answer = spec.default.unwrap_or_default();
                    let by = "timeout";
                    let data =
                        json!({ "hold": on.id, "question": on.asks, "answer": answer, "by": by });
                    let message = format!("Nobody answered in time; {} counts.", in_words(&answer));
                    let step = turn.step(index).map(|step| step.id.clone());
                    turn.event(EventType::InputAnswered, step.as_deref(), message, data);
                    answered(turn, index, on, (&answer, by))?;
                }
                OnTimeout::Fail | OnTimeout::Escalate => timed_out(turn, index, on),
            }
        }
        HoldOutcome::Cancelled => refused(turn, index, closing),
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
    turn: &mut Turn<'_>,
    index: usize,
    on: &OnPeople,
    (answer, by): (&Value, &str),
) -> Result<(), Stop> {
    let said = in_words(answer);
    let given = GivenAnswer {
        question_id: on.id,
        answer: answer.clone(),
        by: by.to_owned(),
        continuation: format!("User responded: {said}"),
    };
    let description = format!("{by} answered: {said}.");
    if turn
        .step(index)
        .is_some_and(|step| step.open_question().is_some())
    {
        return asking::answered(turn, index, &given, description);
    }
    let data = json!(given);
    let waited_ms = millis_between(on.since, turn.now);
    complete(turn, index, (description, data), waited_ms);
    Ok(())
}

/// A step on people is done.
fn complete(
    turn: &mut Turn<'_>,
    index: usize,
    (description, data): (String, Value),
    waited_ms: u64,
) {
    let now = turn.now;
    let Some(step) = turn.step_mut(index) else {
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
    turn.row(index, row);
    let by = data.get("by").cloned().unwrap_or_default();
    turn.value(id.clone(), data);
    turn.event(
        EventType::RunResumed,
        Some(&id),
        description,
        json!({ "by": by }),
    );
}

/// Time was up, and the plan says that the step is skipped then.
fn skipped(turn: &mut Turn<'_>, index: usize, on: &OnPeople) {
    let now = turn.now;
    let Some(step) = turn.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Skipped { at: now };
    let id = step.id.clone();
    let message = format!("Skipped: {}", words::nobody(on));
    let row = RowData {
        why: Some(message.clone()),
        ..RowData::default()
    };
    turn.row(index, row);
    turn.event(
        EventType::StepSkipped,
        Some(&id),
        message,
        json!({ "hold": on.id, "reason": "timeout" }),
    );
}

/// Time was up, and the plan says that the run fails then (S3-R5).
fn timed_out(turn: &mut Turn<'_>, index: usize, on: &OnPeople) {
    advance::fail_step(turn, index, HUMAN_TIMEOUT, &words::nobody(on), None);
}

/// The owner does not put it to anybody (S0-R1): in its words.
fn refused(turn: &mut Turn<'_>, index: usize, closing: &Closing) {
    let text = |name: &str| closing.data.get(name).and_then(Value::as_str);
    let code = text("code").unwrap_or("withdrawn").to_owned();
    let message = text("message").unwrap_or("The request was withdrawn.");
    advance::fail_step(turn, index, &code, message, None);
}

/// What a hold asks, as its owner was told.
fn spec(turn: &Turn<'_>, hold: HoldId) -> Result<HoldSpec, Stop> {
    let need = Need::Value(turn.run.id, spec_name(hold));
    match turn.look(&need) {
        Found::Unknown => Err(Stop::Need(vec![need])),
        Found::Here(Fact::Value(spec)) => {
            serde_json::from_value((*spec).clone()).map_err(|_unreadable| lost(hold))
        }
        Found::Absent | Found::Here(_) => Err(lost(hold)),
    }
}

const fn lost(hold: HoldId) -> Stop {
    Stop::Refused(Refusal::SpecMissing(hold))
}

/// As [`spec`], for the wish.
pub(super) fn wanted_spec(turn: &Turn<'_>, on: &OnPeople) -> Result<HoldSpec, Stop> {
    spec(turn, on.id)
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
