//! `executor.migrate_run`: an operator moves a live run to a newer version of its agent.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::message::Actor;
use serde_json::json;

use crate::domain::commands::start_run::planned_step;
use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::agent::Agent;
use crate::domain::model::plan::Plan;
use crate::domain::model::run::{Run, Step, StepPhase};
use crate::domain::need::{Fact, Key, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::next_steps::start_next_steps;
use crate::domain::transition::{RunDecision, RunTransition, refuse_ended_run, unchanged_run};

/// Word for the inputs of an agent, where a step is named.
const INPUTS: &str = "inputs";

/// Replaces the plan of the run. Steps that have begun keep their state; the others are those of the new plan.
pub(crate) fn migrate_run<'a>(
    mut transition: RunTransition<'a>,
    by: &Actor,
    version: Option<u32>,
) -> RunDecision<'a> {
    refuse_ended_run(&transition)?;
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

/// The first step that has begun and is another one in the new plan. Expressions and children name steps by their
/// place, so a step that has begun must also be at its place.
fn find_difference(run: &Run, before: &Plan, after: &Plan) -> Option<String> {
    if run.missing_inputs_hold.is_some() && before.inputs != after.inputs {
        return Some(INPUTS.to_owned());
    }
    let steps = run.planned_steps().enumerate();
    let mut begun = steps.filter(|(_, step)| has_begun(step));
    let differs = |index: usize| before.steps.get(index) != after.steps.get(index);
    let found = begun.find(|(index, _)| differs(*index));
    found.map(|(_, step)| step.id.clone())
}

/// Whether something of the step has happened: it was dispatched, asks people, waits or has ended.
fn has_begun(step: &Step) -> bool {
    let is_planned = matches!(step.phase, StepPhase::Planned);
    !is_planned || step.dispatch > 0 || step.approval.is_some() || step.fan_out.is_some()
}

fn replace_steps(run: &mut Run, plan: &Plan) {
    let children = run.steps.split_off(run.planned_len());
    let mut known = std::mem::take(&mut run.steps).into_iter();
    let steps = plan.steps.iter().map(|planned| match known.next() {
        Some(step) if has_begun(&step) => step,
        Some(_) | None => planned_step(planned),
    });
    run.steps = steps.collect();
    run.steps.extend(children);
}
