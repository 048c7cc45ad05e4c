//! A parent that a person owns, and children whose desired state was refused.

use holdpoint_contracts::executor::{ChildRunEndReply, ChildRunState};
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::RunId;
use serde_json::json;

use super::super::world::{Heard, World, child_end, owner};
use super::{ALL, FIRST, ONE, children, end, failure, newest_state, refuse};
use crate::domain::RunInput;
use crate::domain::need::Need;
use crate::domain::rules::open_hold_needs::input_needs;
use crate::domain::run::StepPhase;
use crate::domain::run::child_runs::child_output_name;

fn taken(steps: &str) -> (World, Vec<RunId>) {
    let mut world = World::started(steps);
    let ids = children(&world);
    world.give(RunInput::TakeOver { by: owner() });
    (world, ids)
}

fn hand_back(world: &mut World) {
    let own = world.run().takeover_hold.as_ref().unwrap().id;
    let returned = json!({
        "notes": "called her", "outcome_type": "resolved", "disposition": "return_to_agent",
    });
    world.close_as(own, HoldOutcome::Completed, returned);
}

/// The person decides first: the run goes on, or fails, when it is handed back.
#[test]
fn an_end_waits_while_a_person_owns_the_parent() {
    for status in [RunStatus::Failed, RunStatus::Cancelled] {
        let (mut world, ids) = taken(ONE);
        assert_eq!(end(&mut world, ids[0], status), ChildRunEndReply::Applied);
        assert_eq!(world.status(), RunStatus::Waiting);
        assert!(matches!(world.phase("ask"), StepPhase::Waiting(_)));
        assert_eq!(end(&mut world, ids[0], status), ChildRunEndReply::Ignored);
        hand_back(&mut world);
        assert_eq!(failure(&world), format!("child_{status}"));
        let message = world.view().failure.unwrap().message;
        assert!(message.ends_with("That is all."), "{message}");
    }
    let (mut world, ids) = taken(ONE);
    end(&mut world, ids[0], RunStatus::Completed);
    assert!(world.handed.is_empty());
    hand_back(&mut world);
    let args = &world.handed[0].args;
    assert_eq!(*args, json!({ "message": { "of": ids[0] }, "by": ids[0] }));
}

#[test]
fn all_ends_may_come_while_a_person_owns_the_parent() {
    let (mut world, ids) = taken(ALL);
    for id in &ids {
        end(&mut world, *id, RunStatus::Completed);
    }
    hand_back(&mut world);
    assert_eq!(world.values["ask"][2]["output"]["of"], json!(ids[2]));
    let (mut world, ids) = taken(FIRST);
    refuse(&mut world, 0, 1_000);
    end(&mut world, ids[2], RunStatus::Completed);
    assert_eq!(newest_state(&world, ids[1]), "open");
    hand_back(&mut world);
    assert_eq!(world.handed[0].args, json!({ "message": "helper" }));
    assert_eq!(newest_state(&world, ids[1]), "cancelled");
}

/// The winner is the first run that completed, not the first one of the plan.
#[test]
fn the_first_end_wins_while_a_person_owns_the_parent() {
    let (mut world, ids) = taken(FIRST);
    end(&mut world, ids[1], RunStatus::Completed);
    end(&mut world, ids[0], RunStatus::Completed);
    hand_back(&mut world);
    assert_eq!(world.handed[0].args, json!({ "message": "writer" }));
}

/// A pause, or its end, was refused, so that the child may run. It is cancelled, and no orphan.
#[test]
fn a_child_whose_desired_state_was_refused_is_cancelled() {
    let mut world = World::started(ONE);
    let [child] = children(&world)[..] else {
        panic!()
    };
    world.pause();
    let frozen = world.children[&child].rev;
    refuse(&mut world, 0, frozen);
    assert_eq!(failure(&world), "agent_paused");
    let desired = &world.children[&child];
    assert!(matches!(desired.state, ChildRunState::Cancelled { .. }));
    assert!(desired.rev > frozen);
    // The others of the step go on.
    let mut world = World::started(FIRST);
    let ids = children(&world);
    let rev = world.run().version;
    refuse(&mut world, 0, rev);
    let states: Vec<_> = ids.iter().map(|id| newest_state(&world, *id)).collect();
    assert_eq!(states, ["cancelled", "open", "open"]);
}

/// Only the last end loads the outputs of the others.
#[test]
fn an_end_loads_the_outputs_of_others_only_if_it_is_the_last() {
    let mut world = World::started(ALL);
    let ids = children(&world);
    let needs = |world: &World, child: RunId| {
        let hold = world.children[&child].hold;
        let end = child_end(child, hold, RunStatus::Completed);
        let input = RunInput::ChildRunEnded(Box::new(end));
        let needs = input_needs(world.run(), &input);
        let outputs = ids.iter().filter(|id| {
            let name = child_output_name(**id);
            needs.contains(&Need::Value(world.run().id, name))
        });
        outputs.count()
    };
    for (id, count) in ids.iter().zip([0, 0, 2]) {
        assert_eq!(needs(&world, *id), count);
        let heard = end(&mut world, *id, RunStatus::Completed);
        assert_eq!(heard, ChildRunEndReply::Applied);
    }
    let strange = refuse(&mut world, 0, 1_000);
    assert!(matches!(strange, Heard::Unchanged(_)));
}
