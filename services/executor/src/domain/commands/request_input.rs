//! `executor.request_input`: the tool of a step asks people while it runs (S3-R2).
//!
//! A blocking tool keeps its lease, and its question is stored beside the phase of its step.

use holdpoint_contracts::asking::{GivenAnswer, InputStatus, RequestedInput, ToolQuestion};
use holdpoint_contracts::form::plain;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldSpec, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::HoldDraft;
use holdpoint_ids::{HoldId, NAME_CHARS_MAX, NotificationId};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::domain::decision::Undecided;
use crate::domain::effect::Reply;
use crate::domain::model::plan::person_steps::whom;
use crate::domain::model::run::{AtWorker, OpenQuestion, QUESTIONS_MAX, StepPhase, answer_name};
use crate::domain::need::Need;
use crate::domain::refusal::Refusal;
use crate::domain::rules::missing_tools::withdraw_missing_tool;
use crate::domain::rules::open_hold::{answer_form, next_hold_id, open_hold, steps_left};
use crate::domain::text::cut;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};
/// Letters of a key that is made from the question's text.
const KEY_DIGITS: usize = 16;

/// Longest key, in characters.
const KEY_CHARS_MAX: usize = 200;

/// A tool asks. A repeated key asks nothing new.
pub(crate) fn request_input<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    step: Option<&str>,
    dispatch: Option<u64>,
    asked: &ToolQuestion,
) -> RunDecision<'a> {
    let errors = question_errors(asked);
    if !errors.is_empty() {
        return Err(Refusal::InvalidQuestion(errors).into());
    }
    let index = asking_step(&transition, step, dispatch)?;
    let key = question_key(asked);
    if let Some(known) = known_question(&transition, index, &key)? {
        return Ok(RunOutcome::Unchanged(Reply::InputRequested(Box::new(
            known,
        ))));
    }
    check_may_ask(&transition, index, dispatch.is_some())?;
    withdraw_missing_tool(&mut transition, index);
    let id = open_question(&mut transition, index, by, &key, asked)?;
    let answer = match known_question(&transition, index, &key)? {
        Some(asked) => asked,
        None => return Err(Refusal::SpecMissing(id).into()),
    };
    transition.decided(Reply::InputRequested(Box::new(answer)))
}

fn spec_of(asked: &ToolQuestion) -> HoldSpec {
    HoldSpec {
        options: asked.options.clone(),
        schema: asked.schema.clone(),
        link: asked.link.clone(),
        to: asked.to.clone(),
        on_timeout: asked.on_timeout,
        default: asked.default.clone(),
        priority: asked.priority,
        ..HoldSpec::asking(HoldKind::Input, asked.question.clone())
    }
}

/// All errors at once, with pointers into the question: the shared validation, and what only a tool's question
/// has.
fn question_errors(asked: &ToolQuestion) -> Vec<FieldError> {
    let draft = HoldDraft {
        spec: &spec_of(asked),
        timeout_ms: Some(asked.timeout_ms),
    };
    let mut errors = draft.validate();
    if asked.on_timeout == OnTimeout::Continue {
        let message = "expected fail, skip, escalate or default";
        errors.push(FieldError::at("/on_timeout", message));
    }
    let is_key = |key: &str| {
        (1..=KEY_CHARS_MAX).contains(&key.chars().count()) && !key.chars().any(char::is_control)
    };
    if asked.key.as_deref().is_some_and(|key| !is_key(key)) {
        let message =
            format!("expected 1 to {KEY_CHARS_MAX} characters without control characters");
        errors.push(FieldError::at("/key", message));
    }
    errors
}

