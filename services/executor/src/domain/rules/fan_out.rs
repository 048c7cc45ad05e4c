//! The children of a step with `for_each` (S2-R9): when they begin, and how their ends complete the step.

use std::collections::HashMap;
use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_holds::redaction::RESULT;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::expression::Reference;
use crate::domain::model::plan::{PlannedStep, StepPart};
use crate::domain::model::run::fan_out::{
    ITEMS_PER_VALUE, PARALLEL_MAX, RUN_ITEMS_MAX, approval_name, child_id, items_max, items_name,
};
use crate::domain::model::run::{ChildOf, FanOut, Run, Step, StepPhase};
use crate::domain::model::time::millis_between;
use crate::domain::need::{Fact, Need, PlanFact};
use crate::domain::rules::fail_step::{RESULT_TOO_LARGE, fail_step};
use crate::domain::rules::redaction::shown_part;
use crate::domain::step_response::success;
use crate::domain::transition::{RowData, RunTransition};
use crate::domain::views::run::items_done;

/// Largest result of a fan-out, in bytes of JSON: what every other result may have.
const RESULT_BYTES_MAX: u64 = 256 * 1024;

/// Code of a step whose `for_each` is not an array.
const ITEMS_NOT_AN_ARRAY: &str = "items_not_an_array";

/// Code of a step whose `for_each` has too many items.
const TOO_MANY_ITEMS: &str = "too_many_items";

/// Stores the items and begins to wait for the children. A value that is not a list of items fails the step.
pub(crate) fn start_fan_out(
    transition: &mut RunTransition<'_>,
    index: usize,
    planned: &PlannedStep,
    items: Value,
) {
    let items = match items {
        Value::Array(items) => items,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => {
            let kind = kind_of(&other);
            let message = format!("`for_each` must be an array, and is {kind}");
            return fail_step(transition, index, ITEMS_NOT_AN_ARRAY, &message, None);
        }
    };
    let count = items.len();
    let most = items_max(&planned.action);
    let Some(total) = u32::try_from(count).ok().filter(|_| count <= most) else {
        let message = format!("`for_each` has {count} items; at most {most} are allowed");
        return fail_step(transition, index, TOO_MANY_ITEMS, &message, None);
    };
    let others = items_of_others(&transition.run, index);
    if others.saturating_add(count) > RUN_ITEMS_MAX {
        let message = format!(
            "`for_each` has {count} items, and other steps of the run have {others}; at most {RUN_ITEMS_MAX} in all are allowed"
        );
        return fail_step(transition, index, TOO_MANY_ITEMS, &message, None);
    }
    let now = transition.now;
    let digest = format!("{:x}", Sha256::digest(json!(items).to_string()));
    let parallel = planned.for_each.as_ref().map(|it| it.parallel);
    let Some(step) = transition.step_mut(index) else {
        return;
    };
    let fan_out = match &step.fan_out {
        Some(before) => before.renewed(now, total, digest),
        None => FanOut::new(now, total, digest),
    };
    step.fan_out = Some(Box::new(fan_out));
    let row = RowData {
        tool: planned.action.tool().map(str::to_owned),
        request: Some(json!({ "items": total, "parallel": parallel })),
        ..RowData::default()
    };
    let Some(id) = transition.set_phase(index, StepPhase::FannedOut, row) else {
        return;
    };
    store_items(transition, &id, items);
    let message = format!("{} for {}", planned.action.describe(), counted(total));
    let data = json!({ "tool": planned.action.tool(), "items": total, "parallel": parallel });
    transition.event(EventType::StepCalled, Some(&id), message, data);
}

/// Items of the fan-outs of other steps.
fn items_of_others(run: &Run, index: usize) -> usize {
    let others = run
        .planned_steps()
        .enumerate()
        .filter(|(at, _)| *at != index);
    let fan_outs = others.filter_map(|(_, step)| step.fan_out.as_deref());
    let items = fan_outs.filter_map(|fan_out| usize::try_from(fan_out.total).ok());
    items.fold(0, usize::saturating_add)
}

