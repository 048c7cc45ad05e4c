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
use crate::domain::need::{Fact, Found, INPUT, Lookup, Need};
use crate::domain::refusal::Refusal;
use crate::domain::run::{LABEL_CHARS_MAX, LABELS_MAX, Phase, Run, Step, StepPhase};

use super::turn::{Stop, Turn};
use super::{Verdict, advance, settle};

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
    let known = newest(workspace, agent, contact.as_ref(), look)?;
    let fresh = Run {
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
        clocks: Clocks::default(),
        incidents: Vec::new(),
    };
    let mut turn = Turn::new(&fresh, look, now);
    let plan = turn.plan()?;
    turn.run.steps = plan
        .plan
        .steps
        .iter()
        .map(|step| planned(&step.id))
        .collect();
    turn.value(INPUT.to_owned(), input.clone());
    let about = contact
        .as_ref()
        .map(|contact| format!(" for {contact}"))
        .unwrap_or_default();
    turn.event(
        EventType::RunStarted,
        None,
        format!(
            "Run of {agent} (version {}){about} started by {by}.",
            known.newest
        ),
        json!({ "agent": agent, "version": known.newest, "contact": contact, "by": by }),
    );
    advance::advance(&mut turn)?;
    let answer = Answer::Run(Box::new(turn.run.view()));
    Ok(turn.decided(answer))
}

/// The agent as it is now; refuses when it or the contact is not there.
fn newest(
    workspace: &Workspace,
    agent: &AgentName,
    contact: Option<&ContactId>,
    look: Lookup<'_>,
) -> Result<Arc<Agent>, Stop> {
    let mut needs = vec![Need::Agent(workspace.clone(), agent.clone())];
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
    let Found::Here(Fact::Agent(known)) = look(&Need::Agent(workspace.clone(), agent.clone()))
    else {
        return Err(Stop::Refused(Refusal::AgentNotFound(agent.clone())));
    };
    Ok(known)
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
