//! How holds on people begin: what is asked in full, and what the run keeps of it.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{Assign, BARGE_IN, HoldSpec, OnTimeout, Priority, Task};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::contact::Said;
use crate::domain::context::{self, Known, Told, warm};
use crate::domain::need::{Fact, Found, Need, PlanFact};
use crate::domain::plan::people::{Ask, Handoff, whom};
use crate::domain::plan::{Action, PlannedStep};
use crate::domain::run::people::{Clock, OnPeople, Opened, condition_name, spec_name};
use crate::domain::run::{Run, Step, StepPhase};

use super::super::ended_result::asked;
use super::super::turn::{RowData, Stop, Turn};

mod filled;

use filled::{default_of, people, text};

/// Steps before a handoff that its context looks at; the newest.
const STEPS_TOLD_MAX: usize = 200;

/// What is known of the run when a handoff is opened.
#[derive(Debug, Default)]
pub(in crate::domain::decide) struct Story {
    activities: Vec<Value>,
    older_activities: u64,
    steps: Vec<Told>,
    older_steps: Vec<Told>,
}

/// Looks up what a handoff tells; what nobody has looked up yet is added to `unknown`.
pub(in crate::domain::decide) fn story(
    turn: &Turn<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> Option<Story> {
    let planned = plan.plan.steps.get(index)?;
    matches!(planned.action, Action::Handoff(_)).then(|| so_far(turn, plan, unknown))
}

/// What the steps so far came to, and what was said to and by the contact.
fn so_far(turn: &Turn<'_>, plan: &PlanFact, unknown: &mut Vec<Need>) -> Story {
    let run = &turn.run;
    let mut look = |need: Need| match turn.look(&need) {
        Found::Here(Fact::Value(value)) => (*value).clone(),
        Found::Unknown => {
            unknown.push(need);
            Value::Null
        }
        Found::Absent | Found::Here(_) => Value::Null,
    };
    let contact = run.contact.clone();
    let activities = contact.map(|id| look(Need::Activities(run.workspace.clone(), id)));
    let said = activities.and_then(|some| serde_json::from_value(some).ok());
    let Said { newest, older } = said.unwrap_or_default();
    let begun = plan.plan.steps.iter().zip(&run.steps);
    let begun: Vec<_> = begun
        .filter(|(_, step)| !matches!(step.phase, StepPhase::Planned))
        .collect();
    let over = begun.len().saturating_sub(STEPS_TOLD_MAX);
    let older_steps = begun.iter().take(over);
    let older_steps = older_steps.map(|(planned, step)| Told {
        condition: planned.when.clone().map_or(Value::Null, Value::String),
        ..begun_as(planned, step)
    });
    let steps = begun.iter().skip(over);
    let steps = steps.map(|(planned, step)| {
        let id = step.id.clone();
        let is_done = matches!(step.phase, StepPhase::Completed { .. });
        let mut value = |is_there: bool, need: Need| match is_there {
            true => look(need),
            false => Value::Null,
        };
        let has_request = !matches!(planned.action, Action::Wait { .. });
        Told {
            request: value(is_done && has_request, Need::Request(run.id, id.clone())),
            result: value(is_done, Need::Value(run.id, id.clone())),
            condition: value(
                planned.when.is_some(),
                Need::Value(run.id, condition_name(&id)),
            ),
            ..begun_as(planned, step)
        }
    });
    Story {
        activities: newest,
        older_activities: older,
        steps: steps.collect(),
        older_steps: older_steps.collect(),
    }
}

/// What is known of a step without a look at what went in and came out.
fn begun_as(planned: &PlannedStep, step: &Step) -> Told {
    Told {
        step: step.id.clone(),
        kind: planned.action.kind(),
        status: step.phase.status().as_str(),
        tool: match &planned.action {
            Action::Tool { tool, .. } => Some(tool.clone()),
            Action::Wait { .. } | Action::Ask(_) | Action::Handoff(_) => None,
        },
        ..Told::default()
    }
}

/// Opens a handoff to an operator who takes the run over by themselves.
pub(super) fn barge(turn: &mut Turn<'_>, by: &str) -> Result<OnPeople, Stop> {
    let plan = turn.plan()?;
    let mut unknown = Vec::new();
    let story = so_far(turn, &plan, &mut unknown);
    // What the steps that are revoked lack is asked for with it.
    if let Err(Stop::Need(more)) = super::handing::prepare(turn) {
        unknown.extend(more);
    }
    let contact = turn.run.contact.clone();
    let need = contact.map(|id| Need::Contact(turn.run.workspace.clone(), id));
    let contact = match need.as_ref().map(|need| turn.look(need)) {
        Some(Found::Here(Fact::Contact(contact))) => Some(contact),
        Some(Found::Unknown) => {
            unknown.extend(need);
            None
        }
        Some(Found::Absent | Found::Here(_)) | None => None,
    };
    if !unknown.is_empty() {
        return Err(Stop::Need(unknown));
    }
    let to = vec![format!("@user.{by}")];
    let message = format!("{by} took the run over.");
    let handoff = Handoff {
        to: Value::Null,
        message: None,
        priority: Priority::default(),
        assign: Assign::default(),
        timeout_ms: 0,
        time_by_policy: false,
        on_timeout: OnTimeout::Escalate,
        warm_lead: None,
        policies: Vec::new(),
    };
    let id = next_hold(&mut turn.run);
    let said = (
        &handoff,
        to.as_slice(),
        message.as_str(),
        contact.as_ref(),
        story,
    );
    // No step of the plan is behind it: none is this one.
    let spec = HoldSpec {
        reason: Some(BARGE_IN.to_owned()),
        ..handoff_spec(turn, usize::MAX, id, said)
    };
    let opened = Opened {
        kind: HoldKind::Handoff,
        to,
        asks: spec.question.clone(),
        form: None,
        on_timeout: OnTimeout::Escalate,
        length_ms: None,
    };
    Ok(open(turn, opened, &spec, id))
}

/// Opens a hold: what it asks is kept as a value, so that every wish of it says the same.
pub(super) fn open(turn: &mut Turn<'_>, opened: Opened, spec: &HoldSpec, id: HoldId) -> OnPeople {
    let mut on = OnPeople::new(id, opened, turn.now);
    on.warm_lead = spec.warm_lead;
    if !turn.run.pauses.is_empty() {
        on.freeze(turn.now);
    }
    let spec = serde_json::to_value(spec).unwrap_or_default();
    turn.value(spec_name(id), spec);
    on
}

pub(super) fn next_hold(run: &mut Run) -> HoldId {
    run.holds += 1;
    HoldId {
        run: run.id,
        number: run.holds,
    }
}

/// The form of an answer, as questions in the history have it.
pub(super) fn form(spec: &HoldSpec) -> Value {
    match (&spec.schema, spec.answers().as_slice()) {
        (Some(schema), _) => schema.clone(),
        (None, []) => json!({ "type": "string" }),
        (None, options) => json!({ "type": "string", "enum": options }),
    }
}

/// Begins an `ask` (S3-R1).
pub(in crate::domain::decide) fn ask(
    turn: &mut Turn<'_>,
    index: usize,
    ask: &Ask,
    resolved: &Value,
) {
    let Some(to) = people(turn, index, resolved.get("to")) else {
        return;
    };
    let Some(question) = text(turn, index, resolved.get("question")) else {
        return;
    };
    let Ok(default) = default_of(turn, index, ask, resolved) else {
        return;
    };
    let id = next_hold(&mut turn.run);
    let spec = HoldSpec {
        step: turn.step(index).map(|step| step.id.clone()),
        agent: Some(turn.run.agent.clone()),
        options: ask.options.clone(),
        schema: ask.schema.clone(),
        link: ask.link.clone(),
        priority: ask.priority,
        assign: ask.assign,
        to: to.clone(),
        on_timeout: ask.on_timeout,
        default,
        requester: Some(turn.run.started_by.0.clone()),
        steps_left: Some(steps_left(turn, index)),
        policies: ask.policies.clone(),
        time_by_policy: ask.time_by_policy,
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let opened = Opened {
        kind: HoldKind::Input,
        to: to.clone(),
        asks: question.clone(),
        form: Some(form(&spec)),
        on_timeout: ask.on_timeout,
        length_ms: Some(ask.timeout_ms),
    };
    let on = open(turn, opened, &spec, id);
    let request = json!({
        "to": to, "question": question, "options": ask.options, "schema": ask.schema, "link": ask.link,
        "timeout_ms": ask.timeout_ms, "on_timeout": ask.on_timeout, "default": spec.default,
    });
    let description = format!("Asked {}: {question}", whom(&to));
    let data = json!({
        "request": id, "deadline": on.deadline().map(instant::write), "on_timeout": ask.on_timeout,
        "to": to, "questions": [{ "id": id, "question": question, "schema": form(&spec) }],
    });
    let response = ActionResult {
        success: true,
        description: description.clone(),
        error: None,
        data: asked(&on),
        duration_ms: 0,
    };
    stand(turn, index, on, (request, response));
    let step = spec.step.as_deref();
    turn.event(EventType::RunAwaitingInput, step, description, data);
}

/// Puts a step into its hold.
fn stand(
    turn: &mut Turn<'_>,
    index: usize,
    on: OnPeople,
    (request, response): (Value, ActionResult),
) {
    let Some(step) = turn.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Asked(Box::new(on));
    let row = RowData {
        request: Some(request),
        response: Some(response),
        ..RowData::default()
    };
    turn.row(index, row);
}

/// Steps besides this one that would still run.
pub(super) fn steps_left(turn: &Turn<'_>, index: usize) -> u32 {
    let steps = turn.run.steps.iter().enumerate();
    let left = steps.filter(|(at, step)| *at != index && !step.phase.is_settled());
    u32::try_from(left.count()).unwrap_or(u32::MAX)
}

/// Begins a `handoff` (S0-AC6, S0-AC7).
pub(in crate::domain::decide) fn handoff(
    turn: &mut Turn<'_>,
    index: usize,
    handoff: &Handoff,
    (resolved, contact, story): (&Value, Option<&Arc<Value>>, Story),
) {
    let Some(to) = people(turn, index, resolved.get("to")) else {
        return;
    };
    let Some(message) = text(turn, index, resolved.get("message")) else {
        return;
    };
    let id = next_hold(&mut turn.run);
    let spec = handoff_spec(turn, index, id, (handoff, &to, &message, contact, story));
    let length_ms = Some(handoff.timeout_ms).filter(|ms| *ms > 0);
    let opened = Opened {
        kind: HoldKind::Handoff,
        to: to.clone(),
        asks: spec.question.clone(),
        form: None,
        on_timeout: handoff.on_timeout,
        length_ms,
    };
    let on = open(turn, opened, &spec, id);
    let request = json!({
        "to": to, "message": message, "priority": spec.priority, "warm_lead": spec.warm_lead,
        "timeout_ms": handoff.timeout_ms, "on_timeout": handoff.on_timeout,
    });
    let data = offered(&on);
    let description = format!("Handed off to {}.", whom(&to));
    let response = ActionResult {
        success: true,
        description: description.clone(),
        error: None,
        data: data.clone(),
        duration_ms: 0,
    };
    let deadline = on.deadline().map(instant::write);
    stand(turn, index, on, (request, response));
    let step = spec.step.as_deref();
    turn.event(
        EventType::HandoffOffered,
        step,
        spec.question.clone(),
        json!({
            "request": id, "to": to, "priority": spec.priority, "is_warm_lead": spec.warm_lead,
            "task_id": id, "deadline": deadline, "on_timeout": handoff.on_timeout,
        }),
    );
    let mut data = data;
    if let Some(fields) = data.as_object_mut() {
        fields.insert("hold".to_owned(), json!(id));
        fields.insert("kind".to_owned(), json!(HoldKind::Handoff));
    }
    turn.event(EventType::RunWaiting, step, description, data);
}

/// What a handoff step knows of itself from the beginning (S0-T1).
pub(in crate::domain::decide) fn offered(on: &OnPeople) -> Value {
    let resume_at = match on.clock {
        Clock::Set { due } | Clock::Frozen { due, .. } if on.goes_on() => Some(due),
        Clock::Set { .. } | Clock::Frozen { .. } | Clock::None => None,
    };
    json!({
        "scheduled": resume_at.is_some(),
        "resume_at": resume_at.map(instant::write),
        "task_id": on.id,
        "is_warm_lead": on.warm_lead,
    })
}

type Offer<'s> = (
    &'s Handoff,
    &'s [String],
    &'s str,
    Option<&'s Arc<Value>>,
    Story,
);

fn handoff_spec(turn: &Turn<'_>, index: usize, id: HoldId, said: Offer<'_>) -> HoldSpec {
    let (handoff, to, message, contact, mut story) = said;
    let null = Value::Null;
    let contact = contact.map_or(&null, |contact| contact.as_ref());
    let own = turn.step(index).map(|step| step.id.clone());
    add_own_condition(turn, own.as_deref(), &mut story.steps);
    let warm_lead = warm::is_warm_lead(handoff.warm_lead, message, contact, &story.steps);
    let agent = &turn.run.agent;
    let called = context::called(contact, turn.run.contact.as_ref().map(|id| id.as_str()));
    let (sentence, title) = match warm_lead {
        true => (
            format!("Warm lead from agent {agent}: {called} is interested"),
            format!("[Warm Lead] Agent handoff: {called}"),
        ),
        false => (
            format!("Agent {agent} needs your attention for {called}"),
            format!("Agent handoff: {called}"),
        ),
    };
    let priority = match warm_lead {
        true => handoff.priority.max(Priority::High),
        false => handoff.priority,
    };
    let mut tags = vec!["agent-handoff".to_owned(), "requires-review".to_owned()];
    tags.extend(warm_lead.then(|| "warm-lead".to_owned()));
    let task = Task {
        id: id.to_string(),
        title: format!("Personal outreach to {called}"),
        description: message.to_owned(),
        tags,
        priority,
    };
    let known = Known {
        contact: contact.clone(),
        activities: story.activities,
        older_activities: story.older_activities,
        steps: story.steps,
        older_steps: story.older_steps,
        recommended: message.to_owned(),
    };
    HoldSpec {
        step: own,
        agent: Some(agent.clone()),
        to: to.to_vec(),
        on_timeout: handoff.on_timeout,
        context: context::build(&known),
        priority,
        assign: handoff.assign,
        title: Some(title),
        task: Some(task),
        warm_lead,
        requester: Some(turn.run.started_by.0.clone()),
        steps_left: Some(steps_left(turn, index)),
        policies: handoff.policies.clone(),
        time_by_policy: handoff.time_by_policy,
        ..HoldSpec::asking(HoldKind::Handoff, sentence)
    }
}

/// The condition by which the handoff itself came about.
fn add_own_condition(turn: &Turn<'_>, own: Option<&str>, steps: &mut Vec<Told>) {
    let Some(own) = own else { return };
    let need = Need::Value(turn.run.id, condition_name(own));
    if let Found::Here(Fact::Value(condition)) = turn.look(&need) {
        steps.push(Told {
            step: own.to_owned(),
            kind: "handoff",
            status: "planned",
            condition: (*condition).clone(),
            ..Told::default()
        });
    }
}
