//! Leases: what becomes of a step whose node is gone.

use chrono::TimeDelta;
use holdpoint_contracts::run::{LeaseAction, RunStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::json;

use super::world::{Heard, World, done};
use crate::domain::RunInput;
use crate::domain::run::StepPhase;

const LOG: &str = "  - id: note\n    tool: log\n    args: { message: hi }\n";

/// S4-R6: the step's own claim timeout is the length of its lease, and goes out with it.
#[test]
fn a_claim_timeout_is_the_lease() {
    let mut world = World::started(
        "  - id: note\n    tool: log\n    args: { message: hi }\n    claim_timeout: 5m\n",
    );
    assert_eq!(world.handed[0].claim_timeout_ms, 300_000);
    world.ask("node-a", "note");
    assert_eq!(world.leases["note"].lease_ms, 300_000);
    let mut default = World::started(LOG);
    default.ask("node-a", "note");
    assert_eq!(default.leases["note"].lease_ms, 30_000);
}

/// P1: a step that may be called twice, and is only old, costs no row to start; what was asked for
/// without a lease can still be asked for with one, by the same node or another.
#[test]
fn a_step_that_may_be_called_twice_can_start_without_a_lease() {
    let mut world = World::started(LOG);
    let before = world.run().clone();
    let light = |world: &mut World, node| world.ask_without_lease(node, "note", 1);
    assert_eq!(light(&mut world, "node-a"), Grant::GoWithoutLease);
    assert_eq!(light(&mut world, "node-b"), Grant::GoWithoutLease);
    assert_eq!((&before, world.leases.len()), (world.run(), 0));
    assert_eq!(world.ask("node-a", "note"), Grant::Go);
    assert_eq!(light(&mut world, "node-b"), Grant::Drop);
    assert_eq!(world.report("note", done(json!({}))), ResultReply::Applied);
    assert_eq!(light(&mut world, "node-b"), Grant::Drop);
}

/// S4-R2: what must not be done twice has a lease, and so has what was delivered before; and what is
/// paused or cancelled does not start without one either.
#[test]
fn what_needs_a_lease_gets_one_or_nothing() {
    let mut once = World::started("  - id: send\n    tool: send_email\n    args: { to: x }\n");
    assert_eq!(once.ask_without_lease("node-a", "send", 1), Grant::Go);
    assert_eq!(once.leases.len(), 1);
    let mut again = World::started(LOG);
    assert_eq!(again.ask_without_lease("node-a", "note", 2), Grant::Go);
    assert_eq!(again.leases.len(), 1);
    let mut paused = World::started(LOG);
    paused.pause();
    assert_eq!(paused.ask_without_lease("node-a", "note", 1), Grant::Drop);
}

/// S4-R5, S4-R7: an idempotent step is dispatched anew, the old dispatch is fenced off, and who had
/// it is on record.
#[test]
fn an_idempotent_step_whose_node_is_gone_is_taken_over() {
    let mut world = World::started(LOG);
    world.ask("node-a", "note");
    world.pass(TimeDelta::seconds(30));
    world.lose("note");
    assert_eq!(world.handed.len(), 2);
    let (first, again) = (world.handed[0].clone(), world.handed[1].clone());
    assert_eq!((again.dispatch, again.attempt), (2, 2));
    assert_eq!((again.args, again.tool), (first.args, first.tool));
    assert_eq!(world.ask_as("node-a", "note", 1, 1), Grant::Drop);
    assert_eq!(
        world.report_as("note", 1, done(json!({}))),
        ResultReply::Late
    );
    assert_eq!(world.ask("node-b", "note"), Grant::Go);
    let claims: Vec<_> = world
        .claims
        .iter()
        .map(|(_, entry)| (entry.action, entry.node.to_string(), entry.dispatch))
        .collect();
    use LeaseAction::{Claimed, Released, TakenOver};
    let entry = |action, node: &str, dispatch| (action, node.to_owned(), dispatch);
    assert_eq!(
        claims,
        [
            entry(Claimed, "node-a", 1),
            entry(Released, "node-a", 1),
            entry(TakenOver, "node-b", 2),
        ]
    );
    assert_eq!(world.claims[1].1.at, world.now);
    assert_eq!(world.report("note", done(json!({}))), ResultReply::Applied);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S4-R16: completion clears the claim, and a finished step can never be claimed.
#[test]
fn a_finished_step_has_no_claim_and_gets_none() {
    let mut world =
        World::started("  - id: note\n    tool: log\n    args: { message: hi }\n  - wait: 1 day\n");
    world.ask("node-a", "note");
    assert!(world.leases.contains_key("note"));
    assert_eq!(world.report("note", done(json!({}))), ResultReply::Applied);
    assert!(!world.leases.contains_key("note"), "{:?}", world.leases);
    let before = world.run().clone();
    for (node, dispatch, delivery) in [("node-a", 1, 1), ("node-b", 1, 2), ("node-b", 2, 1)] {
        let grant = world.ask_as(node, "note", dispatch, delivery);
        assert_eq!(grant, Grant::Drop, "{node} {dispatch} {delivery}");
    }
    assert_eq!((world.run(), world.leases.len()), (&before, 0));
}

/// S4-R2: what ended was another grant, or none at all.
#[test]
fn the_end_of_another_grant_changes_nothing() {
    let mut world = World::started(LOG);
    let ended = |node: &str, dispatch| RunInput::LeaseEnded {
        step: "note".to_owned(),
        dispatch,
        node: node.parse().unwrap(),
    };
    assert!(matches!(
        world.give(ended("node-a", 1)),
        Heard::Unchanged(_)
    ));
    world.ask("node-a", "note");
    for stray in [ended("node-b", 1), ended("node-a", 0), ended("node-a", 2)] {
        assert!(matches!(world.give(stray), Heard::Unchanged(_)));
    }
    assert!(matches!(world.phase("note"), StepPhase::Granted(_)));
}

/// S4-R5 while paused: nothing starts, and resume hands it out.
#[test]
fn a_lease_that_ends_during_a_pause_waits_for_the_resume() {
    let mut world = World::started(LOG);
    world.ask("node-a", "note");
    world.pause();
    world.lose("note");
    assert_eq!(world.handed.len(), 1);
    world.resume(holdpoint_contracts::run::ResumeMode::Continue);
    assert_eq!(world.handed.len(), 2);
    assert_eq!(world.dispatch("note"), 2);
}
