//! Budgets, places and starting once.

mod starts;

use std::sync::Arc;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{FailureClass, RunStatus};
use holdpoint_contracts::steps::Grant;
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Value, json};

use super::world::{Heard, World, done, owner, run_id};
use crate::domain::plan::Plan;
use crate::domain::run::StepPhase;
use crate::domain::{PlanFact, Reply, RunInput, StepReport};

const THREE: &str = "  - tool: log\n  - tool: log\n  - tool: log\n";

fn plan(limits: &str, steps: &str) -> Plan {
    let text = format!("agent: outreach\nlimits: {limits}\nsteps:\n{steps}");
    Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"))
}

pub(super) fn limited(limits: &str, steps: &str) -> World {
    World::of_plan(plan(limits, steps))
}

/// Moves the run to a version of its agent with other limits.
fn migrate(world: &mut World, limits: &str) {
    world.next_plan = Some(Arc::new(PlanFact::new(plan(limits, THREE))));
    let by = owner();
    world.give(RunInput::Migrate { by, version: None });
}

fn report_cost(world: &mut World, step: &str, cost: f64) {
    let dispatch = world.dispatch(step);
    world.give(RunInput::StepResult(StepReport {
        cost: Some(cost),
        node: "node-a".parse().unwrap(),
        step: step.to_owned(),
        dispatch,
        error_code: None,
        result: done(Value::Null),
    }));
}

fn budget_hold(world: &World) -> HoldId {
    world.run().budget_hold().unwrap().id
}

fn answer(world: &mut World, answer: &str) {
    let hold = budget_hold(world);
    world.close_as(hold, HoldOutcome::Answered, json!(answer));
}

pub(super) fn other(number: u128) -> RunId {
    RunId::from_uuid(sea_orm::prelude::Uuid::from_u128(number))
}

#[test]
fn a_used_up_budget_asks_before_the_next_call() {
    let mut world = limited("{ budget: { steps: 1 } }", THREE);
    world.start();
    world.report("step-01", done(Value::Null));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(world.handed.len(), 1);
    let asked = &world.event(EventType::RunAwaitingInput).message;
    assert!(asked.contains("1 of 1 calls"), "{asked}");
    answer(&mut world, "continue");
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 2)
    );
    world.report("step-02", done(Value::Null));
    answer(&mut world, "stop");
    assert_eq!(world.status(), RunStatus::Failed);
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Policy, "budget_exhausted")
    );
    assert_eq!(world.handed.len(), 2, "no third call");
}

#[test]
fn times_and_costs_are_budgets_too() {
    let mut world = limited("{ budget: { wall_time: 1h } }", THREE);
    world.start();
    world.pass(TimeDelta::minutes(59));
    world.report("step-01", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Running);
    world.pass(TimeDelta::minutes(1));
    world.report("step-02", done(Value::Null));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    answer(&mut world, "continue");
    assert_eq!(world.view().spent.unwrap().wall_time_ms, 0);

    let mut world = limited("{ budget: { cost: 0.3 } }", THREE);
    world.start();
    report_cost(&mut world, "step-01", 0.1);
    report_cost(&mut world, "step-02", 0.2);
    assert_eq!(world.status(), RunStatus::AwaitingInput, "0.1 + 0.2 is 0.3");

    let mut world = limited("{ budget: { active_time: 10ms } }", THREE);
    world.start();
    world.report("step-01", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Running, "7 ms");
    world.report("step-02", done(Value::Null));
    assert_eq!(world.status(), RunStatus::AwaitingInput, "14 ms");
}

#[test]
fn nonsense_costs_nothing() {
    let mut world = limited("{ budget: { cost: 1 } }", THREE);
    world.start();
    report_cost(&mut world, "step-01", -5.0);
    report_cost(&mut world, "step-02", f64::NAN);
    assert_eq!(
        world.view().spent.unwrap().cost.to_bits(),
        0.0_f64.to_bits()
    );
    assert_eq!(world.status(), RunStatus::Running);
}

