//! What the tool of a step asks people while it runs (S3-R2): how it is asked, how the answer gets
//! back, and how the tool parks.
//!
//! A tool that blocks keeps its lease, and its question stands beside the phase of its step. One that
//! parks has ended: the question is the phase.

use holdpoint_contracts::asking::{
    Answers, GivenAnswer, InputStatus, RequestedInput, ToolQuestion,
};
use holdpoint_contracts::form::plain;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, NotificationId, RunId};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::domain::effect::Reply;
use crate::domain::need::{Fact, Need};
use crate::domain::plan::people::whom;
use crate::domain::refusal::Refusal;
use crate::domain::run::people::NewPersonHold;
use crate::domain::run::questions::{AnsweredQuestion, OpenQuestion, QUESTIONS_MAX, answer_name};
use crate::domain::run::{Step, StepPhase, millis_between};

use super::super::transition::{RowData, RunTransition};
use super::super::{advance, uncertain};
use super::opening::{form, next_hold, open, steps_left};
use crate::domain::decision::{Decision, Lookup, Outcome, Undecided};

mod faults;

/// Letters of a key that is made from the question's text.
const KEY_DIGITS: usize = 16;

/// What the answers of a step's tool are kept as: a dispatch brings them.
pub(in crate::domain::decide) fn needs(run: RunId, step: &Step) -> Vec<Need> {
    let names = step.questions.answer_names();
    names.map(|name| Need::Value(run, name)).collect()
}

/// The answers that go with a dispatch; whoever dispatches has asked for them before.
pub(in crate::domain::decide) fn answers(transition: &RunTransition<'_>, index: usize) -> Answers {
    let Some(step) = transition.step(index) else {
        return Answers::new();
    };
    step.questions.answers(|name| {
        match transition.lookup(&Need::Value(transition.run.id, name.to_owned())) {
            Lookup::Found(Fact::Value(answer)) => Some(answer),
            Lookup::NotLoaded | Lookup::Missing | Lookup::Found(_) => None,
        }
    })
}

/// A tool asks. The same key again asks nothing new.
pub(in crate::domain::decide) fn ask(
    mut transition: RunTransition<'_>,
    by: &Actor,
    from: (Option<&str>, Option<u64>),
    asked: &ToolQuestion,
) -> Decision {
    let wrong = faults::faults(asked);
    if !wrong.is_empty() {
        return Err(Undecided::Refused(Refusal::InvalidQuestion(wrong)));
    }
    let index = who(&transition, from)?;
    let key = key_of(asked);
    if let Some(known) = known(&transition, index, &key)? {
        return Ok(Outcome::Unchanged(Reply::Asked(Box::new(known))));
    }
    may_ask(&transition, index, from.1.is_some())?;
    let id = begin(&mut transition, index, by, (&key, asked))?;
    let answer = match known(&transition, index, &key)? {
        Some(asked) => asked,
        None => return Err(Undecided::Refused(Refusal::SpecMissing(id))),
    };
    transition.decided(Reply::Asked(Box::new(answer)))
}

/// Which step asks. A dispatch that is not the current one asks nothing.
fn who(
    transition: &RunTransition<'_>,
    (step, dispatch): (Option<&str>, Option<u64>),
) -> Result<usize, Undecided> {
    let run = &transition.run;
    let nobody = |why: String| Err(Undecided::Refused(Refusal::NoStepRunning(run.id, why)));
    if run.is_final() {
        return nobody(format!("it is {}", run.status()));
    }
    let Some(id) = step else {
        let steps = run.steps.iter().enumerate();
        let working: Vec<_> = steps
            .filter(|(_, step)| matches!(step.phase, StepPhase::Working(_)))
            .collect();
        return match working.as_slice() {
            [] => nobody("nothing of it is with a worker".to_owned()),
            [(index, _)] => Ok(*index),
            many => {
                let ids = many.iter().map(|(_, step)| step.id.clone());
                Err(Undecided::Refused(Refusal::WhichStep(ids.collect())))
            }
        };
    };
    let index = transition.position(id)?;
    let current = transition.step(index).map(|step| step.dispatch);
    match dispatch {
        Some(asks) if current != Some(asks) => nobody(format!(
            "dispatch {asks} of `{id}` counts no more, it was taken over or has ended"
        )),
        Some(_) | None => Ok(index),
    }
}

