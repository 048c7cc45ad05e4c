//! What a resume does with the steps that were in progress.

use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_contracts::suspension::StepOnResume;
use serde_json::{Value, json};

use super::super::world::{Heard, World, done};
use super::{BOTH, LOG, SEND, changed, deliver, report, resume, suspend, suspended};
use crate::domain::run::StepPhase;
use crate::domain::{Refusal, SuspensionReport};

/// A worker that still has the step keeps it, unless the operator says otherwise.
#[test]
fn a_plain_resume_leaves_a_running_step_with_its_worker() {
    let mut world = suspended(SEND, "send");
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!((world.dispatch("send"), world.handed.len()), (1, 1));
    let part = report(&world, "send");
    assert_eq!(deliver(&mut world, part), Ok(ResultReply::Late));
    assert_eq!(
        world.report("send", done(json!({ "id": "m" }))),
        ResultReply::Applied
    );
}

#[test]
fn an_operator_has_a_step_in_progress_redone() {
    let mut world = suspended(SEND, "send");
    assert!(changed(&resume(&mut world, StepOnResume::Redo)));
    assert_eq!((world.dispatch("send"), world.handed.len()), (3, 2));
    let late = world.report_as("send", 1, done(json!({ "id": "old" })));
    assert_eq!(late, ResultReply::Late);
    assert_eq!(world.ask("node-b", "send"), Grant::Go);
}

#[test]
fn an_operator_skips_a_step_in_progress() {
    let mut world = suspended(SEND, "send");
    assert!(changed(&resume(&mut world, StepOnResume::Skip)));
    assert_eq!(world.step("send").phase.status(), StepStatus::Skipped);
    let row = &world.rows["send"];
    assert!(!row.response.as_ref().unwrap().success, "{row:?}");
    assert_eq!(
        world.handed.last().unwrap().args,
        json!({ "message": null })
    );
}

#[test]
fn an_operator_completes_a_step_in_progress() {
    let mut world = suspended(SEND, "send");
    let result = json!({ "id": "by hand" });
    assert!(changed(&resume(
        &mut world,
        StepOnResume::CompleteWith { result }
    )));
    assert!(world.step("send").by_person);
    assert_eq!(
        world.handed.last().unwrap().args,
        json!({ "message": "by hand" })
    );
}

/// Bad choices are refused, and change nothing.
#[test]
fn a_choice_that_makes_no_sense_is_refused() {
    let complete = |result: Value| StepOnResume::CompleteWith { result };
    let mut paused = World::started(SEND);
    paused.pause();
    let heard = resume(&mut paused, StepOnResume::Skip);
    assert!(
        matches!(heard, Heard::Refused(Refusal::RunNotSuspended(_))),
        "{heard:?}"
    );
    let mut nothing = World::started("  - wait: 5 days\n");
    suspend(&mut nothing);
    let heard = resume(&mut nothing, complete(json!(1)));
    assert!(
        matches!(heard, Heard::Refused(Refusal::NotOneStep(_, 0))),
        "{heard:?}"
    );
    let mut two = World::started(BOTH);
    two.ask("node-a", "send");
    two.ask("node-a", "note");
    suspend(&mut two);
    let before = two.run().clone();
    for (choice, status) in [
        (complete(json!(1)), 409),
        (complete(json!("x".repeat(300_000))), 422),
        (complete(json!("\u{0}")), 422),
    ] {
        match resume(&mut two, choice) {
            Heard::Refused(refusal) => assert_eq!(refusal.problem().status, status, "{refusal}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(two.run(), &before);
    assert!(changed(&resume(&mut two, StepOnResume::Skip)));
    assert_eq!(two.status(), RunStatus::Completed);
}

/// A tool that has stopped: what does no harm twice starts again on resume, and people are asked about the rest.
#[test]
fn a_stopped_step_starts_again_or_is_asked_about() {
    let stopped = |world: &World, step| SuspensionReport {
        stopped: true,
        ..report(world, step)
    };
    let mut safe = suspended(LOG, "note");
    let part = stopped(&safe, "note");
    assert_eq!(deliver(&mut safe, part), Ok(ResultReply::Applied));
    assert!(safe.leases.is_empty());
    safe.resume(ResumeMode::Continue);
    assert_eq!((safe.dispatch("note"), safe.handed.len()), (2, 2));

    let mut once = suspended(SEND, "send");
    let part = stopped(&once, "send");
    assert_eq!(deliver(&mut once, part), Ok(ResultReply::Applied));
    assert!(matches!(once.phase("send"), StepPhase::Uncertain(_)));
    assert_eq!(once.status(), RunStatus::PausedForIntervention);
    let mut redone = once.clone();
    once.resume(ResumeMode::Continue);
    assert_eq!(
        (once.status(), once.handed.len()),
        (RunStatus::AwaitingInput, 1)
    );
    resume(&mut redone, StepOnResume::Redo);
    assert_eq!(
        (redone.status(), redone.handed.len()),
        (RunStatus::Running, 2)
    );
    assert_eq!(redone.run().questions().count(), 0);
}

/// A worker that is lost during the suspension: the same.
#[test]
fn a_lost_step_of_a_suspended_run_can_be_skipped() {
    let mut world = suspended(SEND, "send");
    world.lose("send");
    assert!(matches!(world.phase("send"), StepPhase::Uncertain(_)));
    assert!(changed(&resume(&mut world, StepOnResume::Skip)));
    assert_eq!(world.step("send").phase.status(), StepStatus::Skipped);
}