/// The children of a fan-out and a retried call are calls too, and people are asked once.
#[test]
fn every_call_counts_and_one_question_is_open() {
    let steps = "  - id: each\n    for_each: [1, 2, 3, 4]\n    parallel: 4\n    tool: log\n    args: { idempotent: true }\n";
    let mut world = limited("{ budget: { steps: 2 } }", steps);
    world.start();
    assert_eq!(world.handed.len(), 2);
    assert_eq!(world.run().people().count(), 1);
    world.report("each-0", super::world::broken());
    answer(&mut world, "continue");
    assert_eq!(world.handed.len(), 4);
    while world.run().budget_hold().is_none() && world.fire_next().is_some() {}
    answer(&mut world, "continue");
    for child in ["each-0", "each-1", "each-2", "each-3"] {
        if !world.run().is_final() && world.run().steps.iter().any(|it| it.id == child) {
            world.report(child, done(Value::Null));
        }
    }
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_question_about_a_budget_goes_with_its_run_and_waits_for_a_pause() {
    let mut world = limited("{ budget: { steps: 1 } }", THREE);
    world.start();
    world.report("step-01", done(Value::Null));
    let hold = budget_hold(&world);
    world.pause();
    world.close_as(hold, HoldOutcome::Answered, json!("continue"));
    assert_eq!(world.handed.len(), 1);
    world.resume(holdpoint_contracts::run::ResumeMode::Continue);
    assert_eq!(world.handed.len(), 2, "the answer takes effect");

    let mut world = limited("{ budget: { steps: 1 } }", THREE);
    world.start();
    world.report("step-01", done(Value::Null));
    world.cancel();
    assert_eq!(world.run().people().count(), 0);
}

#[test]
fn a_run_takes_a_free_place_and_frees_it_at_its_end() {
    let mut world = limited("{ concurrency: { runs: 2 } }", THREE);
    world.places.taken.insert(0, other(1));
    world.start();
    let place = world.limits.clone().unwrap().place.unwrap();
    assert_eq!((place.number, world.handed.len()), (Some(1), 1));
    assert!(world.freed.is_empty());
    world.cancel();
    assert_eq!(world.limits.clone().unwrap().place, None);
    assert_eq!(world.freed, [place.key]);
}

#[test]
fn a_run_without_a_place_is_queued_and_starts_in_order() {
    let mut world = limited("{ concurrency: { runs: 1 } }", THREE);
    world.places.taken.insert(0, other(1));
    world.places.queue.push(other(2));
    let view = world.start();
    assert_eq!(view.status, RunStatus::Queued);
    assert!(
        view.message.starts_with("Queued: at most 1"),
        "{}",
        view.message
    );
    assert!(world.handed.is_empty());
    world.places.taken.clear();
    world.give(RunInput::TakePlace);
    assert!(world.handed.is_empty(), "another run is first");
    world.places.queue.clear();
    world.give(RunInput::TakePlace);
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 1)
    );
    assert!(matches!(
        world.give(RunInput::TakePlace),
        Heard::Unchanged(Reply::Nothing(()))
    ));
}

/// Its only step fails at once, so the run has ended before it holds the place.
#[test]
fn a_queued_run_may_end_when_it_takes_its_place() {
    let steps = "  - tool: log\n    args: { message: $input.missing }\n";
    let mut world = limited("{ concurrency: { runs: 1 } }", steps);
    world.places.taken.insert(0, other(1));
    assert_eq!(world.start().status, RunStatus::Queued);
    world.places.taken.clear();
    world.give(RunInput::TakePlace);
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.limits.clone().unwrap().place, None);
}

/// A paused run leaves the queue, so that others pass it, and keeps a place that it has.
#[test]
fn a_paused_run_does_not_hold_up_the_queue() {
    let mut world = limited("{ concurrency: { runs: 1 } }", THREE);
    world.places.taken.insert(0, other(1));
    world.start();
    world.pause();
    assert_eq!(world.limits.clone().unwrap().place, None);
    assert_eq!(world.freed.len(), 1, "the next one is woken");
    world.give(RunInput::TakePlace);
    world.places.taken.clear();
    world.resume(holdpoint_contracts::run::ResumeMode::Continue);
    assert_eq!(world.handed.len(), 1);
    world.pause();
    let place = world.limits.clone().unwrap().place.unwrap();
    assert_eq!(place.number, Some(0));
}

#[test]
fn a_retried_run_takes_a_place_again() {
    let steps = "  - tool: log\n    retry: none\n";
    let mut world = limited("{ concurrency: { runs: 1 } }", steps);
    world.start();
    world.report("step-01", super::world::broken());
    assert_eq!(world.limits.clone().unwrap().place, None);
    world.places.taken.insert(0, other(1));
    world.give(RunInput::Retry {
        by: owner(),
        from: None,
    });
    assert_eq!((world.status(), world.handed.len()), (RunStatus::Queued, 1));
    world.places.taken.clear();
    world.give(RunInput::TakePlace);
    assert_eq!(world.handed.len(), 2);
}

