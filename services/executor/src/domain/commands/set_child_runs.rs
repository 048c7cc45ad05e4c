//! `executor.set_child_runs`: a run wants a run that its step has started to go on, to pause or to end.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::{ChildRunStart, ChildRunState, DesiredChildRun};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{PauseScope, PausedBy, ResumeMode};
use holdpoint_ids::{AgentName, Workspace};
use serde_json::json;

use crate::domain::commands::start_run::{RunStart, StartOfChild, fresh_run, start};
use crate::domain::decision::{Decision, Lookup, LookupFn, Outcome, Undecided};
use crate::domain::effect::Reply;
use crate::domain::model::run::child_runs::ParentRun;
use crate::domain::need::{Fact, Key, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::derived_effects::decided_with_effects;
use crate::domain::rules::kept_answers::apply_kept_answers;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::pauses::{add_pause, requeue_steps, resume_holds};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Code of a run whose parent no longer needs it.
const PARENT_ENDED: &str = "parent_ended";

/// Starts a child run in its desired state. One that was cancelled before its start is stored as cancelled, so that an
/// older desired state, which may still arrive, starts nothing.
pub(crate) fn start_child_run(
    workspace: &Workspace,
    desired: &DesiredChildRun,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let (start_of, paused_by) = match &desired.state {
        ChildRunState::Open { start, .. } => (start, None),
        ChildRunState::Frozen { start, by } => (start, Some(by)),
        ChildRunState::Cancelled { .. } => {
            return store_cancelled(workspace, desired, lookup, now);
        }
    };
    let ChildRunStart {
        input,
        contact,
        by,
        ancestors,
        budget,
        runs_below,
    } = &**start_of;
    let child = StartOfChild {
        parent: parent_of(desired, ancestors, *runs_below),
        budget: budget.clone(),
        pause: paused_by.map(|by| PausedBy {
            scope: PauseScope::Parent,
            by: by.clone(),
            at: now,
            in_flight: Vec::new(),
        }),
    };
    let fresh = RunStart {
        agent: &desired.agent,
        input,
        contact: contact.as_ref(),
        labels: &BTreeMap::new(),
        by,
        child: Some(child),
    };
    Ok(match start(workspace, desired.run, &fresh, lookup, now)? {
        Outcome::Decided(mut decided) => {
            decided.reply = Reply::Nothing(());
            Outcome::Decided(decided)
        }
        Outcome::Unchanged(_) => {
            let agent = desired.agent.clone();
            return Err(Refusal::StartedBefore(agent).into());
        }
    })
}

fn parent_of(
    desired: &DesiredChildRun,
    ancestors: &[AgentName],
    runs_below: Option<u32>,
) -> ParentRun {
    ParentRun {
        hold: desired.hold,
        step: desired.step.clone(),
        rev: desired.rev,
        ancestors: ancestors.to_vec(),
        runs_below,
        has_report: false,
    }
}

/// Without its agent a start is refused, and nothing has to be stored.
fn store_cancelled(
    workspace: &Workspace,
    desired: &DesiredChildRun,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let need = Need::State(Key::Agent(workspace.clone(), desired.agent.clone()));
    let agent = match lookup(&need) {
        Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Agent(agent)) => agent,
        Lookup::Missing | Lookup::Found(_) => return Ok(Outcome::Unchanged(Reply::Nothing(()))),
    };
    let by = parent_actor(desired);
    let mut fresh = fresh_run(workspace, desired.run, &agent, &by, now);
    fresh.parent = Some(Box::new(parent_of(desired, &[], None)));
    let mut transition = RunTransition::new(&fresh, lookup, now);
    cancel(&mut transition, desired);
    decided_with_effects(transition, Reply::Nothing(()))
}

fn parent_actor(desired: &DesiredChildRun) -> Actor {
    Actor(desired.hold.run.to_string())
}

fn cancel(transition: &mut RunTransition<'_>, desired: &DesiredChildRun) {
    let by = parent_actor(desired);
    let reason = match &desired.state {
        ChildRunState::Cancelled { reason } => reason.as_str(),
        ChildRunState::Open { .. } | ChildRunState::Frozen { .. } => "",
    };
    let message = format!("Cancelled: {reason}.");
    let data = json!({ "by": by, "reason": reason });
    transition.cancel(&by, PARENT_ENDED, message, data);
}

/// Brings a child run into its desired state. An older one changes nothing. A run that has ended is free of its parent,
/// also if an operator retries it.
pub(crate) fn set_child_run<'a>(
    mut transition: RunTransition<'a>,
    desired: &DesiredChildRun,
) -> RunDecision<'a> {
    let parent = transition.run.parent.as_deref_mut();
    let Some(parent) = parent.filter(|parent| parent.hold == desired.hold) else {
        return Err(Refusal::RunIdTaken(desired.run).into());
    };
    let is_free = parent.has_report || transition.before.is_final();
    if desired.rev <= parent.rev || is_free {
        return Ok(RunOutcome::Unchanged(Reply::Nothing(())));
    }
    parent.rev = desired.rev;
    let by = parent_actor(desired);
    let is_paused = transition.run.pauses.iter().any(is_of_parent);
    match &desired.state {
        ChildRunState::Open { mode, .. } if is_paused => resume(&mut transition, &by, *mode)?,
        ChildRunState::Frozen { by, .. } if !is_paused => {
            load_open_hold_needs(&transition, &[])?;
            add_pause(&mut transition, PauseScope::Parent, &Actor(by.clone()));
        }
        ChildRunState::Open { .. } | ChildRunState::Frozen { .. } => {}
        ChildRunState::Cancelled { .. } => cancel(&mut transition, desired),
    }
    transition.decided(Reply::Nothing(()))
}

fn is_of_parent(pause: &PausedBy) -> bool {
    pause.scope == PauseScope::Parent
}

/// Lifts the pause of the parent. The run goes on unless a person, its agent or its workspace has paused it, too.
fn resume(
    transition: &mut RunTransition<'_>,
    by: &Actor,
    mode: ResumeMode,
) -> Result<(), Undecided> {
    load_open_hold_needs(transition, &[])?;
    transition.run.pauses.retain(|pause| !is_of_parent(pause));
    if !transition.run.pauses.is_empty() {
        return Ok(());
    }
    resume_holds(transition, by, mode);
    requeue_steps(transition);
    apply_kept_answers(transition)?;
    start_next_steps(transition)
}
