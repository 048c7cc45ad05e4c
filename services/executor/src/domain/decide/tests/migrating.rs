//! A run moves to a newer version of its agent, if that agrees with what has happened.

use std::sync::Arc;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::RunStatus;
use serde_json::json;

use super::world::{Heard, World, done, owner};
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
    let text = format!("agent: outreach\non_pause: cancel\nsteps:\n{after}");
    let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    world.next_plan = Some(Arc::new(PlanFact::new(plan)));
    world
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

/// The rest of the plan is gone, so the run is complete.
#[test]
fn a_run_whose_rest_is_gone_ends() {
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