#[test]
fn wrong_limits_are_refused_when_the_agent_is_applied() {
    for (limits, says) in [
        ("7", "is an object"),
        ("{ budget: {} }", "at least one of"),
        ("{ budget: { steps: 0 } }", "from 1 to"),
        ("{ budget: { cost: 0 } }", "from 0.000001"),
        ("{ budget: { wall_time: 0s } }", "at most 90 days"),
        ("{ budget: { cost: 1, to: ada } }", "@user."),
        ("{ budgets: { cost: 1 } }", "budgets"),
        ("{ concurrency: { runs: 1001 } }", "from 1 to 1000"),
        ("{ concurrency: {} }", "`runs` is a whole number"),
        ("{ concurrency: { runs: 1, key: plain } }", "placeholders"),
        ("{ concurrency: { runs: 1, key: $run.id } }", "placeholders"),
        ("{ rate: { starts: 1 } }", "`per` is a duration"),
        ("{ rate: { starts: 0, per: 1m } }", "from 1 to 1000"),
        ("{ rate: { starts: 1, per: 8 days } }", "at most 7 days"),
        ("{ budget: { cost: 0.0000001 } }", "from 0.000001"),
        ("{ once: sometimes }", "`once` is"),
        ("{ once: { key: \"{{ 1 + }}\" } }", ""),
    ] {
        let text = format!("agent: a\nlimits: {limits}\nsteps:\n{THREE}");
        let errors = Plan::compile(&text).unwrap_err();
        assert!(errors[0].message.contains(says), "{limits}: {errors:?}");
        assert_eq!(errors[0].line, Some(2), "{limits}");
    }
}

/// A question that a person answers keeps nothing from the run's own steps.
#[test]
fn a_call_in_progress_ends_while_people_are_asked() {
    let steps = "  - id: a\n    tool: log\n  - id: b\n    tool: log\n    needs: []\n";
    let mut world = limited("{ budget: { steps: 1 } }", steps);
    world.start();
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(world.ask("node-a", "a"), Grant::Go, "it counts already");
    world.report("a", done(Value::Null));
    assert!(matches!(world.phase("a"), StepPhase::Completed { .. }));
    assert!(matches!(world.phase("b"), StepPhase::Planned));
    assert_eq!(world.limits, None, "a budget needs no row");
    assert_eq!(world.run().id, run_id());
}

/// A place outlasts a pause and a suspension, and other runs stay queued.
#[test]
fn a_suspended_run_keeps_its_place() {
    let mut world = limited("{ concurrency: { runs: 1 } }", THREE);
    world.start();
    let number = |world: &World| world.limits.clone().unwrap().place.unwrap().number;
    world.give(RunInput::Suspend {
        by: owner(),
        reason: None,
    });
    assert_eq!(world.status(), RunStatus::PausedForIntervention);
    assert_eq!((number(&world), world.freed.len()), (Some(0), 0));
    world.cancel();
    assert_eq!(world.limits.clone().unwrap().place, None);
    assert_eq!(world.freed.len(), 1);
}

/// The number of its new version counts for a queued run, and what is used stays used.
#[test]
fn a_migrated_run_has_the_numbers_of_its_new_version() {
    let mut world = limited("{ concurrency: { runs: 1 }, budget: { steps: 1 } }", THREE);
    world.places.taken.insert(0, other(1));
    world.start();
    assert_eq!(world.status(), RunStatus::Queued);
    migrate(
        &mut world,
        "{ concurrency: { runs: 2 }, budget: { steps: 2 } }",
    );
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 1)
    );
    let place = world.limits.clone().unwrap().place.unwrap();
    assert_eq!(place.number, Some(1));
    world.report("step-01", done(Value::Null));
    assert_eq!(world.handed.len(), 2, "the second of two calls");

    let mut world = limited("{ concurrency: { runs: 1 } }", THREE);
    world.places.taken.insert(0, other(1));
    world.start();
    migrate(
        &mut world,
        "{ concurrency: { runs: 2, key: $input.region } }",
    );
    assert_eq!(
        world.status(),
        RunStatus::Queued,
        "another key has other places"
    );
}