/// The step that asks. An outdated dispatch cannot ask.
fn asking_step(
    transition: &RunTransition<'_>,
    step: Option<&str>,
    dispatch: Option<u64>,
) -> Result<usize, Undecided> {
    let run = &transition.run;
    let refused = |why: String| Err(Refusal::NoStepRunning(run.id, why).into());
    if run.is_final() {
        return refused(format!("it is {}", run.status()));
    }
    let Some(id) = step else {
        let steps = run.steps.iter().enumerate();
        let working: Vec<_> = steps
            .filter(|(_, step)| matches!(step.phase, StepPhase::Granted(_)))
            .collect();
        return match working.as_slice() {
            [] => refused("nothing of it is with a worker".to_owned()),
            [(index, _)] => Ok(*index),
            many => {
                let ids = many.iter().map(|(_, step)| step.id.clone());
                Err(Refusal::WhichStep(ids.collect()).into())
            }
        };
    };
    let Some(index) = transition.open_position(id)? else {
        return refused(format!("{} has ended", cut(id, NAME_CHARS_MAX)));
    };
    let current = transition.step(index).map(|step| step.dispatch);
    match dispatch {
        Some(asks) if current != Some(asks) => refused(format!(
            "dispatch {asks} of `{id}` counts no more, it was taken over or has ended"
        )),
        Some(_) | None => Ok(index),
    }
}

/// Refuses unless the step is in progress and has no open question. A caller that names the dispatch has the
/// step: it may have begun before its grant, or be slow.
fn check_may_ask(
    transition: &RunTransition<'_>,
    index: usize,
    has_it: bool,
) -> Result<(), Undecided> {
    let Some(step) = transition.step(index) else {
        return Ok(());
    };
    let is_in_progress = match step.phase.at_worker() {
        Some(AtWorker::Granted(_)) => true,
        Some(AtWorker::Queued(_) | AtWorker::Uncertain(_)) => has_it,
        None => false,
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
fn question_key(asked: &ToolQuestion) -> String {
    asked.key.clone().unwrap_or_else(|| {
        let digest = format!("{:x}", Sha256::digest(asked.question.as_bytes()));
        let digits: String = digest.chars().take(KEY_DIGITS).collect();
        format!("text-{digits}")
    })
}

/// The question with that key, if it was asked.
fn known_question(
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
        given: Some(given_answer(transition, id)?),
        ..as_it_stands(id, InputStatus::Answered)
    }))
}

fn given_answer(transition: &RunTransition<'_>, hold: HoldId) -> Result<GivenAnswer, Undecided> {
    let need = Need::Value(transition.run.id, answer_name(hold.number));
    let answer = transition.load_value(need)?;
    answer
        .and_then(|answer| GivenAnswer::deserialize(answer.as_ref()).ok())
        .ok_or_else(|| Refusal::SpecMissing(hold).into())
}

/// Opens the question beside the phase of its step.
fn open_question(
    transition: &mut RunTransition<'_>,
    index: usize,
    by: &Actor,
    key: &str,
    asked: &ToolQuestion,
) -> Result<HoldId, Undecided> {
    let plan = transition.plan()?;
    let tool = transition.planned(&plan, index);
    let tool = tool.map(|it| it.action.describe());
    let id = next_hold_id(&mut transition.run);
    let question = plain(&asked.question);
    let step = transition.step(index).map(|step| step.id.clone());
    let spec = HoldSpec {
        step: step.clone(),
        agent: Some(transition.run.agent.clone()),
        question: question.clone(),
        context: json!({ "asked_by": tool }),
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: Some(steps_left(transition, index)),
        ..spec_of(asked)
    };
    let on = open_hold(transition, id, &spec, Some(asked.timeout_ms));
    let data = json!({
        "request": id, "key": key, "mode": asked.mode, "by": by,
        "deadline": on.deadline().map(instant::write), "on_timeout": asked.on_timeout,
        "to": asked.to, "questions": [{ "id": id, "question": question, "schema": answer_form(&spec) }],
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A tool's question is refused like a hold at the other doors.
    #[test]
    fn every_door_refuses_the_same_drafts_with_the_same_words() {
        for draft in holdpoint_holds::fixtures::drafts() {
            let text = json!(draft.fields).to_string();
            let question = serde_json::from_value(Value::Object(draft.fields)).unwrap();
            let errors = question_errors(&question);
            let messages: Vec<_> = errors.iter().map(|error| &*error.message).collect();
            assert_eq!(messages, draft.messages, "{text:.300}");
        }
    }
}
