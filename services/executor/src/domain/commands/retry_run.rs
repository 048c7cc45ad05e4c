//! `executor.retry_run`: an operator continues a failed run.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use holdpoint_ids::NAME_CHARS_MAX;
use serde_json::{Value, json};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::plan::planner::PLANNER_STEPS;
use crate::domain::model::run::{Phase, RETRIES_MAX, StepPhase};
use crate::domain::need::{INPUT, Need, PlanFact};
use crate::domain::refusal::Refusal;
use crate::domain::rules::fan_out::keep_approval;
use crate::domain::rules::missing_inputs::check_inputs;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::rules::retried_steps::{RetriedStep, has_stopped, retried_steps};
use crate::domain::rules::scope_sync::inherit_pauses;
use crate::domain::rules::scopes::Scopes;
use crate::domain::text::cut;
use crate::domain::transition::{RowData, RunDecision, RunTransition, unchanged_run};

/// Makes a failed run live again. The steps that stopped it start again, also those that depend on `from`.
pub(crate) fn retry_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    from: Option<&str>,
) -> RunDecision<'a> {
    let failure = match &transition.run.phase {
        Phase::Live => return Ok(unchanged_run(&transition)),
        Phase::Failed { failure, .. } => failure.clone(),
        Phase::Completed { .. } | Phase::Cancelled { .. } => {
            let (run, status) = (transition.run.id, transition.run.status());
            return Err(Refusal::RunNotFailed(run, status).into());
        }
    };
    if transition.run.retries >= RETRIES_MAX {
        return Err(Refusal::TooManyRetries(transition.run.id).into());
    }
    let (scopes, input) = load_needs(&transition)?;
    let plan = transition.plan()?;
    let from = from.map(|step| planned_position(&transition, step));
    let from = from.transpose()?;
    if let Some(index) = from.filter(|index| *index < PLANNER_STEPS)
        && transition.run.has_generated_plan
        && let Some(step) = transition.step(index)
    {
        return Err(Refusal::PlanStarted(step.id.clone()).into());
    }
    let retried = retried_steps(&plan.plan, &transition.run, from)?;
    transition.run.phase = Phase::Live;
    transition.run.retries += 1;
    let now = transition.now;
    if let Some(place) = transition.run.place_mut() {
        place.since = now;
    }
    inherit_pauses(&mut transition.run, &scopes)?;
    let first = from.or_else(|| failed_step(&transition, &retried));
    let first = first.and_then(|index| transition.step(index));
    let first = first.map(|step| step.id.clone());
    for step in &retried {
        if step.is_kept {
            keep_step(&mut transition, step.index);
            continue;
        }
        reset_step(&mut transition, step.index);
        retry_children(&mut transition, step, Some(step.index) == from);
    }
    let message = match &first {
        Some(first) => format!("Retried by {by} from {first}."),
        None => format!("Retried by {by}."),
    };
    let data = json!({ "by": by, "from_step": first, "failure": failure });
    transition.event(EventType::RunRetried, None, message, data);
    continue_run(&mut transition, &plan, &input)?;
    transition.changed()
}

/// The step whose failure ended the run. A run can also fail without one.
fn failed_step(transition: &RunTransition<'_>, retried: &[RetriedStep]) -> Option<usize> {
    let mut indexes = retried.iter().map(|step| step.index);
    indexes.find(|index| {
        let step = transition.step(*index);
        step.is_some_and(|step| matches!(step.phase, StepPhase::Failed { .. }))
    })
}

