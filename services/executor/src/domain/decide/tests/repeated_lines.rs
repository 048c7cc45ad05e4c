//! Lines of instructions that repeat their step, where only a real run differs: results that are null, and pauses.

use chrono::TimeDelta;
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use serde_json::{Value, json};

use super::world::{World, done};
use crate::domain::RunInput;
use crate::domain::plan::Plan;

fn started(line: &str) -> World {
    let text = format!("agent: outreach\ninstructions: |\n  {line}\n  Finish\n");
    let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut world = World::of_plan(plan);
    world.start();
    world
}

fn contact(replied: bool) -> Option<Value> {
    Some(json!({ "id": "ada", "email": "ada@x.example", "replied": replied }))
}

/// A worker that returns nothing gives null. That is not the end of the repetition.
#[test]
fn a_result_that_is_null_ends_no_repetition_on_the_contact() {
    let mut world = started("Call crm.check every 1 day until contact.ok is yes, at most 3 times");
    for step in ["step-01", "step-03", "step-05"] {
        assert_eq!(world.status(), RunStatus::Running, "{step}");
        world.ask("n1", step);
        world.report(step, done(Value::Null));
        world.fire_next();
    }
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.handed.len(), 3);
}

/// A condition on the result cannot hold then, and a further call would not know the one before.
#[test]
fn a_result_that_is_null_ends_a_repetition_on_the_result() {
    let mut world = started("Call x as find every 1 day until $find.n is 1, at most 3 times");
    world.ask("n1", "find");
    world.report("find", done(Value::Null));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.handed.len(), 1);
}

/// The reply ended the pause while the run was paused, and on resume the contact no longer reads as replied.
#[test]
fn a_reply_ends_the_repetition_also_if_the_contact_changes_back() {
    let line = "Email contact with subject \"S\" and body \"B\" every 2 days until contact replies, at most 5 times";
    let mut world = started(line);
    world.ask("n1", "step-01");
    world.report("step-01", done(json!({ "id": "m-1" })));
    world.pass(TimeDelta::days(1));
    world.pause();
    world.contact = contact(true);
    world.give(RunInput::ContactReplied);
    world.contact = contact(false);
    world.resume(ResumeMode::default());
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.handed.len(), 1);
}
