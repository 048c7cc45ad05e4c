//! The only place that starts steps, and that completes a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::instant;
use holdpoint_contracts::run::ApprovalState;

use serde_json::{Value, json};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::expression;
use crate::domain::expression::{MAX_RESOLVED, MAX_RESOLVED_ITEMS, Reference, ResolveError, Scope};
use crate::domain::model::plan::{Action, OnError, PlannedStep, StepPart};
use crate::domain::model::run::{INTERVENTION, Phase, Step, StepPhase};
use crate::domain::need::{Fact, INPUT, Key, Need, PlanFact};
use crate::domain::rules::conditions::{record_condition, skip_step};
use crate::domain::rules::dispatch_step::{
    dispatch_needs, dispatch_step, may_dispatch_again, tool_needs,
};
use crate::domain::rules::fail_step::{APPROVAL_REJECTED, fail_step};
use crate::domain::rules::fan_out::{load_item, start_fan_out, tend_fan_outs};
use crate::domain::rules::finish_step::finish_by_step;
use crate::domain::rules::handoff_spec::load_step_briefing;
use crate::domain::rules::person_holds::{ask_person, start_handoff};
use crate::domain::rules::redaction::evaluate_shown;
use crate::domain::rules::run_places::take_run_place;
use crate::domain::rules::run_steps::{apply_child_ends, start_runs};
use crate::domain::rules::signals::{signal_needs, start_wait_for};
use crate::domain::rules::uncertain_steps::{Doubt, ask_about_step};
use crate::domain::rules::wait_steps::{start_wait, start_wait_until};
use crate::domain::transition::RunTransition;
use crate::domain::views::handoff_briefing::HandoffFacts;

/// The values that one step can see.
#[derive(Default)]
struct StepInputs {
    input: Option<Arc<Value>>,
    contact: Option<Arc<Value>>,
    results: BTreeMap<String, Arc<Value>>,
    /// The notes of an operator who took the run over and handed it back.
    intervention: Option<Arc<Value>>,
    briefing: Option<HandoffFacts>,
    /// Of a child.
    item: Option<Value>,
}

/// Starts every step that can start, and completes the run when all its steps have ended. Does nothing while
/// the run cannot move.
pub(crate) fn start_next_steps(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    apply_child_ends(transition)?;
    match take_run_place(transition) {
        Ok(()) => start_ready_steps(transition),
        // The kernel loads needs at most four times, so those of the first steps are loaded as if it had a place.
        Err(undecided) => Err(undecided.with_needs_of(|| {
            if let Some(place) = transition.run.place_mut() {
                place.number = Some(0);
            }
            start_ready_steps(transition)
        })),
    }
}

fn start_ready_steps(transition: &mut RunTransition<'_>) -> Result<(), Undecided> {
    if !transition.run.moves() {
        return Ok(());
    }
    let mut plan = transition.plan()?;
    loop {
        tend_fan_outs(transition, &plan)?;
        if !transition.run.moves() {
            return Ok(());
        }
        let ready = ready_steps(transition, &plan, &BTreeSet::new());
        if ready.is_empty() {
            break;
        }
        // All needs of the ready steps are loaded at once.
        let mut inputs = Vec::with_capacity(ready.len());
        let mut unknown = Vec::new();
        for &index in &ready {
            inputs.push((
                index,
                load_step_inputs(transition, &plan, index, &mut unknown),
            ));
            unknown.extend(unknown_call(transition, index));
        }
        if !unknown.is_empty() {
            for index in unblocked_by_skips(transition, &plan, ready) {
                load_step_inputs(transition, &plan, index, &mut unknown);
            }
            return Err(Undecided::NeedsMore(unknown));
        }
        for (index, seen) in inputs {
            // A step before it may have failed and skipped the rest.
            let phase = transition.step(index).map(|step| &step.phase);
            if !matches!(phase, Some(StepPhase::Planned)) {
                continue;
            }
            start_step(transition, &plan, index, seen);
            // It has ended, or its budget is used up.
            if !transition.run.moves() {
                return Ok(());
            }
        }
        // The planner of the run may have made another one.
        plan = transition.plan()?;
    }
    complete_if_ended(transition);
    Ok(())
}

/// The call that people are asked about, if it is not loaded.
fn unknown_call(transition: &RunTransition<'_>, index: usize) -> Option<Need> {
    let step = transition.step(index)?;
    step.interrupted.as_ref()?;
    let need = Need::Request(transition.run.id, step.id.clone());
    matches!(transition.lookup(&need), Lookup::NotLoaded).then_some(need)
}