/// More runs are in progress than a newer version allows: they stay, and no other run starts.
#[test]
fn a_lowered_limit_takes_no_place_away() {
    let mut world = limited("{ concurrency: { runs: 2 } }", THREE);
    world
        .places
        .taken
        .extend([(0, other(1)), (4, other(2)), (7, other(3))]);
    world.start();
    assert_eq!(world.status(), RunStatus::Queued);
    world.places.taken.remove(&0);
    world.give(RunInput::TakePlace);
    assert_eq!(world.status(), RunStatus::Queued);
    world.places.taken.remove(&4);
    world.give(RunInput::TakePlace);
    assert_eq!(world.status(), RunStatus::Running);
}

/// An approval does not replace the question about the budget, and the question does not use the approval up.
#[test]
fn an_approved_call_waits_for_the_budget() {
    let steps = "  - id: pay\n    tool: send_email\n    args: { n: 1 }\n    approval: { from: \"@role.manager\" }\n    needs: []\n  - id: note\n    tool: log\n    needs: []\n";
    let mut world = limited("{ budget: { cost: 1 } }", steps);
    world.start();
    let asked = world.run().people().next().unwrap().1.id;
    assert_eq!(world.handed.len(), 1);
    report_cost(&mut world, "note", 3.0);
    world.close_as(asked, HoldOutcome::Approved, json!("go on"));
    assert_eq!(world.handed.len(), 1, "the budget is used up");
    answer(&mut world, "continue");
    assert_eq!(world.handed.len(), 2);
    assert_eq!(
        world.run().people().count(),
        0,
        "the approval is not asked again"
    );
}

/// Sums are stored as JSON, which has no infinity.
#[test]
fn huge_costs_have_a_finite_sum() {
    let mut world = limited("{ budget: { cost: 1000000000000 } }", THREE);
    world.start();
    report_cost(&mut world, "step-01", f64::MAX);
    answer(&mut world, "continue");
    report_cost(&mut world, "step-02", f64::MAX);
    answer(&mut world, "continue");
    report_cost(&mut world, "step-03", f64::MAX);
    assert_eq!(world.status(), RunStatus::Completed);
    let text = serde_json::to_string(world.run()).unwrap();
    let read: crate::domain::Run = serde_json::from_str(&text).unwrap();
    assert_eq!(read, *world.run());
}

/// A call that was dispatched before the question is lost: the next one needs the budget, and fences the first.
#[test]
fn a_lost_call_waits_for_the_budget_too() {
    let steps = "  - id: a\n    tool: log\n    args: { idempotent: true }\n  - id: b\n    tool: log\n    needs: []\n";
    let mut world = limited("{ budget: { steps: 1 } }", steps);
    world.start();
    assert_eq!(world.ask("node-a", "a"), Grant::Go);
    world.lose("a");
    assert!(matches!(world.phase("a"), StepPhase::Planned));
    assert_eq!(world.handed.len(), 1);
    answer(&mut world, "continue");
    assert_eq!(world.dispatch("a"), 2, "the first worker is fenced");
}

/// A new version may add a budget, and take it away.
#[test]
fn a_migrated_run_has_the_budget_of_its_new_version() {
    let mut world = limited("{ concurrency: { runs: 1 } }", THREE);
    world.start();
    migrate(&mut world, "{ budget: { steps: 1 } }");
    world.report("step-01", done(Value::Null));
    world.report("step-02", done(Value::Null));
    assert_eq!(world.status(), RunStatus::AwaitingInput);

    let mut world = limited("{ budget: { steps: 1 } }", THREE);
    world.start();
    migrate(&mut world, "{ concurrency: { runs: 1 } }");
    world.report("step-01", done(Value::Null));
    assert_eq!(world.handed.len(), 2);
}

/// A result that comes too late has a cost all the same.
#[test]
fn a_late_result_costs_too() {
    let steps = "  - id: a\n    tool: log\n    args: { idempotent: true }\n";
    let mut world = limited("{ budget: { cost: 5 } }", steps);
    world.start();
    assert_eq!(world.ask("node-a", "a"), Grant::Go);
    world.lose("a");
    world.give(RunInput::StepResult(StepReport {
        cost: Some(2.0),
        node: "node-a".parse().unwrap(),
        step: "a".to_owned(),
        dispatch: 1,
        error_code: None,
        result: done(Value::Null),
    }));
    assert!(world.view().spent.unwrap().cost > 1.5);
}
