//! Runs in the states that are tried.

use holdpoint_contracts::asking::ToolQuestion;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::ResumeMode;
use serde_json::json;

use super::super::world::World;
use super::STEP;

/// Handed out for the second time, so that there is an older dispatch.
pub(super) fn queued(steps: &str) -> World {
    let mut world = World::started(steps);
    world.pause();
    world.resume(ResumeMode::Continue);
    assert_eq!(world.dispatch(STEP), 2);
    world
}

pub(super) fn after(mut world: World, then: fn(&mut World)) -> World {
    then(&mut world);
    world
}

pub(super) fn ask(world: &mut World) {
    world.ask("node-a", STEP);
}

pub(super) fn asks(world: &mut World) {
    world.ask("node-a", STEP);
    world.ask_people(STEP, ToolQuestion::new("Go on?"));
}

pub(super) fn park(world: &mut World) {
    asks(world);
    world.parks(STEP);
}

pub(super) fn lose(world: &mut World) {
    world.ask("node-a", STEP);
    world.lose(STEP);
}

pub(super) fn take(world: &mut World) {
    let id = world.run().people().next().unwrap().1.id;
    world.close_as(id, HoldOutcome::TakenOver, json!(null));
}
