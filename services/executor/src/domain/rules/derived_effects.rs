//! What a decision changes outside the run: leases, claims and questions.
//!
//! Derived from the states before and after, so that whoever moves a step cannot forget it: a lease
//! stands while a step is with a worker, and a question is wanted while a step is uncertain.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::{DesiredHold, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::instant;
use holdpoint_contracts::run::{HoldKind, LeaseAction, LeaseEvent};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use crate::domain::effect::{Effect, Lease};
use crate::domain::need::{Fact, Need};
use crate::domain::plan::Action;
use crate::domain::run::people::PersonHold;
use crate::domain::run::{Choice, Run, Step, StepPhase, Uncertain, Working};

use super::people;
use super::transition::RunTransition;
use crate::domain::decision::{Lookup, Undecided};

/// Largest arguments that a question shows, in bytes of JSON.
const ARGS_SHOWN_MAX: usize = 64 * 1024;

/// Asked about an uncertain step if the question with the evidence was refused.
const MINIMAL_QUESTION: &str =
    "Did this step happen? Its worker was granted the start and never reported.";

/// Leases and claims that begin or end with the step from `before` to `after`.
pub(super) fn leases(before: &Run, after: &Run, now: DateTime<Utc>) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (index, step) in after.steps.iter().enumerate() {
        let old = before.steps.get(index).and_then(working);
        let new = working(step);
        if old == new {
            continue;
        }
        if let Some((dispatch, old)) = old {
            effects.push(Effect::LeaseOver {
                run: after.id,
                step: step.id.clone(),
            });
            // With a result, or with the end of the run, there is nothing left to change hands.
            if !step.phase.is_settled() {
                let entry = LeaseEvent {
                    action: LeaseAction::Released,
                    node: old.node.clone(),
                    at: now,
                    dispatch,
                };
                effects.push(claim(after, step, entry));
            }
        }
        if let Some((dispatch, new)) = new {
            effects.push(lease(after, step, new));
            let action = match step.lost {
                0 => LeaseAction::Claimed,
                _ => LeaseAction::TakenOver,
            };
            let entry = LeaseEvent {
                action,
                node: new.node.clone(),
                at: new.since,
                dispatch,
            };
            effects.push(claim(after, step, entry));
        }
    }
    effects
}

