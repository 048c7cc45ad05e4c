//! A run begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::Clocks;
use holdpoint_ids::{AgentName, ContactId, RunId, Workspace};
use serde_json::json;

use crate::domain::agent::Agent;
use crate::domain::effect::Answer;
use crate::domain::input::RunInput;
use crate::domain::need::{Found, INPUT, Lookup, Need};
use crate::domain::plan::OnPause;
use crate::domain::refusal::Refusal;
use crate::domain::run::questions::Questions;
use crate::domain::run::{LABEL_CHARS_MAX, LABELS_MAX, Phase, Run, Step, StepPhase};
use crate::domain::scope::Followed;

use super::turn::{Stop, Turn};
use super::{Scopes, Verdict, advance, follow, people, settle};

/// Accepts a run of the agent's newest version and takes its first steps.
pub(super) fn start(
    workspace: &Workspace,
    run: RunId,
    input: &RunInput,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Verdict {
    settle(try_start(workspace, run, input, look, now))
}

fn try_start(
    workspace: &Workspace,
    id: RunId,
    input: &RunInput,
    look: Lookup<'_>,
    now: DateTime<Utc>,
) -> Result<Verdict, Stop> {
    let RunInput::Start {
        agent,
        input,
        contact,
        labels,
        by,
    } = input
    else {
        return Err(Stop::Refused(Refusal::RunNotFound(id)));
    };
    check_labels(labels)?;
    let (known, scopes) = newest(workspace, agent, contact.as_ref(), look)?;
    let mut fresh = Run {
        id,
        workspace: workspace.clone(),
        agent: agent.clone(),
        plan: known.newest,
        contact: contact.clone(),
        labels: labels.clone(),
        started_by: by.clone(),
        created_at: now,
        version: 0,
        seq: 0,
        holds: 0,
        phase: Phase::Live,
        steps: Vec::new(),
        pauses: Vec::new(),
        followed: Followed::default(),
        on_pause: OnPause::default(),
        watched: false,
        clocks: Clocks::default(),
        gate: None,
        barge: None,
        closed: Vec::new(),
        timed_out: Vec::new(),
        incidents: Vec::new(),
    };
    follow::stand_in(&mut fresh, &scopes)?;
    let mut turn = Turn::new(&fresh, look, now);
    let plan = turn.plan()?;
    turn.run.steps = plan
        .plan
        .steps
        .iter()
        .map(|step| planned(&step.id))
        .collect();
    turn.run.on_pause = plan.plan.on_pause;
    turn.value(INPUT.to_owned(), input.clone());
    tell(&mut turn);
    if let Some(inputs) = &plan.plan.inputs {
        people::gate::check(&mut turn, inputs, input)?;
    }
    advance::advance(&mut turn)?;
    let answer = Answer::Run(Box::new(turn.run.view(turn.now)));
    Ok(turn.decided(answer))
}

/// What the history begins with.
fn tell(turn: &mut Turn<'_>) {
    let run = &turn.run;
    let (agent, version, contact, by) = (&run.agent, run.plan, &run.contact, &run.started_by);
    let about = contact
        .as_ref()
        .map(|contact| format!(" for {contact}"))
        .unwrap_or_default();
    let message = format!("Run of {agent} (version {version}){about} started by {by}.");
    let data = json!({ "agent": agent, "version": version, "contact": contact, "by": by });
    turn.event(EventType::RunStarted, None, message, data);
    if !turn.run.pauses.is_empty() {
        let message = turn.run.message(turn.now);
        let data = json!({ "paused_by": turn.run.pauses });
        turn.event(EventType::RunPaused, None, message, data);
    }
}

/// The agent as it is now, and all scopes of the run; refuses when it or the contact is not there.
fn newest(
    workspace: &Workspace,
    agent: &AgentName,
    contact: Option<&ContactId>,
    look: Lookup<'_>,
) -> Result<(Arc<Agent>, Scopes), Stop> {
    let mut needs = Scopes::needs(workspace, agent).to_vec();
    needs.extend(
        contact
            .into_iter()
            .map(|contact| Need::Contact(workspace.clone(), contact.clone())),
    );
    let unknown: Vec<_> = needs
        .iter()
        .filter(|need| matches!(look(need), Found::Unknown))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(Stop::Need(unknown));
    }
    if let Some(contact) = contact
        && let Found::Absent = look(&Need::Contact(workspace.clone(), contact.clone()))
    {
        return Err(Stop::Refused(Refusal::UnknownContact(contact.clone())));
    }
    let scopes = Scopes::look_up(workspace, agent, look)?;
    match scopes.agent.clone().filter(|known| !known.is_deleted()) {
        Some(known) => Ok((known, scopes)),
        None => Err(Stop::Refused(Refusal::AgentNotFound(agent.clone()))),
    }
}

fn planned(id: &str) -> Step {
    Step {
        id: id.to_owned(),
        phase: StepPhase::Planned,
        dispatch: 0,
        attempts: 0,
        late: Vec::new(),
        lost: 0,
        answered: Vec::new(),
        questions: Questions::default(),
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Stop> {
    let too_long = |text: &String| text.chars().count() > LABEL_CHARS_MAX;
    let wrong = if labels.len() > LABELS_MAX {
        format!("{} labels; {LABELS_MAX} is the most", labels.len())
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
    Err(Stop::Refused(Refusal::Labels(wrong)))
}
