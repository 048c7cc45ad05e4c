//! A run moves to a newer version of its agent, if that agrees with what has happened.

use std::sync::Arc;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::RunStatus;
use serde_json::json;

use super::world::{Heard, World, broken, done, owner};
use crate::domain::plan::Plan;
use crate::domain::{PlanFact, Refusal, RunInput};

const BEFORE: &str = "
  - id: find
    tool: crm.find
    args: { id: 1 }
  - id: rest
    wait: 5 days
  - id: write
    tool: crm.write
    args: { name: \"{{ $find.name }}\" }
";

fn world(before: &str, after: &str) -> World {
    let mut world = World::started(before);
    edit(&mut world, "", after);
    world
}

/// Applies a new version of the agent.
pub(super) fn edit(world: &mut World, head: &str, steps: &str) {
    let text = format!("agent: outreach\non_pause: cancel\n{head}steps:\n{steps}");
    let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    world.next_plan = Some(Arc::new(PlanFact::new(plan)));
}

fn migrate(world: &mut World, version: Option<u32>) -> Heard {
    let by = owner();
    world.give(RunInput::Migrate { by, version })
}

fn refusal(heard: Heard) -> Refusal {
    match heard {
        Heard::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Gate: an agent is edited while runs wait, and `run migrate` moves those whose new plan agrees with what has happened.
#[test]
fn steps_that_have_not_begun_are_those_of_the_new_plan() {
    let after = BEFORE
        .replace("crm.write", "crm.note")
        .replace("id: write", "id: note");
    let after = format!("{after}  - id: last\n    tool: log\n    args: {{ message: \"x\" }}\n");
    let mut world = world(BEFORE, &after);
    world.report("find", done(json!({ "name": "Ada" })));
    assert_eq!(world.status(), RunStatus::Waiting);
    assert!(matches!(migrate(&mut world, None), Heard::Decided(_)));
    assert_eq!(world.run().plan, 4);
    let item = world.event(EventType::RunMigrated);
    assert_eq!(item.message, "Moved from version 3 to version 4 by owner.");
    let ids: Vec<_> = world
        .run()
        .steps
        .iter()
        .map(|step| step.id.as_str())
        .collect();
    assert_eq!(ids, ["find", "rest", "note", "last"]);
    assert!(matches!(migrate(&mut world, Some(4)), Heard::Unchanged(_)));
    world.pass(TimeDelta::days(5));
    world.fire_next();
    let called = world.handed.last().unwrap();
    assert_eq!(
        (called.step.as_str(), called.tool.as_str()),
        ("note", "crm.note")
    );
    assert_eq!(called.args, json!({ "name": "Ada" }));
    world.report("note", done(json!(null)));
    world.report("last", done(json!(null)));
    assert_eq!(world.status(), RunStatus::Completed);
}

#[test]
fn a_step_that_has_begun_must_be_the_same() {
    for (place, after) in [
        ("find", BEFORE.replace("id: 1", "id: 2")),
        ("rest", BEFORE.replace("5 days", "6 days")),
        (
            "find",
            BEFORE.replace("- id: find", "- id: new\n    wait: 1 day\n  - id: find"),
        ),
        (
            "rest",
            "  - id: find\n    tool: crm.find\n    args: { id: 1 }\n".to_owned(),
        ),
    ] {
        let mut world = world(BEFORE, &after);
        world.report("find", done(json!({ "name": "Ada" })));
        let before = world.run.clone();
        let Refusal::PlanDiffers { step, .. } = refusal(migrate(&mut world, None)) else {
            panic!("{after}");
        };
        assert_eq!(step, place, "{after}");
        assert_eq!(world.run, before);
    }
}

/// A shorter plan: the run completes when its last step ends.
#[test]
fn a_run_on_a_shorter_plan_ends_with_its_last_step() {
    let after = &BEFORE[..BEFORE.find("  - id: write").unwrap()];
    let mut world = world(BEFORE, after);
    world.report("find", done(json!({ "name": "Ada" })));
    assert!(matches!(migrate(&mut world, None), Heard::Decided(_)));
    assert_eq!(world.status(), RunStatus::Waiting);
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(
        world.event(EventType::RunCompleted).message,
        "2 steps done."
    );
    assert_eq!(world.handed.len(), 1);
}

/// The children of a fan-out follow the steps of the plan, so they move when the plan grows or shrinks.
#[test]
fn leases_of_children_outlast_a_plan_of_another_length() {
    let fan =
        "  - id: fan\n    for_each: [a, b]\n    tool: crm.write\n    args: { message: $item }\n";
    let step = |id: &str| format!("  - id: {id}\n    tool: log\n    args: {{ message: x }}\n");
    let before = format!("{fan}{}", step("after"));
    let longer = format!("{before}{}{}", step("more"), step("last"));
    for (after, rest) in [
        (&longer, vec!["after", "more", "last"]),
        (&fan.to_owned(), vec![]),
    ] {
        let mut world = world(&before, after);
        world.ask("node-a", "fan-0");
        let (claims, leases) = (world.claims.clone(), world.leases.clone());
        assert_eq!((claims.len(), leases.len()), (1, 1));
        let calls = world.handed.len();
        assert!(matches!(migrate(&mut world, None), Heard::Decided(_)));
        assert_eq!((&world.claims, &world.leases), (&claims, &leases));
        assert_eq!(world.handed.len(), calls, "nothing is dispatched again");
        for child in ["fan-1", "fan-0"] {
            world.report(child, done(json!(null)));
        }
        for step in rest {
            world.report(step, done(json!(null)));
        }
        assert_eq!(world.status(), RunStatus::Completed);
    }
}

/// The end of a run fences all its steps, also those that never began.
#[test]
fn a_retried_run_moves_if_its_steps_that_never_began_differ() {
    let before = BEFORE.replace("wait: 5 days", "tool: crm.rest\n    args: { id: 1 }");
    let edited = before.replace("crm.write", "crm.note");
    let mut world = world(&before, &edited);
    world.report("find", done(json!({ "name": "Ada" })));
    world.report("rest", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    let (by, from) = (owner(), None);
    world.give(RunInput::Retry { by, from });
    let fence = world.dispatch("write");
    assert!(fence > 0);
    assert!(matches!(migrate(&mut world, None), Heard::Decided(_)));
    assert_eq!(world.dispatch("write"), fence);
    world.report("rest", done(json!(null)));
    let called = world.handed.last().unwrap();
    assert_eq!(called.tool.as_str(), "crm.note");
    assert!(called.dispatch > fence);
    world.report("write", done(json!(null)));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// A step that a retry starts again has begun.
#[test]
fn a_step_that_is_tried_again_must_be_the_same() {
    let mut world = world(BEFORE, &BEFORE.replace("id: 1", "id: 2"));
    world.report("find", broken());
    let (by, from) = (owner(), None);
    world.give(RunInput::Retry { by, from });
    world.pause();
    let refused = refusal(migrate(&mut world, None));
    assert!(
        matches!(&refused, Refusal::PlanDiffers { step, .. } if step == "find"),
        "{refused:?}"
    );
}

/// A later retry would refuse the input for good.
#[test]
fn the_input_of_the_run_must_satisfy_the_new_version() {
    let form = |field: &str, kind: &str| {
        format!(
            "inputs: {{ type: object, properties: {{ {field}: {{ type: {kind} }} }}, required: [{field}] }}\n"
        )
    };
    for (field, kind, reason) in [
        ("order", "string", "`order`"),
        ("customer", "number", "`customer`"),
    ] {
        let mut world = World::started(BEFORE);
        edit(&mut world, &form(field, kind), BEFORE);
        let before = world.run.clone();
        let refused = refusal(migrate(&mut world, None));
        assert_eq!(refused.problem().code, "plan_differs");
        let text = refused.to_string();
        assert!(
            text.contains(reason) && text.contains("version 4"),
            "{text}"
        );
        assert_eq!(world.run, before);
    }
    let mut world = World::started(BEFORE);
    edit(&mut world, &form("customer", "string"), BEFORE);
    assert!(matches!(migrate(&mut world, None), Heard::Decided(_)));
}

#[test]
fn ended_runs_and_versions_out_of_range_are_refused() {
    let before = "  - id: one\n    tool: log\n    args: { message: a }\n  - id: two\n    wait: 1 day\n    needs: []\n";
    let mut world = World::started(before);
    assert!(
        matches!(migrate(&mut world, None), Heard::Unchanged(_)),
        "it has the newest"
    );
    world.report("one", done(json!(null)));
    for version in [2, 4] {
        let refused = refusal(migrate(&mut world, Some(version)));
        assert!(
            matches!(refused, Refusal::InvalidVersion { newest: 3, .. }),
            "{refused:?}"
        );
    }
    world.cancel();
    let refused = refusal(migrate(&mut world, None));
    assert!(matches!(refused, Refusal::RunFinal(..)), "{refused:?}");
}
