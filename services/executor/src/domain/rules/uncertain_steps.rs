//! A step that may have happened: the question about it, and its answers.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome};
use holdpoint_contracts::run::ActionResult;
use holdpoint_ids::{HoldId, NodeName};
use serde_json::{Value, json};

use crate::domain::effect::Reply;
use crate::domain::need::{Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::run::people::HoldClosure;
use crate::domain::run::{Answered, Choice, Step, StepPhase, Uncertain, Working, millis_between};

use super::transition::{RowData, RunTransition};
use super::{advance, control, people};
use crate::domain::decision::{Decision, Lookup, Outcome, Undecided};

/// Asks for all that the holds on people, the uncertain steps and those at `also` may lack: in one
/// question.
pub(super) fn prepare(transition: &RunTransition<'_>, also: &[usize]) -> Result<(), Undecided> {
    let asked = transition.run.questions().map(|(step, _)| step.id.clone());
    let parked = transition.run.steps.iter();
    let parked = parked.filter(|step| matches!(step.phase, StepPhase::Parked(_)));
    let asked = asked.chain(parked.map(|step| step.id.clone()));
    let also = also.iter().filter_map(|index| transition.step(*index));
    let also = also.map(|step| step.id.clone());
    let steps: Vec<_> = asked.chain(also).collect();
    let mut holds = people::needs(&transition.run);
    for step in transition
        .run
        .steps
        .iter()
        .filter(|it| steps.contains(&it.id))
    {
        holds.extend(people::asking::needs(transition.run.id, step));
    }
    if steps.is_empty() && holds.is_empty() {
        return Ok(());
    }
    let plan = transition.plan()?;
    let mut needs: Vec<_> = steps
        .iter()
        .map(|step| Need::Request(transition.run.id, step.clone()))
        .collect();
    for planned in &plan.plan.steps {
        if steps.contains(&planned.id) {
            needs.extend(advance::tool_need(transition, planned));
        }
    }
    needs.extend(holds);
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    match needs.is_empty() {
        true => Ok(()),
        false => Err(Undecided::NeedsMore(needs)),
    }
}

/// A grant has ended without a result (S4-R4, S4-R12): what does no harm twice is dispatched again,
/// about anything else people are asked.
pub(super) fn lease_ended(
    mut transition: RunTransition<'_>,
    step: &str,
    dispatch: u64,
    node: &NodeName,
) -> Decision {
    let index = transition.position(step)?;
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == dispatch);
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
        | None => return Ok(Outcome::Unchanged(Reply::Nothing(()))),
    };
    prepare(&transition, &[index])?;
    if transition.step(index).is_some_and(Step::is_parking) {
        people::asking::park(&mut transition, index)?;
        return transition.decided(Reply::Nothing(()));
    }
    if let Some(step) = transition.step_mut(index) {
        step.lost += 1;
    }
    if !lost.handed.idempotent {
        ask(&mut transition, index, lost);
    } else if transition.run.moves() {
        again(&mut transition, index)?;
    } else {
        // Nothing starts while paused: queued, so that resume hands it out.
        if let Some(step) = transition.step_mut(index) {
            step.phase = StepPhase::Queued(lost.handed);
        }
        transition.row(index, RowData::default());
    }
    transition.decided(Reply::Nothing(()))
}

