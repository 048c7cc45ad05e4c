//! `executor.start_run`: a caller starts a run of an agent's newest version.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::RemainingBudget;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{Clocks, PausedBy};
use holdpoint_ids::{AgentName, ContactId, RunId, Workspace};
use serde_json::{Value, json};

use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::input::RunInput;
use crate::domain::model::agent::Agent;
use crate::domain::model::plan::{OnPause, PlannedStep};
use crate::domain::model::run::child_runs::ParentRun;
use crate::domain::model::run::{LABEL_CHARS_MAX, LABELS_MAX, Phase, Run, Signals, Step};
use crate::domain::model::scope::AppliedScopes;
use crate::domain::need::{INPUT, Key, Need, PlanFact};
use crate::domain::refusal::Refusal;
use crate::domain::rules::derived_effects::decided_with_effects;
use crate::domain::rules::missing_inputs::check_inputs;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::scope_sync::inherit_pauses;
use crate::domain::rules::scopes::Scopes;
use crate::domain::rules::start_limits::limit_start;
use crate::domain::step_response::add_fields;
use crate::domain::transition::RunTransition;

/// Accepts a run of the agent's newest version and takes its first steps.
pub(crate) fn start_run(
    workspace: &Workspace,
    id: RunId,
    input: &RunInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let RunInput::Start {
        agent,
        input,
        contact,
        labels,
        by,
    } = input
    else {
        return Err(Refusal::RunNotFound(id).into());
    };
    let contact = contact.as_ref();
    let fresh = RunStart {
        agent,
        input,
        contact,
        labels,
        by,
        child: None,
    };
    start(workspace, id, &fresh, lookup, now)
}

/// A run that starts.
pub(crate) struct RunStart<'s> {
    pub(crate) agent: &'s AgentName,
    pub(crate) input: &'s Value,
    pub(crate) contact: Option<&'s ContactId>,
    pub(crate) labels: &'s BTreeMap<String, String>,
    pub(crate) by: &'s Actor,
    pub(crate) child: Option<StartOfChild>,
}

/// What a child run has from its parent.
pub(crate) struct StartOfChild {
    pub(crate) parent: ParentRun,
    pub(crate) budget: Option<RemainingBudget>,
    pub(crate) pause: Option<PausedBy>,
}

/// Accepts a run of the agent's newest version and takes its first steps. Unchanged: the agent has started a run for
/// the same contact or key before.
pub(crate) fn start(
    workspace: &Workspace,
    id: RunId,
    start: &RunStart<'_>,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let input = start.input;
    check_labels(start.labels)?;
    let (known, scopes) = load_agent(workspace, start.agent, start.contact, lookup)?;
    let mut fresh = Run {
        contact: start.contact.cloned(),
        labels: start.labels.clone(),
        parent: start
            .child
            .as_ref()
            .map(|child| Box::new(child.parent.clone())),
        ..fresh_run(workspace, id, &known, start.by, now)
    };
    inherit_pauses(&mut fresh, &scopes)?;
    let child = start.child.as_ref();
    fresh
        .pauses
        .extend(child.and_then(|child| child.pause.clone()));
    let mut transition = RunTransition::new(&fresh, lookup, now);
    let plan = transition.plan()?;
    match limit_start(&mut transition, &plan.plan.limits, input) {
        Ok(None) => {}
        Ok(Some(started)) => {
            return Ok(Outcome::Unchanged(Reply::Run(started.started(false, now))));
        }
        // The kernel loads needs at most four times, so those of the first steps are loaded as well.
        Err(undecided) => {
            return Err(undecided.with_needs_of(|| begin(&mut transition, &plan, input)));
        }
    }
    if let Some(left) = child.and_then(|child| child.budget.as_ref()) {
        transition.run.bound_budget(left);
    }
    begin(&mut transition, &plan, input)?;
    let answer = Reply::Run(transition.run.started(true, transition.now));
    decided_with_effects(transition, answer)
}

/// Takes the first steps.
fn begin(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    input: &Value,
) -> Result<(), Undecided> {
    transition.run.steps = plan.plan.steps.iter().map(planned_step).collect();
    transition.run.on_pause = plan.plan.on_pause;
    transition.value(INPUT.to_owned(), input.clone());
    record_start(transition);
    if let Some(inputs) = &plan.plan.inputs {
        check_inputs(transition, inputs, input)?;
    }
    start_next_steps(transition)
}