/// Completes the run if all its steps have ended and no person owns it.
pub(crate) fn complete_if_ended(transition: &mut RunTransition<'_>) {
    if transition.run.moves_with_place()
        && transition
            .run
            .steps
            .iter()
            .all(|step| step.phase.is_settled())
    {
        complete_run(transition, None);
    }
}

/// Planned steps whose needs are all settled, or in `skipped`.
fn ready_steps(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    skipped: &BTreeSet<usize>,
) -> Vec<usize> {
    let steps = &transition.run.steps;
    let over = ended_steps(steps, plan, skipped);
    let is_over = |need: &usize| over.get(*need).is_some_and(|is_over| *is_over);
    let ready = steps.iter().enumerate().filter(|(index, step)| {
        // A child begins when its step has found free room for it. What its step needs may run again after a revision.
        let needs = transition
            .planned(plan, *index)
            .map(|planned| &planned.needs);
        matches!(step.phase, StepPhase::Planned) && needs.into_iter().flatten().all(is_over)
    });
    ready.map(|(index, _)| index).collect()
}

/// Which steps have ended, or are in `skipped`. A step that a retry has kept counts only when its own needs have ended
/// again.
fn ended_steps(steps: &[Step], plan: &PlanFact, skipped: &BTreeSet<usize>) -> Vec<bool> {
    let steps = steps.iter().enumerate();
    let ended = steps.clone();
    let ended = ended.map(|(at, step)| step.phase.is_settled() || skipped.contains(&at));
    let mut ended: Vec<bool> = ended.collect();
    let kept: Vec<_> = steps.filter(|(_, step)| step.is_kept).collect();
    let waits = |ended: &[bool], at: usize| {
        let needs = plan.plan.steps.get(at).map(|planned| &planned.needs);
        let mut needs = needs.into_iter().flatten();
        ended.get(at) == Some(&true) && needs.any(|need| ended.get(*need) == Some(&false))
    };
    while let Some((at, _)) = kept.iter().find(|(at, _)| waits(&ended, *at)) {
        if let Some(has_ended) = ended.get_mut(*at) {
            *has_ended = false;
        }
    }
    ended
}

/// Steps that this decision would start if the ready ones were skipped. Their needs are loaded with the
/// others, so that a chain of conditions costs one round.
fn unblocked_by_skips(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    ready: Vec<usize>,
) -> Vec<usize> {
    // Also a step whose failure does not end the run unblocks others, and a fan-out without items.
    let has_condition = |index: &usize| {
        let planned = plan.plan.steps.get(*index);
        planned.is_some_and(|it| {
            // A kept signal or a date that has passed ends a wait at once.
            let may_end = matches!(it.action, Action::WaitFor(_) | Action::WaitUntil(_));
            may_end || it.when.is_some() || it.on_error != OnError::Fail || it.for_each.is_some()
        })
    };
    let mut known: BTreeSet<usize> = ready.into_iter().collect();
    let mut following = Vec::new();
    loop {
        let skipped = known.iter().copied().filter(has_condition).collect();
        let mut fresh = ready_steps(transition, plan, &skipped);
        fresh.retain(|index| known.insert(*index));
        if fresh.is_empty() {
            return following;
        }
        following.extend(fresh);
    }
}

