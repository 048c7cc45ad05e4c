//! A worker that shuts down suspends its steps (S1-R5).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_contracts::suspension::{SNAPSHOT_BLOB_MAX, StepOnResume};
use serde_json::json;

use super::super::world::{World, done};
use super::{BOTH, LOG, SEND, changed, deliver, report, resume, supplement};
use crate::domain::SuspensionReport;
use crate::domain::run::StepPhase;

fn leaves(world: &World, step: &str) -> SuspensionReport {
    SuspensionReport {
        shutdown: true,
        stopped: true,
        ..report(world, step)
    }
}

/// S1-R5: a step that may have had its effect suspends its run, with what the worker knows.
#[test]
fn a_shutdown_suspends_a_run_with_an_unsafe_step() {
    let mut world = World::started(SEND);
    world.ask("node-a", "send");
    let part = leaves(&world, "send");
    assert_eq!(deliver(&mut world, part.clone()), Ok(ResultReply::Applied));
    let view = world.view();
    assert_eq!(view.status, RunStatus::PausedForIntervention);
    assert_eq!(view.pause_reason.as_deref(), Some("shutdown"));
    assert_eq!(view.paused_by[0].by, "node-a");
    let snapshot = world.snapshot.clone().unwrap();
    assert!(snapshot.complete && !snapshot.snapshot_json.auto_resumable);
    assert_eq!(snapshot.snapshot_json.checkpoint, json!({ "page": 7 }));
    assert!(world.leases.is_empty());
    assert!(matches!(world.phase("send"), StepPhase::Uncertain(_)));
    // A double signal.
    assert_eq!(deliver(&mut world, part), Ok(ResultReply::Known));
    let count = world.events();
    let count = count
        .iter()
        .filter(|kind| **kind == EventType::RunSuspended)
        .count();
    assert_eq!(count, 1);
    assert!(changed(&resume(&mut world, StepOnResume::Redo)));
    assert_eq!(world.ask("node-b", "send"), Grant::Go);
}

/// S1-R5: another node takes an idempotent step without a person.
#[test]
fn a_shutdown_hands_a_safe_step_to_another_node() {
    let mut world = World::started(LOG);
    world.ask("node-a", "note");
    let part = leaves(&world, "note");
    assert_eq!(deliver(&mut world, part), Ok(ResultReply::Applied));
    assert_eq!(world.status(), RunStatus::Running);
    let event = world.event(EventType::RunSuspended);
    assert_eq!(event.data["reason"], "shutdown");
    assert_eq!(event.data["auto_resumable"], true);
    assert!(world.events().contains(&EventType::RunResumed));
    let snapshot = world.snapshot.clone().unwrap();
    assert!(snapshot.complete && snapshot.snapshot_json.auto_resumable);
    assert_eq!((world.dispatch("note"), world.handed.len()), (2, 2));
    assert_eq!(world.ask("node-b", "note"), Grant::Go);
    assert_eq!(world.report("note", done(json!({}))), ResultReply::Applied);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S1-R5: both in one run. The safe step waits until a person resumes the run.
#[test]
fn a_shutdown_with_a_safe_and_an_unsafe_step_suspends_the_run() {
    for order in [["note", "send"], ["send", "note"]] {
        let mut world = World::started(BOTH);
        world.ask("node-a", "send");
        world.ask("node-a", "note");
        for step in order {
            let part = leaves(&world, step);
            assert_eq!(
                deliver(&mut world, part),
                Ok(ResultReply::Applied),
                "{order:?}"
            );
        }
        assert_eq!(world.status(), RunStatus::PausedForIntervention);
        assert!(matches!(world.phase("note"), StepPhase::Queued(_)));
        let handed = world.handed.len();
        resume(&mut world, StepOnResume::Skip);
        assert_ne!(world.status(), RunStatus::PausedForIntervention);
        assert!(world.handed.len() >= handed);
    }
}

/// S1-R10: a part that is too large is refused, and the step is released all the same.
#[test]
fn a_shutdown_with_a_part_that_is_too_large_still_releases_the_step() {
    let blob = json!({ "sha256": "ab", "size": SNAPSHOT_BLOB_MAX + 1, "media_type": "text/plain" });
    for (steps, step) in [(SEND, "send"), (LOG, "note")] {
        let mut world = World::started(steps);
        world.ask("node-a", step);
        let part = SuspensionReport {
            supplement: Some(supplement(blob.clone())),
            ..leaves(&world, step)
        };
        assert_eq!(deliver(&mut world, part), Err(413));
        assert!(world.leases.is_empty());
        let snapshot = world.snapshot.clone().unwrap();
        assert!(!snapshot.complete, "{step}");
        assert_eq!(snapshot.snapshot_json.reason, "shutdown");
    }
}

/// S1-R5: a paused run keeps its pause, and gets no event of a suspension that needs no person.
#[test]
fn a_shutdown_during_a_pause_resumes_nothing() {
    let mut world = World::started(LOG);
    world.ask("node-a", "note");
    world.pause();
    let part = leaves(&world, "note");
    assert_eq!(deliver(&mut world, part), Ok(ResultReply::Applied));
    assert!(!world.events().contains(&EventType::RunResumed));
    assert!(world.snapshot.is_some());
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.len(), 2);
}