/// A run without contact, labels and steps.
pub(crate) fn fresh_run(
    workspace: &Workspace,
    id: RunId,
    agent: &Agent,
    by: &Actor,
    now: DateTime<Utc>,
) -> Run {
    Run {
        id,
        workspace: workspace.clone(),
        agent: agent.name.clone(),
        plan: agent.newest,
        has_generated_plan: false,
        contact: None,
        labels: BTreeMap::new(),
        started_by: by.clone(),
        created_at: now,
        version: 0,
        seq: 0,
        holds: 0,
        phase: Phase::Live,
        steps: Vec::new(),
        pauses: Vec::new(),
        suspension: None,
        blobs: Vec::new(),
        followed: AppliedScopes::default(),
        on_pause: OnPause::default(),
        watched: false,
        clocks: Clocks::default(),
        missing_inputs_hold: None,
        takeover_hold: None,
        closed: Vec::new(),
        timed_out: Vec::new(),
        incidents: Vec::new(),
        retries: 0,
        signals: Signals::default(),
        limits: None,
        parent: None,
    }
}

fn record_start(transition: &mut RunTransition<'_>) {
    let run = &transition.run;
    let (agent, version, contact, by) = (&run.agent, run.plan, &run.contact, &run.started_by);
    let about = contact
        .as_ref()
        .map(|contact| format!(" for {contact}"))
        .unwrap_or_default();
    let message = format!("Run of {agent} (version {version}){about} started by {by}.");
    let mut data = json!({ "agent": agent, "version": version, "contact": contact, "by": by });
    if let Some(parent) = run.parent_view() {
        add_fields(&mut data, json!({ "parent": parent }));
    }
    transition.event(EventType::RunStarted, None, message, data);
    if !transition.run.pauses.is_empty() {
        let message = transition.run.message(transition.now);
        let data = json!({ "paused_by": transition.run.pauses });
        transition.event(EventType::RunPaused, None, message, data);
    }
}

/// Loads the agent and all scopes of the run. Refuses if the agent or the contact does not exist.
fn load_agent(
    workspace: &Workspace,
    agent: &AgentName,
    contact: Option<&ContactId>,
    lookup: LookupFn<'_>,
) -> Result<(Arc<Agent>, Scopes), Undecided> {
    let mut needs = Scopes::needs(workspace, agent).to_vec();
    needs.extend(
        contact
            .into_iter()
            .map(|contact| Need::State(Key::Contact(workspace.clone(), contact.clone()))),
    );
    let unknown: Vec<_> = needs
        .iter()
        .filter(|need| matches!(lookup(need), Lookup::NotLoaded))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(Undecided::NeedsMore(unknown));
    }
    if let Some(contact) = contact
        && let Lookup::Missing = lookup(&Need::State(Key::Contact(
            workspace.clone(),
            contact.clone(),
        )))
    {
        return Err(Refusal::UnknownContact(contact.clone()).into());
    }
    let scopes = Scopes::look_up(workspace, agent, lookup)?;
    match scopes.agent.clone().filter(|known| !known.is_deleted()) {
        Some(known) => Ok((known, scopes)),
        None => Err(Refusal::AgentNotFound(agent.clone()).into()),
    }
}

pub(crate) fn planned_step(planned: &PlannedStep) -> Step {
    Step::planned(planned.id.clone(), planned.on_error)
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Undecided> {
    let too_long = |text: &String| text.chars().count() > LABEL_CHARS_MAX;
    let wrong = if labels.len() > LABELS_MAX {
        format!("{} labels; at most {LABELS_MAX} are allowed", labels.len())
    } else if labels
        .iter()
        .any(|(name, value)| too_long(name) || too_long(value))
    {
        format!("a label's name or value has more than {LABEL_CHARS_MAX} characters")
    } else if labels
        .keys()
        .any(|name| name.is_empty() || name.contains('='))
    {
        "a label's name is empty or contains `=`".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::Labels(wrong).into())
}