pub(super) fn ask(transition: &mut RunTransition<'_>, index: usize, working: Working) {
    transition.run.holds += 1;
    let hold = HoldId {
        run: transition.run.id,
        number: transition.run.holds,
    };
    let since = transition.now;
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let (id, dispatch) = (step.id.clone(), step.dispatch);
    step.phase = StepPhase::Uncertain(Uncertain {
        working,
        hold,
        since,
        answer: None,
        is_minimal: false,
    });
    transition.row(index, RowData::default());
    let message =
        format!("{id} may have happened: its worker was granted the start and never reported.");
    let options = Choice::ALL.map(Choice::as_str);
    transition.event(
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
pub(super) fn again(transition: &mut RunTransition<'_>, index: usize) -> Result<(), Undecided> {
    let Some(id) = transition.step(index).map(|step| step.id.clone()) else {
        return Ok(());
    };
    let plan = transition.plan()?;
    let found = transition.lookup(&Need::Request(transition.run.id, id));
    if let (Lookup::Found(Fact::Value(args)), Some(planned)) = (found, plan.plan.steps.get(index)) {
        advance::step_dispatch(transition, index, (*args).clone(), planned);
        return Ok(());
    }
    // Its row is not there yet, or has gone: as if its turn came now.
    if let Some(step) = transition.step_mut(index) {
        step.phase = StepPhase::Planned;
    }
    advance::advance(transition)
}

/// The handoff service refused the question, so no person can answer it (Mend B-3, B-13). The run gets an
/// incident. The question is asked once more, in a form that has nothing to refuse. If that one is refused
/// too, the step is given up: else nothing would ever wake the run.
fn question_refused(
    mut transition: RunTransition<'_>,
    step: &str,
    asked: Uncertain,
    closing: &HoldClosure,
) -> Decision {
    let why = closing.data.get("message").and_then(Value::as_str);
    let why = why.unwrap_or("it was withdrawn").trim_end_matches('.');
    let next = if asked.is_minimal {
        "Its step is given up"
    } else {
        "It is asked again in a short form"
    };
    let message =
        format!("The question whether {step} happened could not be asked: {why}. {next}.");
    if control::note_incident(&mut transition, &message) {
        let data = json!({ "reason": message });
        transition.event(EventType::RunIncident, Some(step), message, data);
    }
    let index = transition.position(step)?;
    prepare(&transition, &[])?;
    let mut next = asked.clone();
    if asked.is_minimal {
        next.answer = Some(Answered {
            choice: Choice::GiveUp,
            by: "holdpoint".to_owned(),
        });
    } else {
        // A hold is closed for good, so the second question needs an id of its own.
        transition.run.holds += 1;
        next.hold.number = transition.run.holds;
        next.is_minimal = true;
    }
    if let Some(step) = transition.step_mut(index) {
        if next.is_minimal != asked.is_minimal {
            step.answered.push(asked.hold.number);
        }
        step.phase = StepPhase::Uncertain(next);
    }
    let reply = if asked.is_minimal && !transition.run.moves() {
        CloseReply::OnResume
    } else {
        CloseReply::Applied
    };
    apply_answers(&mut transition)?;
    transition.decided(Reply::Closed(reply))
}

/// A person has answered. While the run is paused the answer is kept and takes effect on resume; a
/// second one changes nothing.
pub(super) fn closed(
    mut transition: RunTransition<'_>,
    hold: HoldId,
    choice: Option<Choice>,
    closing: &HoldClosure,
) -> Decision {
    let told = |answer| Ok(Outcome::Unchanged(Reply::Closed(answer)));
    let steps = &transition.run.steps;
    if steps
        .iter()
        .any(|step| step.answered.contains(&hold.number))
    {
        return told(CloseReply::Applied);
    }
    let open = transition
        .run
        .questions()
        .find(|(_, asked)| asked.hold == hold);
    let Some((step, asked)) = open else {
        return told(CloseReply::RunEnded);
    };
    if asked.answer.is_some() {
        return told(CloseReply::OnResume);
    }
    let id = step.id.clone();
    let Some(choice) = choice else {
        return match closing.outcome {
            HoldOutcome::Cancelled => {
                let asked = asked.clone();
                question_refused(transition, &id, asked, closing)
            }
            HoldOutcome::Answered
            | HoldOutcome::Approved
            | HoldOutcome::Rejected
            | HoldOutcome::Completed
            | HoldOutcome::TakenOver
            | HoldOutcome::Timeout
            | HoldOutcome::Fired => Err(Undecided::Refused(Refusal::UnknownAnswer(hold))),
        };
    };
    let by = &closing.by;
    let index = transition.position(&id)?;
    prepare(&transition, &[])?;
    transition.event(
        EventType::InputAnswered,
        Some(&id),
        format!("{by} answered about {id}: {}.", choice.as_str()),
        json!({ "hold": hold, "answer": choice, "by": by }),
    );
    let answer = Answered {
        choice,
        by: by.clone(),
    };
    if let Some(StepPhase::Uncertain(asked)) =
        transition.step_mut(index).map(|step| &mut step.phase)
    {
        asked.answer = Some(answer);
    }
    if !transition.run.moves() {
        return transition.decided(Reply::Closed(CloseReply::OnResume));
    }
    apply_answers(&mut transition)?;
    transition.decided(Reply::Closed(CloseReply::Applied))
}

/// Lets the answers that were given take effect.
pub(super) fn apply_answers(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    people::apply_kept(transition)?;
    if !transition.run.moves() {
        return Ok(());
    }
    let given: Vec<_> = transition
        .run
        .questions()
        .filter_map(|(step, asked)| Some((step.id.clone(), asked.clone(), asked.answer.clone()?)))
        .collect();
    for (id, asked, answer) in given {
        // An answer before may have ended the run, and with it this question.
        if transition.run.is_final() {
            return Ok(());
        }
        apply(transition, &id, &asked, &answer)?;
    }
    Ok(())
}

fn apply(
    transition: &mut RunTransition<'_>,
    id: &str,
    asked: &Uncertain,
    answer: &Answered,
) -> Result<(), Undecided> {
    let index = transition.position(id)?;
    let now = transition.now;
    transition.run.clocks.human_ms += millis_between(asked.since, now);
    if let Some(step) = transition.step_mut(index) {
        step.answered.push(asked.hold.number);
    }
    match answer.choice {
        Choice::ItHappened => {
            if let Some(step) = transition.step_mut(index) {
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
            transition.row(
                index,
                RowData {
                    response: Some(response),
                    ..RowData::default()
                },
            );
            transition.value(id.to_owned(), Value::Null);
            let data = json!({ "by": answer.by, "hold": asked.hold });
            transition.event(EventType::StepSucceeded, Some(id), description, data);
            advance::advance(transition)
        }
        Choice::RunAgain => again(transition, index),
        Choice::GiveUp => {
            let message = format!("{} gave it up: nobody knows whether it happened", answer.by);
            advance::fail_step(transition, index, "given_up", &message, None);
            Ok(())
        }
    }
}
