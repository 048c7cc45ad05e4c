//! A step that may have happened: the question about it, and its answers.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ClosedAnswer, HoldOutcome};
use holdpoint_contracts::run::ActionResult;
use holdpoint_ids::{HoldId, NodeName};
use serde_json::{Value, json};

use crate::domain::effect::Answer;
use crate::domain::need::{Fact, Found, Need};
use crate::domain::refusal::Refusal;
use crate::domain::run::people::Closing;
use crate::domain::run::{Answered, Choice, Step, StepPhase, Uncertain, Working, millis_between};

use super::turn::{RowData, Stop, Turn};
use super::{Verdict, advance, control, people};

/// Asks for all that the holds on people, the uncertain steps and those at `also` may lack: in one
/// question.
pub(super) fn prepare(turn: &Turn<'_>, also: &[usize]) -> Result<(), Stop> {
    let asked = turn.run.questions().map(|(step, _)| step.id.clone());
    let parked = turn.run.steps.iter();
    let parked = parked.filter(|step| matches!(step.phase, StepPhase::Parked(_)));
    let asked = asked.chain(parked.map(|step| step.id.clone()));
    let also = also.iter().filter_map(|index| turn.step(*index));
    let also = also.map(|step| step.id.clone());
    let steps: Vec<_> = asked.chain(also).collect();
    let mut holds = people::needs(&turn.run);
    for step in turn.run.steps.iter().filter(|it| steps.contains(&it.id)) {
        holds.extend(people::asking::needs(turn.run.id, step));
    }
    if steps.is_empty() && holds.is_empty() {
        return Ok(());
    }
    let plan = turn.plan()?;
    let mut needs: Vec<_> = steps
        .iter()
        .map(|step| Need::Request(turn.run.id, step.clone()))
        .collect();
    for planned in &plan.plan.steps {
        if steps.contains(&planned.id) {
            needs.extend(advance::tool_need(turn, planned));
        }
    }
    needs.extend(holds);
    needs.retain(|need| matches!(turn.look(need), Found::Unknown));
    match needs.is_empty() {
        true => Ok(()),
        false => Err(Stop::Need(needs)),
    }
}

/// A grant has ended without a result (S4-R4, S4-R12): what does no harm twice is handed out again,
/// about anything else people are asked.
pub(super) fn lease_ended(
    mut turn: Turn<'_>,
    step: &str,
    dispatch: u64,
    node: &NodeName,
) -> Result<Verdict, Stop> {
    let index = turn.position(step)?;
    let current = turn.step(index).filter(|step| step.dispatch == dispatch);
    let lost = match current.map(|step| &step.phase) {
        Some(StepPhase::Working(working)) if working.node == *node => working.clone(),
        Some(
            StepPhase::Planned
            | StepPhase::Queued(_)
            | StepPhase::Working(_)
            | StepPhase::Waiting(_)
            | StepPhase::Asked(_)
            | StepPhase::Parked(_)
            | StepPhase::Uncertain(_)
            | StepPhase::Completed { .. }
            | StepPhase::Failed { .. }
            | StepPhase::Skipped { .. }
            | StepPhase::Cancelled { .. },
        )
        | None => return Ok(Verdict::Unchanged(Answer::Nothing(()))),
    };
    prepare(&turn, &[index])?;
    if turn.step(index).is_some_and(Step::is_parking) {
        people::asking::park(&mut turn, index)?;
        return Ok(turn.decided(Answer::Nothing(())));
    }
    if let Some(step) = turn.step_mut(index) {
        step.lost += 1;
    }
    if !lost.handed.idempotent {
        ask(&mut turn, index, lost);
    } else if turn.run.moves() {
        again(&mut turn, index)?;
    } else {
        // Nothing starts while paused: queued, so that resume hands it out.
        if let Some(step) = turn.step_mut(index) {
            step.phase = StepPhase::Queued(lost.handed);
        }
        turn.row(index, RowData::default());
    }
    Ok(turn.decided(Answer::Nothing(())))
}

pub(super) fn ask(turn: &mut Turn<'_>, index: usize, working: Working) {
    turn.run.holds += 1;
    let hold = HoldId {
        run: turn.run.id,
        number: turn.run.holds,
    };
    let since = turn.now;
    let Some(step) = turn.step_mut(index) else {
        return;
    };
    let (id, dispatch) = (step.id.clone(), step.dispatch);
    step.phase = StepPhase::Uncertain(Uncertain {
        working,
        hold,
        since,
        answer: None,
    });
    turn.row(index, RowData::default());
    let message =
        format!("{id} may have happened: its worker was granted the start and never reported.");
    let options = Choice::ALL.map(Choice::as_str);
    turn.event(
        EventType::RunAwaitingInput,
        Some(&id),
        message.clone(),
        json!({
            "reason": "uncertain",
            "dispatch": dispatch,
            "questions": [{
                "id": hold,
                "question": message,
                "schema": { "type": "string", "enum": options },
            }],
        }),
    );
}

