//! What a run wants of the runs that its steps have started, and the report of its own end to its parent.
//!
//! Both follow from the states before and after a decision, so that no command can forget them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::executor::{
    ChildRunEnd, ChildRunStart, ChildRunState, DesiredChildRun, RemainingBudget,
};
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::RunId;
use serde_json::Value;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::effect::Effect;
use crate::domain::model::run::child_runs::OUTPUT;
use crate::domain::model::run::{ChildRuns, Run, Step};
use crate::domain::need::{Fact, Need};
use crate::domain::transition::RunTransition;

/// Longest message in the report of an end, in characters. The child run has all of it.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// A child run that a step waits for.
#[derive(Clone, Copy)]
struct Awaited<'r> {
    step: &'r Step,
    runs: &'r ChildRuns,
    place: usize,
}

/// The child runs that must not end yet.
fn awaited(run: &Run) -> BTreeMap<RunId, Awaited<'_>> {
    let steps = run.steps.iter();
    let steps = steps.filter_map(|step| Some((step, step.awaited_runs()?)));
    let runs = steps.flat_map(|(step, runs)| {
        let open = runs.runs.iter().enumerate();
        let open = open.filter(|(_, run)| run.end.is_none());
        open.map(move |(place, run)| (run.run, Awaited { step, runs, place }))
    });
    runs.collect()
}

/// Who has paused the run, if anyone has: its child runs are paused with it.
fn paused_by(run: &Run) -> Option<&str> {
    run.pauses.first().map(|pause| pause.by.as_str())
}

/// What the open child runs need for their desired states: their inputs.
pub(crate) fn child_run_needs(run: &Run) -> Vec<Need> {
    let steps = run
        .steps
        .iter()
        .filter(|step| step.awaited_runs().is_some());
    steps
        .map(|step| Need::Request(run.id, step.id.clone()))
        .collect()
}

/// The inputs of the child runs that this decision starts. The next decision of a batch may pause them before the row
/// of their step is stored.
pub(crate) fn child_run_inputs(transition: &RunTransition<'_>) -> Vec<(Need, Fact)> {
    let run = &transition.run;
    let facts = child_run_needs(run).into_iter().filter_map(|need| {
        let Need::Request(_, step) = &need else {
            return None;
        };
        let inputs = new_inputs(transition, step)?.clone();
        Some((need, Fact::Value(Arc::new(inputs))))
    });
    facts.collect()
}

/// The request that this decision writes into the row of a step.
fn new_inputs<'t>(transition: &'t RunTransition<'_>, step: &str) -> Option<&'t Value> {
    let rows = transition.effects.iter().rev();
    let rows = rows.filter_map(Effect::try_as_step_ref);
    let mut rows = rows.filter(|row| row.step == step);
    rows.find_map(|row| row.request.as_ref())
}

/// Desired states of child runs that begin, freeze, go on or are no longer needed with the transition.
pub(crate) fn child_run_effects(
    transition: &mut RunTransition<'_>,
) -> Result<Vec<Effect>, Undecided> {
    let (before, after) = (awaited(transition.before), awaited(&transition.run));
    if before.is_empty() && after.is_empty() {
        return Ok(Vec::new());
    }
    let (was, is) = (paused_by(transition.before), paused_by(&transition.run));
    let mut effects = Vec::new();
    for (child, awaited) in &after {
        if before.contains_key(child) && was.is_some() == is.is_some() {
            continue;
        }
        let start = Box::new(child_start(transition, *awaited)?);
        let state = match is {
            Some(by) => ChildRunState::Frozen {
                start,
                by: by.to_owned(),
            },
            None => ChildRunState::Open {
                start,
                mode: transition.resume_mode,
            },
        };
        effects.extend(desired(transition, *awaited, state));
    }
    for (child, awaited) in &before {
        if !after.contains_key(child) && !has_ended(&transition.run, *child) {
            let reason = end_reason(&transition.run);
            let state = ChildRunState::Cancelled { reason };
            effects.extend(desired(transition, *awaited, state));
        }
    }
    let sent = effects.iter().filter_map(|effect| {
        let Effect::ChildRun { desired_state, .. } = effect else {
            return None;
        };
        Some(desired_state.hold)
    });
    let sent: BTreeSet<_> = sent.collect();
    let rev = transition.run.version;
    let steps = transition.run.steps.iter_mut();
    let runs = steps.filter_map(|step| step.child_runs.as_mut());
    for runs in runs.filter(|runs| sent.contains(&runs.hold)) {
        runs.rev = rev;
    }
    Ok(effects)
}

