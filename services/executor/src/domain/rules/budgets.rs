//! The budget of a run. When it is used up, no step is dispatched until a person has decided.

use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout};
use holdpoint_contracts::run::{FailureClass, HoldKind, Spent};
use serde_json::json;

use crate::domain::model::plan::limits::Budget;
use crate::domain::model::run::{HoldClosure, PersonHold, Step, StepPhase};
use crate::domain::rules::open_hold::{answer_form, next_hold_id, open_hold};
use crate::domain::transition::{RowData, RunTransition};

/// Time until the question escalates, in milliseconds: 7 days. It stays open.
const ASK_MS: u64 = 7 * 86_400_000;

/// Code of a run that a person stops at the end of its budget.
const BUDGET_EXHAUSTED: &str = "budget_exhausted";

const CONTINUE: &str = "continue";
const STOP: &str = "stop";

/// Sums of costs are rounded. This is more than the error, and less than any price.
const COST_EPSILON: f64 = 1e-9;

/// Largest sum of costs that is counted, more than any budget. An infinite sum could not be stored.
const COST_COUNTED_MAX: f64 = 1e15;

/// Whether a call of a tool exceeds the budget. The step then waits, and people are asked once.
pub(crate) fn hold_by_budget(transition: &mut RunTransition<'_>, index: usize) -> bool {
    let spent = transition.run.spent(transition.now);
    let (Some(budget), Some(spent)) = (transition.run.budget(), spent) else {
        return false;
    };
    let is_asked = budget.hold.is_some();
    let used_up = used_up(&budget.allowed, spent);
    if !is_asked && used_up.is_none() {
        return false;
    }
    if let Some(reason) = used_up.filter(|_| !is_asked) {
        ask_about_budget(transition, &reason);
    }
    // A step that was called before has a row that says more.
    let is_new = |step: &Step| matches!(step.phase, StepPhase::Planned) && step.dispatch == 0;
    if (transition.step(index)).is_some_and(|step| !is_new(step)) {
        transition.set_phase(index, StepPhase::Planned, RowData::default());
    }
    true
}

/// While people are asked, a step that was to be called again waits for its turn, and its row says so.
pub(crate) fn write_held_rows(transition: &mut RunTransition<'_>) {
    if transition.run.budget_hold().is_none() {
        return;
    }
    let is_planned = |step: &Step| matches!(step.phase, StepPhase::Planned);
    let steps = transition.run.steps.iter().enumerate();
    let held = steps.filter(|(index, step)| {
        let before = transition.run.step_before(transition.before, *index);
        is_planned(step) && before.is_some_and(|before| !is_planned(before))
    });
    let held: Vec<_> = held.map(|(index, _)| index).collect();
    for index in held {
        transition.row(index, RowData::default());
    }
}

/// Counts the call of a tool.
pub(crate) fn count_call(transition: &mut RunTransition<'_>) {
    if let Some(budget) = transition.run.budget_mut() {
        budget.steps = budget.steps.saturating_add(1);
    }
}

/// Adds what a child run has used.
pub(crate) fn count_child_run(transition: &mut RunTransition<'_>, steps: u32, cost: f64) {
    if let Some(budget) = transition.run.budget_mut() {
        budget.steps = budget.steps.saturating_add(steps);
    }
    add_cost(transition, Some(cost));
}

/// Adds what a worker says that a call has cost. Anything but a positive number counts as nothing.
pub(crate) fn add_cost(transition: &mut RunTransition<'_>, cost: Option<f64>) {
    let cost = cost.filter(|cost| cost.is_finite() && *cost > 0.0);
    if let (Some(budget), Some(cost)) = (transition.run.budget_mut(), cost) {
        budget.cost = (budget.cost + cost).min(COST_COUNTED_MAX);
    }
}

fn used_up(allowed: &Budget, spent: Spent) -> Option<String> {
    let text = |ms| describe(Duration::from_millis(ms));
    let steps = allowed.steps.filter(|steps| spent.steps >= *steps);
    let wall_time = allowed.wall_time_ms.filter(|ms| spent.wall_time_ms >= *ms);
    let active_time = (allowed.active_time_ms).filter(|ms| spent.active_time_ms >= *ms);
    let cost = allowed
        .cost
        .filter(|cost| spent.cost + COST_EPSILON >= *cost);
    let used = [
        steps.map(|steps| format!("{} of {steps} calls", spent.steps)),
        wall_time.map(|ms| format!("{} of {}", text(spent.wall_time_ms), text(ms))),
        active_time.map(|ms| format!("{} of {} of tools", text(spent.active_time_ms), text(ms))),
        cost.map(|cost| format!("a cost of {} of {cost}", spent.cost)),
    ];
    used.into_iter().flatten().next()
}

fn ask_about_budget(transition: &mut RunTransition<'_>, used: &str) {
    let Some(to) = transition.run.budget().map(|it| it.allowed.to.clone()) else {
        return;
    };
    let id = next_hold_id(&mut transition.run);
    let question = format!(
        "The budget of this run of {} is used up: {used}. Continue with the same budget again?",
        transition.run.agent
    );
    let spec = HoldSpec {
        agent: Some(transition.run.agent.clone()),
        options: vec![CONTINUE.to_owned(), STOP.to_owned()],
        to,
        reason: Some(BUDGET_EXHAUSTED.to_owned()),
        requester: Some(transition.run.started_by.0.clone()),
        on_timeout: OnTimeout::Escalate,
        ..HoldSpec::asking(HoldKind::Input, question.clone())
    };
    let on = open_hold(transition, id, &spec, Some(ASK_MS));
    if let Some(budget) = transition.run.budget_mut() {
        budget.hold = Some(Box::new(on));
    }
    let data = json!({
        "request": id, "reason": BUDGET_EXHAUSTED,
        "questions": [{ "id": id, "question": question, "schema": answer_form(&spec) }],
    });
    transition.event(EventType::RunAwaitingInput, None, question, data);
}

/// `continue` grants the same budget again. Anything else ends the run.
pub(crate) fn end_budget_hold(
    transition: &mut RunTransition<'_>,
    on: &PersonHold,
    closing: &HoldClosure,
) {
    let (now, active_ms) = (transition.now, transition.run.clocks.active_ms);
    let answer = closing.data.get("answer").unwrap_or(&closing.data);
    let continues = closing.outcome == HoldOutcome::Answered && answer == CONTINUE;
    let by = &closing.by;
    if let Some(budget) = transition.run.budget_mut() {
        budget.hold = None;
        if continues {
            (budget.earlier_steps, budget.earlier_cost) = budget.used();
            (budget.steps, budget.cost) = (0, 0.0);
            (budget.since, budget.active_ms) = (now, active_ms);
        }
    }
    if continues {
        let message = format!("{by} granted the budget again; the run continues.");
        let data = json!({ "by": by, "hold": on.id });
        return transition.event(EventType::RunResumed, None, message, data);
    }
    let message = if closing.outcome == HoldOutcome::Answered {
        transition.ended_by = Some(by.clone());
        format!("{by} stopped the run, because its budget was used up")
    } else {
        "The budget was used up, and the request about it was withdrawn".to_owned()
    };
    transition.fail(FailureClass::Policy, BUDGET_EXHAUSTED, message);
}
