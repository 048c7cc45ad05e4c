//! The specification of a handoff for the person who takes the run over (S0-T2).

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldSpec, Priority, Task};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::redaction::{ARGS, RESULT};
use holdpoint_ids::HoldId;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::domain::decision::Lookup;
use crate::domain::model::contact::ContactActivity;
use crate::domain::model::plan::person_steps::Handoff;
use crate::domain::model::plan::{Action, OnError, PlannedStep};
use crate::domain::model::run::{PersonHold, Step, StepPhase, condition_name};
use crate::domain::need::{Fact, Key, Need, PlanFact};
use crate::domain::rules::open_hold::steps_left;
use crate::domain::rules::redaction::shown_part;
use crate::domain::step_response::{add_fields, handoff_data};
use crate::domain::transition::RunTransition;
use crate::domain::views::handoff_briefing::{HandoffFacts, StepSummary, build, called};
use crate::domain::views::warm_lead::is_warm_lead;

/// Steps before a handoff that its context looks at; the newest.
const STEPS_MAX: usize = 200;

/// Loads the facts for a handoff step, and ahead for a step that is handed off if it fails. Needs that are not loaded
/// are added to `unknown`.
pub(crate) fn load_step_briefing(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> Option<HandoffFacts> {
    let planned = transition.planned(plan, index)?;
    let is_handoff = matches!(planned.action, Action::Handoff(_));
    if !is_handoff && planned.on_error != OnError::Handoff {
        return None;
    }
    let facts = load_briefing(transition, plan, unknown);
    if is_handoff {
        return Some(facts);
    }
    // It may fail in this decision, and the kernel loads needs at most four times.
    let (workspace, contact) = (&transition.run.workspace, &transition.run.contact);
    let contact = contact.clone();
    let need = contact.map(|id| Need::State(Key::Contact(workspace.clone(), id)));
    need.and_then(|need| transition.find_value(need, unknown));
    None
}

/// Loads the results of the steps so far, and the activities of the contact.
pub(crate) fn load_briefing(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    unknown: &mut Vec<Need>,
) -> HandoffFacts {
    let run = &transition.run;
    let mut lookup = |need| transition.find_value(need, unknown).unwrap_or_default();
    let contact = run.contact.clone();
    let activities = contact.map(|id| lookup(Need::Activities(run.workspace.clone(), id)));
    let said = activities.and_then(|some| ContactActivity::deserialize(&*some).ok());
    let ContactActivity { newest, older } = said.unwrap_or_default();
    let begun = plan.plan.steps.iter().zip(&run.steps);
    let begun: Vec<_> = begun
        .filter(|(_, step)| !matches!(step.phase, StepPhase::Planned))
        .collect();
    let over = begun.len().saturating_sub(STEPS_MAX);
    let older_steps = begun.iter().take(over);
    let older_steps = older_steps.map(|(planned, step)| StepSummary {
        condition: Arc::new(planned.when.clone().map_or(Value::Null, Value::String)),
        ..step_summary(planned, step)
    });
    let steps = begun.iter().skip(over);
    let steps = steps.map(|(planned, step)| {
        let id = step.id.clone();
        let is_done = matches!(step.phase, StepPhase::Completed { .. });
        let mut value = |is_there: bool, need: Need| {
            if is_there {
                lookup(need)
            } else {
                Arc::default()
            }
        };
        // A step with `for_each` calls nothing itself.
        let has_request = planned.action.has_request() && planned.for_each.is_none();
        StepSummary {
            request: shown_part(
                step,
                ARGS,
                value(is_done && has_request, Need::Request(run.id, id.clone())),
            ),
            result: shown_part(
                step,
                RESULT,
                value(is_done, Need::Value(run.id, id.clone())),
            ),
            condition: value(
                planned.when.is_some(),
                Need::Value(run.id, condition_name(&id)),
            ),
            ..step_summary(planned, step)
        }
    });
    HandoffFacts {
        activities: newest,
        older_activities: older,
        steps: steps.collect(),
        older_steps: older_steps.collect(),
        ..HandoffFacts::default()
    }
}

/// The facts about a step without its request and result.
fn step_summary(planned: &PlannedStep, step: &Step) -> StepSummary {
    StepSummary {
        step: step.id.clone(),
        kind: planned.action.kind(),
        status: step.phase.status().as_str(),
        tool: planned.action.tool().map(str::to_owned),
        ..StepSummary::default()
    }
}

/// What a handoff offers to its recipients.
pub(crate) struct Offer<'s> {
    pub(crate) id: HoldId,
    pub(crate) to: &'s [String],
    pub(crate) facts: HandoffFacts,
}

pub(crate) fn handoff_spec(
    transition: &RunTransition<'_>,
    index: usize,
    handoff: &Handoff,
    offer: Offer<'_>,
) -> HoldSpec {
    let Offer { id, to, mut facts } = offer;
    let own = transition.step(index).map(|step| step.id.clone());
    add_own_condition(transition, own.as_deref(), &mut facts.steps);
    let (message, contact) = (&facts.recommended, &facts.contact);
    let warm_lead = is_warm_lead(handoff.warm_lead, message, contact, &facts.steps);
    let agent = &transition.run.agent;
    let contact = transition.run.contact.as_ref();
    let called = called(&facts.contact, contact.map(|id| id.as_str()));
    let (sentence, title) = if warm_lead {
        (
            format!("Warm lead from agent {agent}: {called} is interested"),
            format!("[Warm Lead] Agent handoff: {called}"),
        )
    } else {
        (
            format!("Agent {agent} needs your attention for {called}"),
            format!("Agent handoff: {called}"),
        )
    };
    let priority = if warm_lead {
        handoff.priority.max(Priority::High)
    } else {
        handoff.priority
    };
    let mut tags = vec!["agent-handoff".to_owned(), "requires-review".to_owned()];
    tags.extend(warm_lead.then(|| "warm-lead".to_owned()));
    let task = Task {
        id: id.to_string(),
        title: format!("Personal outreach to {called}"),
        description: facts.recommended.clone(),
        tags,
        priority,
    };
    HoldSpec {
        step: own,
        agent: Some(agent.clone()),
        to: to.to_vec(),
        on_timeout: handoff.on_timeout,
        context: build(&facts),
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

fn add_own_condition(
    transition: &RunTransition<'_>,
    own: Option<&str>,
    steps: &mut Vec<StepSummary>,
) {
    let Some(own) = own else { return };
    let need = Need::Value(transition.run.id, condition_name(own));
    if let Lookup::Found(Fact::Value(condition)) = transition.lookup(&need) {
        steps.push(StepSummary {
            step: own.to_owned(),
            kind: "handoff",
            status: "planned",
            condition,
            ..StepSummary::default()
        });
    }
}

/// Tells the clients that follow the history that people were offered a handoff.
pub(crate) fn announce_handoff(
    transition: &mut RunTransition<'_>,
    spec: &HoldSpec,
    on: &PersonHold,
    description: String,
) {
    let step = spec.step.as_deref();
    let offered = json!({
        "request": on.id, "to": spec.to, "priority": spec.priority, "is_warm_lead": spec.warm_lead,
        "task_id": on.id, "deadline": on.deadline().map(instant::write), "on_timeout": spec.on_timeout,
    });
    transition.event(
        EventType::HandoffOffered,
        step,
        spec.question.clone(),
        offered,
    );
    let mut data = handoff_data(on);
    add_fields(
        &mut data,
        json!({ "hold": on.id, "kind": HoldKind::Handoff }),
    );
    transition.event(EventType::RunWaiting, step, description, data);
}