/// Hands a step out again, with the arguments that it had; the higher number fences the old one off.
pub(super) fn again(turn: &mut Turn<'_>, index: usize) -> Result<(), Stop> {
    let Some(id) = turn.step(index).map(|step| step.id.clone()) else {
        return Ok(());
    };
    let plan = turn.plan()?;
    let found = turn.look(&Need::Request(turn.run.id, id));
    if let (Found::Here(Fact::Value(args)), Some(planned)) = (found, plan.plan.steps.get(index)) {
        advance::hand_out(turn, index, (*args).clone(), planned);
        return Ok(());
    }
    // Its row is not there yet, or has gone: as if its turn came now.
    if let Some(step) = turn.step_mut(index) {
        step.phase = StepPhase::Planned;
    }
    advance::advance(turn)
}

/// The handoff service refused the question, so no person can answer it. The run gets an incident, and its
/// step stays uncertain until an operator cancels the run (Mend B-3).
fn question_refused(mut turn: Turn<'_>, step: &str, closing: &Closing) -> Verdict {
    let why = closing.data.get("message").and_then(Value::as_str);
    let why = why.unwrap_or("it was withdrawn").trim_end_matches('.');
    let message = format!(
        "The question whether {step} happened could not be asked: {why}. Cancel the run to end it."
    );
    // It has no effect.
    let told = Answer::Closed(ClosedAnswer::RunEnded);
    if !control::note_incident(&mut turn, &message) {
        return Verdict::Unchanged(told);
    }
    let data = json!({ "reason": message });
    turn.event(EventType::RunIncident, Some(step), message, data);
    turn.decided(told)
}

/// A person has answered. While the run is paused the answer is kept and takes effect on resume; a
/// second one changes nothing.
pub(super) fn closed(
    mut turn: Turn<'_>,
    hold: HoldId,
    choice: Option<Choice>,
    closing: &Closing,
) -> Result<Verdict, Stop> {
    let told = |answer| Ok(Verdict::Unchanged(Answer::Closed(answer)));
    let steps = &turn.run.steps;
    if steps
        .iter()
        .any(|step| step.answered.contains(&hold.number))
    {
        return told(ClosedAnswer::Applied);
    }
    let open = turn.run.questions().find(|(_, asked)| asked.hold == hold);
    let Some((step, asked)) = open else {
        return told(ClosedAnswer::RunEnded);
    };
    if asked.answer.is_some() {
        return told(ClosedAnswer::OnResume);
    }
    let id = step.id.clone();
    let Some(choice) = choice else {
        return match closing.outcome {
            HoldOutcome::Cancelled => Ok(question_refused(turn, &id, closing)),
            HoldOutcome::Answered
            | HoldOutcome::Approved
            | HoldOutcome::Rejected
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Timeout
            | HoldOutcome::Fired => Err(Stop::Refused(Refusal::UnknownAnswer(hold))),
        };
    };
    let by = &closing.by;
    let index = turn.position(&id)?;
    prepare(&turn, &[])?;
    turn.event(
        EventType::InputAnswered,
        Some(&id),
        format!("{by} answered about {id}: {}.", choice.as_str()),
        json!({ "hold": hold, "answer": choice, "by": by }),
    );
    let answer = Answered {
        choice,
        by: by.clone(),
    };
    if let Some(StepPhase::Uncertain(asked)) = turn.step_mut(index).map(|step| &mut step.phase) {
        asked.answer = Some(answer);
    }
    if !turn.run.moves() {
        return Ok(turn.decided(Answer::Closed(ClosedAnswer::OnResume)));
    }
    apply_answers(&mut turn)?;
    Ok(turn.decided(Answer::Closed(ClosedAnswer::Applied)))
}

/// Lets the answers that were given take effect.
pub(super) fn apply_answers(turn: &mut Turn<'_>) -> Result<(), Stop> {
    people::apply_kept(turn)?;
    if !turn.run.moves() {
        return Ok(());
    }
    let given: Vec<_> = turn
        .run
        .questions()
        .filter_map(|(step, asked)| Some((step.id.clone(), asked.clone(), asked.answer.clone()?)))
        .collect();
    for (id, asked, answer) in given {
        // An answer before may have ended the run, and with it this question.
        if turn.run.is_final() {
            return Ok(());
        }
        apply(turn, &id, &asked, &answer)?;
    }
    Ok(())
}

fn apply(turn: &mut Turn<'_>, id: &str, asked: &Uncertain, answer: &Answered) -> Result<(), Stop> {
    let index = turn.position(id)?;
    let now = turn.now;
    turn.run.clocks.human_ms += millis_between(asked.since, now);
    if let Some(step) = turn.step_mut(index) {
        step.answered.push(asked.hold.number);
    }
    match answer.choice {
        Choice::ItHappened => {
            if let Some(step) = turn.step_mut(index) {
                step.phase = StepPhase::Completed { at: now };
            }
            let description = format!("{} says that it happened.", answer.by);
            let response = ActionResult {
                success: true,
                description: description.clone(),
                error: None,
                data: Value::Null,
                duration_ms: 0,
            };
            turn.row(
                index,
                RowData {
                    response: Some(response),
                    ..RowData::default()
                },
            );
            turn.value(id.to_owned(), Value::Null);
            let data = json!({ "by": answer.by, "hold": asked.hold });
            turn.event(EventType::StepSucceeded, Some(id), description, data);
            advance::advance(turn)
        }
        Choice::RunAgain => again(turn, index),
        Choice::GiveUp => {
            let message = format!("{} gave it up: nobody knows whether it happened", answer.by);
            advance::fail_step(turn, index, "given_up", &message, None);
            Ok(())
        }
    }
}