const fn working(step: &Step) -> Option<(u64, &Working)> {
    match &step.phase {
        StepPhase::Working(working) => Some((step.dispatch, working)),
        StepPhase::Planned
        | StepPhase::Queued(_)
        | StepPhase::Waiting(_)
        | StepPhase::Asked(_)
        | StepPhase::Parked(_)
        | StepPhase::Uncertain(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => None,
    }
}

fn lease(run: &Run, step: &Step, working: &Working) -> Effect {
    Effect::Lease(Box::new(Lease {
        workspace: run.workspace.clone(),
        run: run.id,
        step: step.id.clone(),
        dispatch: step.dispatch,
        node: working.node.clone(),
        claimed_at: working.since,
        heartbeat_at: working.since,
        lease_ms: working.handed.lease_ms,
    }))
}

fn claim(run: &Run, step: &Step, entry: LeaseEvent) -> Effect {
    Effect::Claim {
        run: run.id,
        step: step.id.clone(),
        entry,
    }
}

/// What is wanted of a question: since when it is frozen, if it is.
type Frozen = Option<DateTime<Utc>>;

fn wanted(run: &Run) -> BTreeMap<HoldId, Frozen> {
    let since = run.pauses.iter().map(|pause| pause.at).min();
    run.questions()
        .map(|(_, asked)| (asked.hold, since))
        .collect()
}

/// Desired states of questions that begin, freeze, thaw or end between the states of a turn.
pub(super) fn questions(transition: &RunTransition<'_>) -> Result<Vec<Effect>, Undecided> {
    let (before, after) = (wanted(transition.before), wanted(&transition.run));
    let mut desired_states = Vec::new();
    for (step, asked) in transition.run.questions() {
        let frozen = after.get(&asked.hold).copied().flatten();
        if before.get(&asked.hold) == Some(&frozen) {
            continue;
        }
        let spec = Box::new(spec(transition, step, asked)?);
        let state = match frozen {
            Some(since) => HoldState::Frozen {
                spec,
                since,
                remaining_ms: None,
            },
            None => HoldState::Open {
                spec,
                deadline: None,
            },
        };
        desired_states.push(desired_state(transition, asked.hold, state));
    }
    let over = transition.before.questions().filter(|(step, asked)| {
        // Closed by its owner: there is nothing to tell.
        let is_answered =
            |now: &Step| now.id == step.id && now.answered.contains(&asked.hold.number);
        !after.contains_key(&asked.hold) && !transition.run.steps.iter().any(is_answered)
    });
    for (_, asked) in over {
        let reason = match has_reported(transition, asked) {
            true => "The worker has reported after all.",
            false => "The run has ended.",
        };
        let state = HoldState::Withdrawn {
            reason: reason.to_owned(),
            by: transition.ended_by.clone(),
        };
        desired_states.push(desired_state(transition, asked.hold, state));
    }
    Ok(desired_states)
}

/// Whether the step of a question has ended by what its worker said.
fn has_reported(transition: &RunTransition<'_>, asked: &Uncertain) -> bool {
    let steps = transition.before.steps.iter().zip(&transition.run.steps);
    let mut ended = steps.filter(
        |(was, _)| matches!(&was.phase, StepPhase::Uncertain(one) if one.hold == asked.hold),
    );
    ended.any(|(_, now)| {
        matches!(
            now.phase,
            StepPhase::Completed { .. } | StepPhase::Failed { .. } | StepPhase::Parked(_)
        )
    })
}

/// Since when a hold on people is frozen, if it is, until when it stands, and what is left while frozen.
type Wanted = (Frozen, Option<DateTime<Utc>>, Option<u64>);

/// What is wanted of a hold on people.
fn wanted_of(run: &Run, on: &PersonHold, is_taken: bool) -> Wanted {
    let since = run.pauses.iter().map(|pause| pause.at).min();
    // A person who owns the run has stopped the timer at its owner: nothing is wanted of it.
    let deadline = on.deadline().filter(|_| !is_taken);
    let left = on.remaining_ms().filter(|_| !is_taken);
    (since, deadline, left)
}

/// Desired states of holds on people that begin, freeze, thaw or end between the states of a turn.
pub(super) fn people(transition: &RunTransition<'_>) -> Result<Vec<Effect>, Undecided> {
    let mut desired_states = Vec::new();
    let same = |run: &'_ Run, id: HoldId| run.people().any(|(_, one)| one.id == id);
    for (_, on) in transition.run.people() {
        // Its owner has closed it, and only the run has still to move: asked again it would have two ends.
        if on.closing.is_some() {
            continue;
        }
        let is_taken = on.taken.is_some();
        let (since, deadline, left) = wanted_of(&transition.run, on, is_taken);
        let before = transition.before.people().find(|(_, old)| old.id == on.id);
        let before = before.map(|(_, old)| wanted_of(transition.before, old, is_taken));
        if before == Some((since, deadline, left)) {
            continue;
        }
        let spec = Box::new(people::spec(transition, on.id)?);
        let state = match since {
            Some(since) => HoldState::Frozen {
                spec,
                since,
                remaining_ms: on.remaining_ms(),
            },
            None => HoldState::Open { spec, deadline },
        };
        desired_states.push(desired_state(transition, on.id, state));
    }
    for (_, on) in transition.before.people() {
        // Closed by its owner: there is nothing to tell.
        if same(&transition.run, on.id) || transition.run.closed.contains(&on.id.number) {
            continue;
        }
        let reason = match transition.run.is_final() {
            true => "The run has ended.",
            false => "It is not asked any more.",
        };
        let state = HoldState::Withdrawn {
            reason: reason.to_owned(),
            by: transition.ended_by.clone(),
        };
        desired_states.push(desired_state(transition, on.id, state));
    }
    Ok(desired_states)
}

fn desired_state(transition: &RunTransition<'_>, id: HoldId, state: HoldState) -> Effect {
    Effect::Hold {
        workspace: transition.run.workspace.clone(),
        desired_state: Box::new(DesiredHold {
            id,
            rev: transition.run.version,
            state,
        }),
    }
}

/// What people are asked about an uncertain step, with the evidence.
fn spec(
    transition: &RunTransition<'_>,
    step: &Step,
    asked: &Uncertain,
) -> Result<HoldSpec, Undecided> {
    let minimal = HoldSpec {
        step: Some(step.id.clone()),
        agent: Some(transition.run.agent.clone()),
        options: Choice::ALL
            .map(|choice| choice.as_str().to_owned())
            .to_vec(),
        reason: Some("uncertain".to_owned()),
        on_timeout: OnTimeout::Escalate,
        ..HoldSpec::asking(HoldKind::Input, MINIMAL_QUESTION)
    };
    if asked.is_minimal {
        return Ok(minimal);
    }
    let need = Need::Request(transition.run.id, step.id.clone());
    let args = match transition.lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(args)) => shown(&args),
        Lookup::Missing | Lookup::Found(_) => Value::Null,
    };
    let plan = transition.plan()?;
    let planned = plan.plan.steps.iter().find(|planned| planned.id == step.id);
    let tool = planned.and_then(|planned| match &planned.action {
        Action::Tool { tool, .. } => Some(tool.clone()),
        Action::Wait { .. } | Action::Ask(_) | Action::Handoff(_) => None,
    });
    let Working { node, since, .. } = &asked.working;
    let question = format!(
        "Did {} ({}) happen? {node} was granted the start at {} and never reported.",
        step.id,
        tool.as_deref().unwrap_or("no tool"),
        instant::write(*since)
    );
    Ok(HoldSpec {
        question,
        context: json!({
            "step": step.id,
            "tool": tool,
            "args": args,
            "node": node,
            "dispatch": step.dispatch,
            "claimed_at": instant::write(*since),
        }),
        ..minimal
    })
}

fn shown(args: &Value) -> Value {
    let bytes = serde_json::to_string(args).map_or(0, |text| text.len());
    match bytes > ARGS_SHOWN_MAX {
        true => json!({ "omitted": true, "bytes": bytes }),
        false => args.clone(),
    }
}