/// Loads the scopes and the input of the run. Refuses if the agent or the run was deleted.
fn load_needs(transition: &RunTransition<'_>) -> Result<(Scopes, Value), Undecided> {
    let run = &transition.run;
    let mut needs = Scopes::needs(&run.workspace, &run.agent).to_vec();
    needs.push(Need::Value(run.id, INPUT.to_owned()));
    needs.push(run.plan_need());
    needs.retain(|need| matches!(transition.lookup(need), Lookup::NotLoaded));
    if !needs.is_empty() {
        return Err(Undecided::NeedsMore(needs));
    }
    let lookup = |need: &_| transition.lookup(need);
    let scopes = Scopes::look_up(&run.workspace, &run.agent, &lookup)?;
    let agent = scopes.agent.as_ref();
    if agent.is_none_or(|agent| agent.is_deleted() || run.plan <= agent.scope.dead_up_to) {
        return Err(Refusal::AgentNotFound(run.agent.clone()).into());
    }
    // Every run has an input until it is deleted. Its state may still be cached then.
    match transition.load_value(Need::Value(run.id, INPUT.to_owned()))? {
        Some(input) => Ok((scopes, Value::clone(&input))),
        None => Err(Refusal::RunNotFound(run.id).into()),
    }
}

/// The children of a fan-out are retried with their step.
fn planned_position(transition: &RunTransition<'_>, step: &str) -> Result<usize, Undecided> {
    let missing = || Refusal::StepNotFound(transition.run.id, cut(step, NAME_CHARS_MAX));
    let index = transition.position(step).ok();
    let index = index.filter(|index| !transition.run.is_child(*index));
    Ok(index.ok_or_else(missing)?)
}

fn keep_step(transition: &mut RunTransition<'_>, index: usize) {
    if let Some(step) = transition.step_mut(index) {
        step.is_kept = true;
    }
}

/// Fences all earlier dispatches of the step, and forgets how it ended. An approval is asked for again.
fn reset_step(transition: &mut RunTransition<'_>, index: usize) {
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    if matches!(step.phase, StepPhase::Completed { .. }) {
        // Its tool may ask about another call now.
        step.questions.answered.clear();
    }
    step.dispatch += 1;
    step.phase = StepPhase::Planned;
    step.lost = 0;
    step.failures.count = 0;
    step.saved_part = None;
    step.approval = None;
    step.questions.open = None;
    step.questions.blocked_ms = 0;
    step.by_person = false;
    step.is_kept = false;
    // People are asked about the call in the row.
    let is_reset = step.interrupted.is_none();
    let data = RowData {
        is_reset,
        ..RowData::default()
    };
    transition.row(index, data);
}

/// Continues a fan-out with the children that have not ended, or gives it up for one on fresh items.
fn retry_children(transition: &mut RunTransition<'_>, retried: &RetriedStep, is_from: bool) {
    let parent = retried.index;
    let before = transition.step(parent);
    let before = before.and_then(|step| step.fan_out.as_deref());
    let continues = retried.continues && before.is_some_and(|fan_out| !fan_out.is_given_up);
    for index in transition.run.planned_len()..transition.run.steps.len() {
        let child = transition.step(index);
        let of_it = child.filter(|child| child.child_of.is_some_and(|of| of.parent == parent));
        let Some(child) = of_it else {
            continue;
        };
        if !has_stopped(child) {
            keep_approval(transition, index);
            transition.run.count_child(index);
            continue;
        }
        reset_step(transition, index);
        if !continues {
            // It begins when the fan-out reaches its item.
            let phase = StepPhase::Cancelled { at: transition.now };
            transition.set_phase(index, phase, RowData::default());
        }
    }
    let Some(step) = transition.step_mut(parent) else {
        return;
    };
    let Some(fan_out) = &mut step.fan_out else {
        return;
    };
    if is_from {
        fan_out.by_person.clear();
    }
    fan_out.is_given_up = !continues;
    if continues {
        transition.set_phase(parent, StepPhase::FannedOut, RowData::default());
    }
}

/// Asks once more for inputs that are still missing. Otherwise the steps start, unless a scope is paused.
fn continue_run(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    input: &Value,
) -> Result<(), Undecided> {
    if !transition.run.pauses.is_empty() {
        let message = transition.run.message(transition.now);
        let data = json!({ "paused_by": transition.run.pauses });
        transition.event(EventType::RunPaused, None, message, data);
    }
    if let Some(inputs) = &plan.plan.inputs {
        check_inputs(transition, inputs, input)?;
    }
    start_next_steps(transition)
}