/// Whether the run knows that a child run has ended. One whose desired state was refused may have started.
fn has_ended(run: &Run, child: RunId) -> bool {
    let runs = run
        .steps
        .iter()
        .filter_map(|step| step.child_runs.as_deref());
    let mut runs = runs.flat_map(|runs| &runs.runs);
    runs.any(|one| one.run == child && one.end.is_some() && !one.is_refused)
}

fn end_reason(run: &Run) -> String {
    match run.status() {
        RunStatus::Cancelled => format!("its parent {} was cancelled", run.id),
        RunStatus::Failed => format!("its parent {} failed", run.id),
        RunStatus::Queued
        | RunStatus::Running
        | RunStatus::Waiting
        | RunStatus::AwaitingApproval
        | RunStatus::AwaitingInput
        | RunStatus::PausedForIntervention
        | RunStatus::Completed => format!("its parent {} no longer needs it", run.id),
    }
}

fn desired(
    transition: &RunTransition<'_>,
    awaited: Awaited<'_>,
    state: ChildRunState,
) -> Option<Effect> {
    let run = awaited.runs.runs.get(awaited.place)?;
    Some(Effect::ChildRun {
        workspace: transition.run.workspace.clone(),
        place: u32::try_from(awaited.place).ok()?,
        desired_state: Box::new(DesiredChildRun {
            run: run.run,
            rev: transition.run.version,
            hold: awaited.runs.hold,
            step: awaited.step.id.clone(),
            agent: run.agent.clone(),
            state,
        }),
    })
}

fn child_start(
    transition: &RunTransition<'_>,
    awaited: Awaited<'_>,
) -> Result<ChildRunStart, Undecided> {
    let run = &transition.run;
    Ok(ChildRunStart {
        input: child_input(transition, awaited)?,
        contact: run.contact.clone(),
        by: run.started_by.clone(),
        ancestors: run.agent_chain(),
        budget: remaining_budget(transition),
        runs_below: awaited.runs.runs_below,
    })
}

/// The inputs are in the row of the step.
fn child_input(transition: &RunTransition<'_>, awaited: Awaited<'_>) -> Result<Value, Undecided> {
    let step = &awaited.step.id;
    let at_place = |inputs: &Value| inputs.get(awaited.place).cloned().unwrap_or_default();
    if let Some(inputs) = new_inputs(transition, step) {
        return Ok(at_place(inputs));
    }
    let need = Need::Request(transition.run.id, step.clone());
    match transition.lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Value(inputs)) => Ok(at_place(&inputs)),
        Lookup::Missing | Lookup::Found(_) => Ok(Value::Null),
    }
}

/// What is left of the budget of the run. Child runs that are in progress count when they end.
fn remaining_budget(transition: &RunTransition<'_>) -> Option<RemainingBudget> {
    let spent = transition.run.spent(transition.now)?;
    let allowed = &transition.run.budget()?.allowed;
    let left = |allowed: Option<u64>, spent| Some(allowed?.saturating_sub(spent));
    Some(RemainingBudget {
        steps: allowed.steps.map(|steps| steps.saturating_sub(spent.steps)),
        wall_time_ms: left(allowed.wall_time_ms, spent.wall_time_ms),
        active_time_ms: left(allowed.active_time_ms, spent.active_time_ms),
        cost: allowed.cost.map(|cost| (cost - spent.cost).max(0.0)),
        to: allowed.to.clone(),
    })
}

/// The report to the parent, if this decision ends a child run.
pub(crate) fn report_to_parent(transition: &RunTransition<'_>) -> Option<Effect> {
    let run = &transition.run;
    let parent = run.parent.as_deref()?;
    let at = run.ended_at()?;
    // A run that is retried ends once more, perhaps in the same decision.
    if transition.before.ended_at() == Some(at) {
        return None;
    }
    let mut outputs = transition.values.iter().rev();
    let output = outputs.find(|(name, _)| name == OUTPUT);
    let output = output.filter(|_| run.status() == RunStatus::Completed);
    let used = run.budget().map(|budget| budget.used());
    let (steps, cost) = used.unwrap_or_default();
    let message = run.message(at);
    Some(Effect::ChildRunEnded {
        workspace: run.workspace.clone(),
        end: Box::new(ChildRunEnd {
            id: parent.hold,
            child: run.id,
            rev: run.version,
            status: run.status(),
            code: run.failure().map(|failure| failure.code.clone()),
            message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
            output: output
                .map(|(_, output)| Value::clone(output))
                .unwrap_or_default(),
            steps,
            cost,
            at,
        }),
    })
}