/// Whether the step is in progress, and has nothing open. Whoever names its dispatch has it: it may
/// have begun before it was granted, or be slow and not dead.
fn may_ask(transition: &RunTransition<'_>, index: usize, has_it: bool) -> Result<(), Undecided> {
    let Some(step) = transition.step(index) else {
        return Ok(());
    };
    let is_in_progress = match &step.phase {
        StepPhase::Working(_) => true,
        StepPhase::Queued(_) | StepPhase::Uncertain(_) => has_it,
        StepPhase::Planned
        | StepPhase::Waiting(_)
        | StepPhase::Asked(_)
        | StepPhase::Parked(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => false,
    };
    let refused = if !is_in_progress {
        let why = format!("`{}` is {}", step.id, step.phase.status());
        Refusal::NoStepRunning(transition.run.id, why)
    } else if let Some(open) = step.open_question() {
        Refusal::QuestionOpen(open.on.id, open.key.clone())
    } else if step.questions.answered.len() >= QUESTIONS_MAX {
        Refusal::TooManyQuestions(step.id.clone())
    } else {
        return Ok(());
    };
    Err(Undecided::Refused(refused))
}

/// The key that was given, or one by which the same text is the same question.
fn key_of(asked: &ToolQuestion) -> String {
    asked.key.clone().unwrap_or_else(|| {
        let digest = format!("{:x}", Sha256::digest(asked.question.as_bytes()));
        let digits: String = digest.chars().take(KEY_DIGITS).collect();
        format!("text-{digits}")
    })
}

/// The question of that key as it now stands, if it was asked.
fn known(
    transition: &RunTransition<'_>,
    index: usize,
    key: &str,
) -> Result<Option<RequestedInput>, Undecided> {
    let Some(step) = transition.step(index) else {
        return Ok(None);
    };
    let as_it_stands = |id: HoldId, status| RequestedInput {
        notification_id: NotificationId::opened(id),
        request_id: id,
        step: step.id.clone(),
        key: key.to_owned(),
        status,
        deadline: None,
        given: None,
    };
    if let Some(open) = step.open_question().filter(|open| open.key == key) {
        return Ok(Some(RequestedInput {
            deadline: open.on.deadline(),
            ..as_it_stands(open.on.id, InputStatus::Open)
        }));
    }
    let mut answered = step.questions.answered.iter();
    let Some(answered) = answered.find(|one| one.key == key) else {
        return Ok(None);
    };
    let id = HoldId {
        run: transition.run.id,
        number: answered.hold,
    };
    Ok(Some(RequestedInput {
        given: Some(given(transition, id)?),
        ..as_it_stands(id, InputStatus::Answered)
    }))
}

fn given(transition: &RunTransition<'_>, hold: HoldId) -> Result<GivenAnswer, Undecided> {
    let need = Need::Value(transition.run.id, answer_name(hold.number));
    match transition.lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(answer)) => GivenAnswer::deserialize(answer.as_ref())
            .map_err(|_unreadable| Undecided::Refused(Refusal::SpecMissing(hold))),
        Lookup::Missing | Lookup::Found(_) => Err(Undecided::Refused(Refusal::SpecMissing(hold))),
    }
}

/// Opens the question beside the phase of its step.
fn begin(
    transition: &mut RunTransition<'_>,
    index: usize,
    by: &Actor,
    (key, asked): (&str, &ToolQuestion),
) -> Result<HoldId, Undecided> {
    let plan = transition.plan()?;
    let tool = plan.plan.steps.get(index).map(|it| it.action.describe());
    let id = next_hold(&mut transition.run);
    let question = plain(&asked.question);
    let step = transition.step(index).map(|step| step.id.clone());
    let spec = HoldSpec {
        step: step.clone(),
        agent: Some(transition.run.agent.clone()),
        options: asked.options.clone(),
        schema: asked.schema.clone(),
        link: asked.link.clone(),
        to: asked.to.clone(),
        on_timeout: asked.on_timeout,
        default: asked.default.clone(),
        context: json!({ "asked_by": tool }),
        priority: asked.priority,
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: Some(steps_left(transition, index)),
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let opened = NewPersonHold {
        kind: HoldKind::Input,
        to: asked.to.clone(),
        asks: question.clone(),
        form: Some(form(&spec)),
        on_timeout: asked.on_timeout,
        length_ms: Some(asked.timeout_ms),
    };
    let on = open(transition, opened, &spec, id);
    let data = json!({
        "request": id, "key": key, "mode": asked.mode, "by": by,
        "deadline": on.deadline().map(instant::write), "on_timeout": asked.on_timeout,
        "to": asked.to, "questions": [{ "id": id, "question": question, "schema": form(&spec) }],
    });
    let named = step.as_deref().unwrap_or_default();
    let message = format!("{named} asks {}: {question}", whom(&asked.to));
    if let Some(step) = transition.step_mut(index) {
        step.questions.open = Some(Box::new(OpenQuestion {
            key: key.to_owned(),
            mode: asked.mode,
            on,
        }));
    }
    transition.event(EventType::RunAwaitingInput, step.as_deref(), message, data);
    Ok(id)
}

/// The tool has ended, and waits for people without holding anything. Where the answer has come
/// meanwhile its step goes out again at once; where nothing was asked it would wait for ever.
pub(in crate::domain::decide) fn park(
    transition: &mut RunTransition<'_>,
    index: usize,
) -> Result<(), Undecided> {
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
        let message = "its tool parked without having asked anybody; ask first (`request-input`), \
                       then park";
        advance::fail_step(transition, index, "parked_without_question", message, None);
        return Ok(());
    }
    step.phase = StepPhase::Planned;
    if moves {
        return uncertain::again(transition, index);
    }
    // Nothing starts while paused: its turn comes again on resume.
    transition.row(index, RowData::default());
    Ok(())
}

/// Keeps the answer for the tool: it is told when it asks again, and by the next dispatch. One that
/// has parked is dispatched again with it.
pub(super) fn answered(
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
    let Some(open) = take(step) else {
        return Ok(());
    };
    // Time before this dispatch is not this one's.
    let handed_at = match &step.phase {
        StepPhase::Queued(handed) => Some(handed.at),
        StepPhase::Working(working) => Some(working.handed.at),
        StepPhase::Uncertain(asked) => Some(asked.working.handed.at),
        StepPhase::Planned
        | StepPhase::Waiting(_)
        | StepPhase::Asked(_)
        | StepPhase::Parked(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => None,
    };
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
        return uncertain::again(transition, index);
    }
    Ok(())
}

/// Takes the open question out of its step; one that was parked has its turn again.
fn take(step: &mut Step) -> Option<Box<OpenQuestion>> {
    if let StepPhase::Parked(open) = &step.phase {
        let open = open.clone();
        step.phase = StepPhase::Planned;
        return Some(open);
    }
    step.questions.open.take()
}
