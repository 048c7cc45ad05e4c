//! `executor.migrate_run`: an operator moves a live run to a newer version of its agent.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use serde_json::{Value, json};

use crate::domain::commands::start_run::planned_step;
use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::agent::Agent;
use crate::domain::model::plan::Plan;
use crate::domain::model::run::{Run, Step, StepPhase};
use crate::domain::need::{Fact, INPUT, Key, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Replaces the plan of the run. Steps that have begun keep their state; the others are those of the new plan.
pub(crate) fn migrate_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    version: Option<u32>,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
    if transition.run.has_generated_plan {
        return Err(Refusal::HasGeneratedPlan(transition.run.id).into());
    }
    let newest = load_agent(&transition)?.newest;
    let kept = transition.run.plan;
    let version = version.unwrap_or(newest);
    if version == kept {
        return Ok(unchanged_run(&transition));
    }
    if !(kept..=newest).contains(&version) {
        return Err(Refusal::InvalidVersion {
            version,
            kept,
            newest,
        }
        .into());
    }
    let before = transition.plan()?;
    transition.run.plan = version;
    let after = transition.plan()?;
    if before.plan.inputs != after.plan.inputs
        && let Some(reason) = input_difference(&transition, &after.plan)?
    {
        return Err(Refusal::InputsDiffer { reason, kept }.into());
    }
    if let Some(step) = find_difference(&transition.run, &before.plan, &after.plan) {
        return Err(Refusal::PlanDiffers {
            step,
            version,
            kept,
        }
        .into());
    }
    replace_steps(&mut transition.run, &after.plan);
    transition.run.on_pause = after.plan.on_pause;
    let (old, new) = (&before.plan.limits, &after.plan.limits);
    transition.run.renew_limits(old, new, transition.now);
    let message = format!("Moved from version {kept} to version {version} by {by}.");
    let data = json!({ "by": by, "from": kept, "version": version });
    transition.event(EventType::RunMigrated, None, message, data);
    start_next_steps(&mut transition)?;
    transition.changed()
}

fn load_agent(transition: &RunTransition<'_>) -> Result<Arc<Agent>, Undecided> {
    let run = &transition.run;
    let need = Need::State(Key::Agent(run.workspace.clone(), run.agent.clone()));
    match transition.lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::Agent(agent)) if !agent.is_deleted() => Ok(agent),
        Lookup::Found(_) | Lookup::Missing => Err(Refusal::AgentNotFound(run.agent.clone()).into()),
    }
}

/// Why the run cannot have the inputs of a new plan. A later retry would refuse its input for good.
fn input_difference(
    transition: &RunTransition<'_>,
    after: &Plan,
) -> Result<Option<String>, Undecided> {
    let run = &transition.run;
    let version = run.plan;
    if run.missing_inputs_hold.is_some() {
        let reason =
            format!("version {version} has other `inputs`, and the run waits for missing ones");
        return Ok(Some(reason));
    }
    let Some(inputs) = &after.inputs else {
        return Ok(None);
    };
    let input = transition.load_value(Need::Value(run.id, INPUT.to_owned()))?;
    let input = input.as_deref().unwrap_or(&Value::Null);
    let errors = inputs.errors(input).into_iter();
    let errors = errors.map(|error| match error.pointer.as_deref() {
        None | Some("") => error.message,
        Some(field) => format!("`{}`: {}", field.trim_start_matches('/'), error.message),
    });
    let missing = inputs.missing(input).into_iter();
    let mut wrong = errors.chain(missing.map(|name| format!("`{name}` is missing")));
    let reason =
        |wrong| format!("its input does not satisfy `inputs` of version {version} ({wrong})");
    Ok(wrong.next().map(reason))
}

/// The first step that has begun and is another one in the new plan. Expressions and children name steps by their
/// place, so a step that has begun must also be at its place.
fn find_difference(run: &Run, before: &Plan, after: &Plan) -> Option<String> {
    let steps = run.planned_steps().enumerate();
    let mut begun = steps.filter(|(_, step)| has_begun(step));
    let differs = |index: usize| before.steps.get(index) != after.steps.get(index);
    // The texts of templates and the holidays of a plan that people may have approved.
    let other_planner = before.planner != after.planner;
    let found = begun.find(|(index, _)| differs(*index) || other_planner);
    found.map(|(_, step)| step.id.clone())
}

/// Whether something of the step has happened: its tool was called, it asks people, waits or has ended. The end of a
/// run fences each step, so a dispatch above 0 says nothing.
fn has_begun(step: &Step) -> bool {
    let is_planned = matches!(step.phase, StepPhase::Planned);
    !is_planned || step.attempts > 0 || step.approval.is_some() || step.fan_out.is_some()
}

fn replace_steps(run: &mut Run, plan: &Plan) {
    let children = run.steps.split_off(run.planned_len());
    let known = std::mem::take(&mut run.steps);
    let fence = |id: &str| {
        known
            .iter()
            .find(|step| step.id == id)
            .map_or(0, |step| step.dispatch)
    };
    let steps = plan.steps.iter().enumerate();
    let steps = steps.map(|(index, planned)| match known.get(index) {
        Some(step) if has_begun(step) => step.clone(),
        Some(_) | None => Step {
            dispatch: fence(&planned.id),
            ..planned_step(planned)
        },
    });
    run.steps = steps.collect();
    run.steps.extend(children);
}