/// Loads the references of a step. Needs that are not loaded are added to `unknown`.
fn load_step_inputs(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> StepInputs {
    let part = transition.part(index);
    let mut inputs = load_references(transition, plan.references_of(part), unknown);
    if let StepPart::Step(index) = part {
        // The children of a fan-out begin in the decision that starts it.
        let of_children = plan.child_references.get(&index);
        load_references(transition, of_children, unknown);
    }
    inputs.item = load_item(transition, plan, index, unknown);
    if let Some(planned) = transition.planned(plan, index) {
        let tool = tool_needs(transition, planned);
        for need in tool.chain(signal_needs(&transition.run, planned)) {
            transition.find_value(need, unknown);
        }
    }
    for need in transition
        .step(index)
        .into_iter()
        .flat_map(|step| dispatch_needs(&transition.run, step))
    {
        transition.find_value(need, unknown);
    }
    inputs.briefing = load_step_briefing(transition, plan, index, unknown);
    inputs
}

fn load_references(
    transition: &RunTransition<'_>,
    references: Option<&BTreeSet<Reference>>,
    unknown: &mut Vec<Need>,
) -> StepInputs {
    let mut inputs = StepInputs::default();
    let mut lookup = |need| transition.find_value(need, unknown);
    for reference in references.into_iter().flatten() {
        match reference {
            Reference::Input => {
                inputs.input = lookup(Need::Value(transition.run.id, INPUT.to_owned()));
            }
            Reference::Contact => {
                let contact = transition.run.contact.clone();
                let need = contact
                    .map(|id| Need::State(Key::Contact(transition.run.workspace.clone(), id)));
                inputs.contact = need.and_then(&mut lookup);
            }
            Reference::Step(other) => {
                let Some(step) = transition.step(*other) else {
                    continue;
                };
                // Only a completed step has a result. A skipped or failed one reads as null.
                if !matches!(step.phase, StepPhase::Completed { .. }) {
                    continue;
                }
                let value = lookup(Need::Value(transition.run.id, step.id.clone()));
                inputs
                    .results
                    .insert(step.id.clone(), value.unwrap_or_default());
            }
            Reference::Run => {
                let name = INTERVENTION.to_owned();
                inputs.intervention = lookup(Need::Value(transition.run.id, name));
            }
            // It has a value of its own.
            Reference::Item => {}
        }
    }
    inputs
}

/// The results for the expressions of one step. Many steps may start in a decision, and share what they name.
fn copied(results: BTreeMap<String, Arc<Value>>) -> BTreeMap<String, Value> {
    let results = results.into_iter();
    results
        .map(|(step, value)| (step, Arc::unwrap_or_clone(value)))
        .collect()
}

/// Begins one step, skips it, or fails it.
fn start_step(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    mut inputs: StepInputs,
) {
    let Some(planned) = transition.planned(plan, index) else {
        return;
    };
    let part = transition.part(index);
    let run_value = run_value(transition, plan.references_of(part), &inputs);
    let null = Value::Null;
    let scope = Scope {
        input: inputs.input.as_deref().unwrap_or(&null),
        // A run without a contact has a planner, too.
        contact: inputs
            .contact
            .as_deref()
            .or(plan.plan.is_planner(index).then_some(&null)),
        run: &run_value,
        item: inputs.item.as_ref(),
        steps: copied(std::mem::take(&mut inputs.results)),
        ids: plan.ids_for(part),
    };
    if let (StepPart::Step(_), Some(when)) = (part, &planned.when) {
        match evaluate_shown(transition, when, &scope) {
            Ok(condition) => {
                record_condition(transition, plan, &planned.id, when, &condition);
                if !condition.holds {
                    return skip_step(transition, index, when, &condition);
                }
            }
            Err(error) => {
                return fail_step(transition, index, error.code(), &error.to_string(), None);
            }
        }
    }
    let step = transition.step_mut(index);
    if let Some(unreported) = step.and_then(|step| step.interrupted.take()) {
        return ask_about_step(transition, index, *unreported, Doubt::Retried);
    }
    if let Some(rejected) = rejected_source(transition, plan, part) {
        let message = format!("it uses the result of {rejected}, which was rejected");
        return fail_step(transition, index, APPROVAL_REJECTED, &message, None);
    }
    let fans_out = planned.fans_out(part);
    let resolved = match resolve_template(planned, part, &scope) {
        Ok(resolved) => resolved,
        Err(error) => {
            return fail_step(transition, index, error.code(), &error.to_string(), None);
        }
    };
    if fans_out {
        return start_fan_out(transition, index, planned, resolved);
    }
    match &planned.action {
        Action::Wait { duration_ms } => start_wait(transition, index, *duration_ms),
        Action::WaitUntil(wait) => {
            start_wait_until(transition, index, wait, &plan.plan.working_days, &resolved);
        }
        Action::WaitFor(wait) => start_wait_for(transition, index, wait),
        Action::Finish(finish) => {
            if let Some(summary) = finish_by_step(transition, index, finish, &resolved) {
                complete_run(transition, Some(summary));
            }
        }
        Action::Tool { .. } => dispatch_step(transition, index, resolved, planned),
        Action::Run(run) => start_runs(transition, index, run, resolved),
        Action::Ask(ask) => ask_person(transition, index, ask, &resolved),
        Action::Handoff(handoff) => {
            let facts = HandoffFacts {
                contact: inputs.contact.as_deref().cloned().unwrap_or_default(),
                ..inputs.briefing.take().unwrap_or_default()
            };
            start_handoff(transition, index, handoff, &resolved, facts);
        }
    }
}

/// `run` of an expression, if it is named.
fn run_value(
    transition: &RunTransition<'_>,
    references: Option<&BTreeSet<Reference>>,
    inputs: &StepInputs,
) -> Value {
    if !references.is_some_and(|names| names.contains(&Reference::Run)) {
        return Value::Null;
    }
    json!({
        "id": transition.run.id,
        "agent": transition.run.agent,
        "started_at": instant::write(transition.run.created_at),
        "intervention": intervention_or_empty(inputs.intervention.as_deref()),
    })
}

/// The values of a step's placeholders. Items may be as large as an input.
fn resolve_template(
    planned: &PlannedStep,
    part: StepPart,
    scope: &Scope<'_>,
) -> Result<Value, ResolveError> {
    let Some(template) = planned.template(part) else {
        return Ok(Value::Null);
    };
    let bytes = if planned.fans_out(part) {
        MAX_RESOLVED_ITEMS
    } else {
        MAX_RESOLVED
    };
    expression::resolve_up_to(bytes, &template, scope)
}

/// The rejected step whose result a step uses (S2-R4). A condition may look at it: it reads as null.
fn rejected_source(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    part: StepPart,
) -> Option<String> {
    let is_rejected = |step: &&Step| {
        let approval = step.approval.as_deref();
        approval.is_some_and(|approval| approval.state == ApprovalState::Rejected)
    };
    let rejected: Vec<_> = transition.run.planned_steps().filter(is_rejected).collect();
    if rejected.is_empty() {
        return None;
    }
    let used = plan.plan.results_used(part);
    let mut used = rejected.into_iter().filter(|step| used.contains(&step.id));
    used.next().map(|step| step.id.clone())
}

/// Without a summary of the author, it counts the steps.
fn complete_run(transition: &mut RunTransition<'_>, summary: Option<String>) {
    let count = |is: fn(&StepPhase) -> bool| {
        let steps = transition.run.planned_steps();
        steps.filter(|step| is(&step.phase)).count()
    };
    let done = count(|phase| matches!(phase, StepPhase::Completed { .. }));
    let skipped = count(|phase| matches!(phase, StepPhase::Skipped { .. }));
    let failed = count(|phase| matches!(phase, StepPhase::Failed { .. }));
    let summary = summary.unwrap_or_else(|| count_text(done, skipped, failed));
    transition.end(Phase::Completed {
        at: transition.now,
        summary: summary.clone(),
    });
    let data = json!({ "done": done, "skipped": skipped, "failed": failed });
    transition.event(EventType::RunCompleted, None, summary, data);
}

fn count_text(done: usize, skipped: usize, failed: usize) -> String {
    let steps = if done == 1 { "step" } else { "steps" };
    let mut text = format!("{done} {steps} done");
    for (number, what) in [(skipped, "skipped"), (failed, "failed")] {
        if number > 0 {
            text = format!("{text}, {number} {what}");
        }
    }
    text.push('.');
    text
}

/// `run.intervention` of an expression. Its fields exist also if nobody took the run over, so that an
/// expression needs no condition.
pub(crate) fn intervention_or_empty(kept: Option<&Value>) -> Value {
    let nobody = || json!({ "notes": "", "outcome_type": "none", "by": "", "at": "" });
    kept.cloned().unwrap_or_else(nobody)
}

/// Dispatches a step again with the same arguments. The higher number fences the old dispatch.
pub(crate) fn redispatch_step(
    transition: &mut RunTransition<'_>,
    index: usize,
) -> Result<(), Undecided> {
    let Some(id) = transition.step(index).map(|step| step.id.clone()) else {
        return Ok(());
    };
    let plan = transition.plan()?;
    let found = transition.lookup(&Need::Request(transition.run.id, id));
    if let (Lookup::Found(Fact::Value(args)), Some(planned)) =
        (found, transition.planned(&plan, index))
        && may_dispatch_again(transition, index, planned, &args)
    {
        dispatch_step(transition, index, (*args).clone(), planned);
        return Ok(());
    }
    // Without a row, or without an approval of this call, it starts as if for the first time: people are asked
    // about arguments on fresh data.
    if let Some(step) = transition.step_mut(index) {
        step.phase = StepPhase::Planned;
    }
    start_next_steps(transition)
}
