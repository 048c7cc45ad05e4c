//! How runs begin and end.

use holdpoint_contracts::run::ResumeMode;
use serde_json::json;

use super::super::limits::{limited, other};
use super::super::world::{World, done};
use super::STEP;
use super::plans::{ASKED, GATED, ONCE_ONLY, SKIPPED, WAITING};
use super::worlds::after;
use crate::domain::plan::Plan;

/// How runs begin and end, for the table of statuses; in the others one more step follows.
pub(super) fn beginnings_and_ends() -> Vec<(&'static str, World)> {
    let skipped = SKIPPED.trim_end().trim_end_matches("- wait: 1 day");
    let once_only = ONCE_ONLY.trim_end().trim_end_matches("- wait: 1 day");
    let last_wait = || World::started("  - id: it\n    wait: 1 day\n");
    let unresolved = "  - id: it\n    tool: log\n    args: { message: $input.nobody }\n";
    let report = |world: &mut World| {
        world.report(STEP, done(json!({})));
    };
    let fire = |world: &mut World| {
        world.fire_next();
    };
    let end_now = |world: &mut World| {
        world.pause();
        world.resume(ResumeMode::Now);
    };
    let meanwhile = |world: &mut World| {
        world.pause();
        world.report(STEP, done(json!({})));
        world.resume(ResumeMode::Continue);
    };
    vec![
        (
            "a start whose first step calls a tool",
            World::started(ONCE_ONLY),
        ),
        ("a start whose first step waits", World::started(WAITING)),
        ("a start whose first step is gated", World::started(GATED)),
        ("a start whose first step asks", World::started(ASKED)),
        ("a start without a required input", without_input()),
        ("a start while every place is taken", without_place()),
        (
            "a start of which nothing is left to do",
            World::started(skipped),
        ),
        (
            "a start whose first step cannot be resolved",
            World::started(unresolved),
        ),
        (
            "the last step's result, ok",
            after(World::started(once_only), report),
        ),
        ("the last wait's timer", after(last_wait(), fire)),
        ("resume `now` of the last wait", after(last_wait(), end_now)),
        (
            "resume, when the last step ended during the pause",
            after(World::started(once_only), meanwhile),
        ),
    ]
}

fn without_input() -> World {
    let text = "agent: outreach
inputs: { type: object, properties: { topic: { type: string } }, required: [topic] }
steps:
  - id: it
    tool: log
";
    let mut world = World::of_plan(Plan::compile(text).unwrap());
    world.start();
    world
}

fn without_place() -> World {
    let mut world = limited(
        "{ concurrency: { runs: 1 } }",
        "  - id: it\n    tool: log\n",
    );
    world.places.taken.insert(0, other(1));
    world.start();
    world
}
