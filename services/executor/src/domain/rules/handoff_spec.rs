//! How holds on people begin: what is asked in full, and what the run keeps of it.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{Assign, HoldSpec, OPERATOR_TAKEOVER, OnTimeout, Priority, Task};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{ActionResult, HoldKind};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::contact::Said;
use crate::domain::context::{self, Known, Told, warm};
use crate::domain::need::{Fact, Need, PlanFact};
use crate::domain::plan::people::{Ask, Handoff, whom};
use crate::domain::plan::{Action, PlannedStep};
use crate::domain::run::people::{Clock, NewPersonHold, PersonHold, condition_name, spec_name};
use crate::domain::run::{Run, Step, StepPhase};

use super::super::ended_result::asked;
use super::super::transition::{RowData, RunTransition};

mod filled;

use crate::domain::decision::{Lookup, Undecided};
use filled::{default_of, people, text};

/// Steps before a handoff that its context looks at; the newest.
const STEPS_TOLD_MAX: usize = 200;

/// What is known of the run when a handoff is opened.
#[derive(Debug, Default)]
pub(in crate::domain::decide) struct HandoffBriefing {
    activities: Vec<Value>,
    older_activities: u64,
    steps: Vec<Told>,
    older_steps: Vec<Told>,
}

/// Looks up what a handoff tells; what nobody has looked up yet is added to `unknown`.
pub(in crate::domain::decide) fn story(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> Option<HandoffBriefing> {
    let planned = plan.plan.steps.get(index)?;
    matches!(planned.action, Action::Handoff(_)).then(|| so_far(transition, plan, unknown))
}

/// What the steps so far came to, and what was said to and by the contact.
fn so_far(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    unknown: &mut Vec<Need>,
) -> HandoffBriefing {
    let run = &transition.run;
    let mut lookup = |need: Need| match transition.lookup(&need) {
        Lookup::Found(Fact::Value(value)) => (*value).clone(),
        Lookup::NotLoaded => {
            unknown.push(need);
            Value::Null
        }
        Lookup::Missing | Lookup::Found(_) => Value::Null,
    };
    let contact = run.contact.clone();
    let activities = contact.map(|id| lookup(Need::Activities(run.workspace.clone(), id)));
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
            true => lookup(need),
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
    HandoffBriefing {
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
pub(super) fn takeover_hold(
    transition: &mut RunTransition<'_>,
    by: &str,
) -> Result<PersonHold, Undecided> {
    let plan = transition.plan()?;
    let mut unknown = Vec::new();
    let story = so_far(transition, &plan, &mut unknown);
    // What the steps that are revoked lack is asked for with it.
    if let Err(Undecided::NeedsMore(more)) = super::handing::prepare(transition) {
        unknown.extend(more);
    }
    let contact = transition.run.contact.clone();
    let need = contact.map(|id| Need::Contact(transition.run.workspace.clone(), id));
    let contact = match need.as_ref().map(|need| transition.lookup(need)) {
        Some(Lookup::Found(Fact::Contact(contact))) => Some(contact),
        Some(Lookup::NotLoaded) => {
            unknown.extend(need);
            None
        }
        Some(Lookup::Missing | Lookup::Found(_)) | None => None,
    };
    if !unknown.is_empty() {
        return Err(Undecided::NeedsMore(unknown));
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
    let id = next_hold(&mut transition.run);
    let said = (
        &handoff,
        to.as_slice(),
        message.as_str(),
        contact.as_ref(),
        story,
    );
    // No step of the plan is behind it: none is this one.
    let spec = HoldSpec {
        reason: Some(OPERATOR_TAKEOVER.to_owned()),
        ..handoff_spec(transition, usize::MAX, id, said)
    };
    let opened = NewPersonHold {
        kind: HoldKind::Handoff,
        to,
        asks: spec.question.clone(),
        form: None,
        on_timeout: OnTimeout::Escalate,
        length_ms: None,
    };
    Ok(open(transition, opened, &spec, id))
}

/// Opens a hold: what it asks is kept as a value, so that every desired state of it says the same.
pub(super) fn open(
    transition: &mut RunTransition<'_>,
    opened: NewPersonHold,
    spec: &HoldSpec,
    id: HoldId,
) -> PersonHold {
    let mut on = PersonHold::new(id, opened, transition.now);
    on.warm_lead = spec.warm_lead;
    if !transition.run.pauses.is_empty() {
        on.freeze(transition.now);
    }
    let spec = serde_json::to_value(spec).unwrap_or_default();
    transition.value(spec_name(id), spec);
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
    transition: &mut RunTransition<'_>,
    index: usize,
    ask: &Ask,
    resolved: &Value,
) {
    let Some(to) = people(transition, index, resolved.get("to")) else {
        return;
    };
    let Some(question) = text(transition, index, resolved.get("question")) else {
        return;
    };
    let Ok(default) = default_of(transition, index, ask, resolved) else {
        return;
    };
    let id = next_hold(&mut transition.run);
    let spec = HoldSpec {
        step: transition.step(index).map(|step| step.id.clone()),
        agent: Some(transition.run.agent.clone()),
        options: ask.options.clone(),
        schema: ask.schema.clone(),
        link: ask.link.clone(),
        priority: ask.priority,
        assign: ask.assign,
        to: to.clone(),
        on_timeout: ask.on_timeout,
        default,
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: Some(steps_left(transition, index)),
        policies: ask.policies.clone(),
        time_by_policy: ask.time_by_policy,
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let opened = NewPersonHold {
        kind: HoldKind::Input,
        to: to.clone(),
        asks: question.clone(),
        form: Some(form(&spec)),
        on_timeout: ask.on_timeout,
        length_ms: Some(ask.timeout_ms),
    };
    let on = open(transition, opened, &spec, id);
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
    stand(transition, index, on, (request, response));
    let step = spec.step.as_deref();
    transition.event(EventType::RunAwaitingInput, step, description, data);
}

/// Puts a step into its hold.
fn stand(
    transition: &mut RunTransition<'_>,
    index: usize,
    on: PersonHold,
    (request, response): (Value, ActionResult),
) {
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    step.phase = StepPhase::Asked(Box::new(on));
    let row = RowData {
        request: Some(request),
        response: Some(response),
        ..RowData::default()
    };
    transition.row(index, row);
}

/// Steps besides this one that would still run.
pub(super) fn steps_left(transition: &RunTransition<'_>, index: usize) -> u32 {
    let steps = transition.run.steps.iter().enumerate();
    let left = steps.filter(|(at, step)| *at != index && !step.phase.is_settled());
    u32::try_from(left.count()).unwrap_or(u32::MAX)
}

/// Begins a `handoff` (S0-AC6, S0-AC7).
pub(in crate::domain::decide) fn handoff(
    transition: &mut RunTransition<'_>,
    index: usize,
    handoff: &Handoff,
    (resolved, contact, story): (&Value, Option<&Arc<Value>>, HandoffBriefing),
) {
    let Some(to) = people(transition, index, resolved.get("to")) else {
        return;
    };
    let Some(message) = text(transition, index, resolved.get("message")) else {
        return;
    };
    let id = next_hold(&mut transition.run);
    let spec = handoff_spec(
        transition,
        index,
        id,
        (handoff, &to, &message, contact, story),
    );
    let length_ms = Some(handoff.timeout_ms).filter(|ms| *ms > 0);
    let opened = NewPersonHold {
        kind: HoldKind::Handoff,
        to: to.clone(),
        asks: spec.question.clone(),
        form: None,
        on_timeout: handoff.on_timeout,
        length_ms,
    };
    let on = open(transition, opened, &spec, id);
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
    stand(transition, index, on, (request, response));
    let step = spec.step.as_deref();
    transition.event(
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
    transition.event(EventType::RunWaiting, step, description, data);
}

/// What a handoff step knows of itself from the beginning (S0-T1).
pub(in crate::domain::decide) fn offered(on: &PersonHold) -> Value {
    let resume_at = match on.clock {
        Clock::Set { due } | Clock::Frozen { due, .. } if on.continues_on_timeout() => Some(due),
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
    HandoffBriefing,
);

fn handoff_spec(
    transition: &RunTransition<'_>,
    index: usize,
    id: HoldId,
    said: Offer<'_>,
) -> HoldSpec {
    let (handoff, to, message, contact, mut story) = said;
    let null = Value::Null;
    let contact = contact.map_or(&null, |contact| contact.as_ref());
    let own = transition.step(index).map(|step| step.id.clone());
    add_own_condition(transition, own.as_deref(), &mut story.steps);
    let warm_lead = warm::is_warm_lead(handoff.warm_lead, message, contact, &story.steps);
    let agent = &transition.run.agent;
    let called = context::called(
        contact,
        transition.run.contact.as_ref().map(|id| id.as_str()),
    );
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
        requester: Some(transition.run.started_by.0.clone()),
        steps_left: Some(steps_left(transition, index)),
        policies: handoff.policies.clone(),
        time_by_policy: handoff.time_by_policy,
        ..HoldSpec::asking(HoldKind::Handoff, sentence)
    }
}

/// The condition by which the handoff itself came about.
fn add_own_condition(transition: &RunTransition<'_>, own: Option<&str>, steps: &mut Vec<Told>) {
    let Some(own) = own else { return };
    let need = Need::Value(transition.run.id, condition_name(own));
    if let Lookup::Found(Fact::Value(condition)) = transition.lookup(&need) {
        steps.push(Told {
            step: own.to_owned(),
            kind: "handoff",
            status: "planned",
            condition: (*condition).clone(),
            ..Told::default()
        });
    }
}