/// Some items share a value, so that a child loads few others, and the start of 10,000 writes few rows.
fn store_items(transition: &mut RunTransition<'_>, step: &str, items: Vec<Value>) {
    let mut left = items.into_iter();
    let size = usize::try_from(ITEMS_PER_VALUE).unwrap_or(1);
    for chunk in 0.. {
        let some: Vec<_> = left.by_ref().take(size).collect();
        if some.is_empty() {
            return;
        }
        transition.value(items_name(step, chunk), Value::Array(some));
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn counted(items: u32) -> String {
    match items {
        1 => "1 item".to_owned(),
        many => format!("{many} items"),
    }
}

/// Counts the children that have ended, begins others in their place, and ends the fan-outs without any left.
pub(crate) fn tend_fan_outs(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
) -> Result<(), Undecided> {
    let parents: Vec<usize> = (transition.run.planned_steps().enumerate())
        .filter_map(|(index, step)| matches!(step.phase, StepPhase::FannedOut).then_some(index))
        .collect();
    if parents.is_empty() {
        return Ok(());
    }
    count_ended_children(transition);
    // Children that began and ended in this decision can be removed now: no effect compares them by their places.
    let (before, planned) = (transition.before, transition.run.planned_len());
    let known = planned + before.steps.len() - before.planned_len();
    transition.run.remove_counted_children(known);
    for &parent in &parents {
        begin_children(transition, plan, parent);
    }
    for parent in parents {
        end_fan_out(transition, plan, parent)?;
        if transition.run.is_final() {
            break;
        }
    }
    Ok(())
}

fn count_ended_children(transition: &mut RunTransition<'_>) {
    for index in transition.run.planned_len()..transition.run.steps.len() {
        let Some(step) = transition.step(index) else {
            continue;
        };
        let of = step.child_of.filter(|of| !of.is_counted);
        let Some(of) = of.filter(|_| step.phase.is_settled()) else {
            continue;
        };
        let parent = transition.step(of.parent);
        let Some(parent) = parent.filter(|it| matches!(it.phase, StepPhase::FannedOut)) else {
            continue;
        };
        // A child of an earlier fan-out of the step, before a retry of the run: its item has not begun again.
        let next = parent.fan_out.as_ref().map_or(0, |fan_out| fan_out.next);
        if of.item >= next {
            continue;
        }
        // Another item may have had a result under this name before a retry of the run.
        let is_renewed = parent.fan_out.as_ref().is_some_and(|it| it.renewals > 0);
        let has_result = matches!(step.phase, StepPhase::Completed { .. });
        if is_renewed && !has_result {
            let id = step.id.clone();
            transition.value(id, Value::Null);
        }
        keep_approval(transition, index);
        transition.run.count_child(index);
    }
}

/// The approval of a child that has ended is a value: the state of the run no longer has the child.
pub(crate) fn keep_approval(transition: &mut RunTransition<'_>, index: usize) {
    let step = transition.step(index);
    let kept = step.and_then(|step| Some((approval_name(&step.id), step.approval.clone()?)));
    if let Some((name, approval)) = kept {
        transition.value(name, json!(approval));
    }
}

/// Begins children until enough are in progress.
fn begin_children(transition: &mut RunTransition<'_>, plan: &PlanFact, parent: usize) {
    let is_open = |step: &&Step| !step.phase.is_settled();
    let children = transition
        .run
        .steps
        .iter()
        .filter_map(|step| Some((step, step.child_of?)));
    let open: Vec<_> = children
        .filter(|(step, _)| is_open(step))
        .map(|(_, of)| of.parent)
        .collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let own = count(open.iter().filter(|of| **of == parent).count());
    let planned = plan.plan.steps.get(parent);
    let Some((planned, for_each)) = planned.and_then(|it| Some((it, it.for_each.as_ref()?))) else {
        return;
    };
    let of_run = PARALLEL_MAX.saturating_sub(count(open.len()));
    let free = for_each.parallel.saturating_sub(own).min(of_run);
    for _ in 0..free {
        let fan_out = transition
            .step_mut(parent)
            .and_then(|step| step.fan_out.as_mut());
        let Some(item) = fan_out.and_then(|fan_out| fan_out.take_next()) else {
            return;
        };
        begin_child(transition, planned, ChildOf::new(parent, item));
    }
}

fn begin_child(transition: &mut RunTransition<'_>, planned: &PlannedStep, of: ChildOf) {
    let is_it = |step: &Step| {
        (step.child_of).is_some_and(|it| (it.parent, it.item) == (of.parent, of.item))
    };
    // A child of a failed run that may have had its effect begins again, and people are asked about it.
    let known = transition.run.steps.iter_mut().find(|step| is_it(step));
    if let Some(known) = known {
        known.phase = StepPhase::Planned;
        known.child_of = Some(of);
        return;
    }
    let parent = transition.step(of.parent);
    let fan_out = parent.and_then(|step| step.fan_out.as_deref());
    let (fence, is_renewed) = fan_out.map_or((0, false), |it| (it.fence, it.renewals > 0));
    transition.run.steps.push(Step {
        dispatch: fence,
        child_of: Some(of),
        ..Step::planned(child_id(&planned.id, of.item), planned.on_error)
    });
    if is_renewed {
        // Its row has what the child of an earlier item did.
        let row = RowData {
            is_reset: true,
            ..RowData::default()
        };
        transition.row(transition.run.steps.len() - 1, row);
    }
}

/// Completes the step once all its children have ended. Its result is the array of theirs.
fn end_fan_out(
    transition: &mut RunTransition<'_>,
    plan: &PlanFact,
    parent: usize,
) -> Result<(), Undecided> {
    let Some(step) = transition.step(parent) else {
        return Ok(());
    };
    let fan_out = step.fan_out.as_deref().filter(|it| it.has_ended()).cloned();
    let Some(fan_out) = fan_out else {
        return Ok(());
    };
    let is_used = plan.uses_result(parent);
    let bytes = fan_out.all_result_bytes();
    if bytes > RESULT_BYTES_MAX && is_used {
        let message = format!(
            "the results of its {} are {bytes} bytes of JSON; at most {RESULT_BYTES_MAX} are allowed if another step uses them",
            counted(fan_out.total)
        );
        fail_step(transition, parent, RESULT_TOO_LARGE, &message, None);
        return Ok(());
    }
    let id = step.id.clone();
    let data = if bytes > RESULT_BYTES_MAX {
        json!({ "omitted": true, "bytes": bytes })
    } else {
        let results = load_results(transition, parent, &fan_out)?;
        transition.value(id.clone(), results.clone());
        (transition.step(parent)).map_or(Value::Null, |step| {
            Arc::unwrap_or_clone(shown_part(step, RESULT, Arc::new(results)))
        })
    };
    let description = format!("{}.", items_done(&fan_out));
    let took_ms = millis_between(fan_out.since, transition.now);
    let response = success(description.clone(), data, took_ms);
    let phase = StepPhase::Completed { at: transition.now };
    transition.set_phase(parent, phase, RowData::response(response));
    let data = json!({
        "items": fan_out.total, "completed": fan_out.completed, "failed": fan_out.failed,
        "skipped": fan_out.skipped, "duration_ms": took_ms,
    });
    transition.event(EventType::StepSucceeded, Some(&id), description, data);
    Ok(())
}

/// The results of the children in the order of the items. A child without a result is null.
fn load_results(
    transition: &RunTransition<'_>,
    parent: usize,
    fan_out: &FanOut,
) -> Result<Value, Undecided> {
    let step = transition.step(parent).map_or("", |step| &step.id);
    // Those of this decision: a lookup of each name among all of them would take long.
    let fresh: HashMap<&str, &Arc<Value>> = (transition.values.iter())
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    // Children that this decision has begun have no stored result.
    let before = transition.before.steps.get(parent);
    let before = before.and_then(|step| step.fan_out.as_ref());
    let before = before.filter(|before| before.renewals == fan_out.renewals);
    let begun_before = before.map_or(0, |before| before.next);
    let (mut results, mut unknown) = (Vec::new(), Vec::new());
    for item in 0..fan_out.total {
        let id = child_id(step, item);
        if let Some(value) = fresh.get(id.as_str()) {
            results.push(Value::clone(value));
            continue;
        }
        if item >= begun_before && !fan_out.by_person.iter().any(|kept| kept.item == item) {
            results.push(Value::Null);
            continue;
        }
        let need = Need::Value(transition.run.id, id);
        match transition.lookup_stored(&need) {
            Lookup::Found(Fact::Value(value)) => results.push(Value::clone(&value)),
            Lookup::Missing | Lookup::Found(_) => results.push(Value::Null),
            Lookup::NotLoaded => unknown.push(need),
        }
    }
    if unknown.is_empty() {
        Ok(Value::Array(results))
    } else {
        Err(Undecided::NeedsMore(unknown))
    }
}

/// The item of a child; none: its arguments do not name it. Values that are not loaded are added to `unknown`.
pub(crate) fn load_item(
    transition: &RunTransition<'_>,
    plan: &PlanFact,
    index: usize,
    unknown: &mut Vec<Need>,
) -> Option<Value> {
    let of = transition.step(index)?.child_of?;
    let references = plan.references_of(StepPart::Child(of.parent))?;
    if !references.contains(&Reference::Item) {
        return None;
    }
    let parent = transition.step(of.parent)?;
    let chunk = of.item.checked_div(ITEMS_PER_VALUE)?;
    let name = items_name(&parent.id, chunk);
    let known = unknown.len();
    let found = transition.find_value(Need::Value(transition.run.id, name), unknown);
    if unknown.len() > known {
        // Children that fail at once go through many items, and the kernel loads needs at most four times.
        let begun = |run: &Run| run.steps.get(of.parent)?.fan_out.as_ref().map(|it| it.next);
        let has_begun = begun(&transition.run) != begun(transition.before);
        let total = parent.fan_out.as_ref().map_or(0, |fan_out| fan_out.total);
        let last = total.div_ceil(ITEMS_PER_VALUE);
        let rest = (chunk.saturating_add(1)..last).filter(|_| has_begun);
        unknown.extend(
            rest.map(|chunk| Need::Value(transition.run.id, items_name(&parent.id, chunk))),
        );
        return None;
    }
    let place = of.item.checked_rem(ITEMS_PER_VALUE)?;
    found?.get(usize::try_from(place).ok()?).cloned()
}

/// What the end of a child needs, whatever it was: the next items, or the results of all children.
pub(crate) fn fan_out_needs(run: &Run) -> Vec<Need> {
    let mut needs = Vec::new();
    for step in run.planned_steps() {
        let fan_out = step.fan_out.as_deref();
        let Some(fan_out) = fan_out.filter(|_| matches!(step.phase, StepPhase::FannedOut)) else {
            continue;
        };
        let value = |name: String| Need::Value(run.id, name);
        if fan_out.next < fan_out.total {
            let first = fan_out.next / ITEMS_PER_VALUE;
            let last = fan_out
                .next
                .saturating_add(PARALLEL_MAX)
                .min(fan_out.total - 1);
            let chunks = first..=last / ITEMS_PER_VALUE;
            needs.extend(chunks.map(|chunk| value(items_name(&step.id, chunk))));
        } else if fan_out.total.saturating_sub(fan_out.ended()) <= 1
            && fan_out.all_result_bytes() <= RESULT_BYTES_MAX
        {
            let ids = (0..fan_out.total).map(|item| child_id(&step.id, item));
            needs.extend(ids.map(value));
        }
    }
    needs
}
