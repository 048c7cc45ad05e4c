//! Suspension: the run stops with a snapshot, and continues as an operator says (S1).

mod blobs;
mod continuing;
mod resuming;
mod shutdown;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_contracts::suspension::{
    SNAPSHOT_BLOB_MAX, SNAPSHOT_INLINE_MAX, Sandbox, SandboxFile, StepOnResume, Supplement,
};
use serde_json::{Value, json};

use super::world::{Heard, World, done, owner};
use crate::domain::run::SUPPLEMENT_MS;
use crate::domain::{Refusal, Reply, RunInput, SuspensionReport};

const SEND: &str = "
  - id: send
    tool: send_email
    args: { to: x@x.example }
  - id: note
    tool: log
    args: { message: $send.id }
";
const LOG: &str = "  - id: note\n    tool: log\n    args: { message: hi }\n";
const BOTH: &str = "
  - id: send
    tool: send_email
    args: { to: x@x.example }
  - id: note
    needs: []
    tool: log
    args: { message: hi }
";

pub(super) fn suspend_input(reason: &str) -> RunInput {
    let (by, reason) = (owner(), Some(reason.to_owned()));
    RunInput::Suspend { by, reason }
}

pub(super) fn supplement(checkpoint: Value) -> Supplement {
    Supplement {
        checkpoint,
        ..Supplement::default()
    }
}

fn suspend(world: &mut World) -> Heard {
    world.give(suspend_input("It writes to the wrong account."))
}

fn suspended(steps: &str, step: &str) -> World {
    let mut world = World::started(steps);
    assert_eq!(world.ask("node-a", step), Grant::Go);
    suspend(&mut world);
    world
}

/// What node-a says of a step.
fn report(world: &World, step: &str) -> SuspensionReport {
    SuspensionReport {
        node: "node-a".parse().unwrap(),
        step: step.to_owned(),
        dispatch: world.dispatch(step),
        shutdown: false,
        stopped: false,
        supplement: Some(supplement(json!({ "page": 7 }))),
    }
}

fn deliver(world: &mut World, report: SuspensionReport) -> Result<ResultReply, u16> {
    match world.give(RunInput::SuspendStep(Box::new(report))) {
        Heard::Decided(Reply::Result(reply)) | Heard::Unchanged(Reply::Result(reply)) => Ok(reply),
        Heard::Decided(Reply::Refused(problem)) => Err(problem.status),
        Heard::Refused(refusal) => Err(refusal.problem().status),
        other => panic!("{other:?}"),
    }
}

fn resume(world: &mut World, step: StepOnResume) -> Heard {
    world.give(RunInput::Resume {
        by: owner(),
        mode: ResumeMode::Continue,
        step: Some(step),
    })
}

fn changed(heard: &Heard) -> bool {
    match heard {
        Heard::Decided(Reply::Changed(answer)) | Heard::Unchanged(Reply::Changed(answer)) => {
            answer.changed
        }
        other => panic!("{other:?}"),
    }
}

/// S1-R1, S1-R2, S1-R4, S1-R7: status, snapshot and event belong to one decision.
#[test]
fn a_suspension_sets_the_status_and_keeps_a_snapshot() {
    let mut world = World::started(SEND);
    world.ask("node-a", "send");
    world.pass(TimeDelta::seconds(5));
    assert!(changed(&suspend(&mut world)));
    let view = world.view();
    assert_eq!(view.status, RunStatus::PausedForIntervention);
    assert_eq!(view.paused_at, Some(world.now));
    let reason = "It writes to the wrong account.";
    assert_eq!(view.pause_reason.as_deref(), Some(reason));
    assert_eq!(view.paused_by[0].in_flight, ["send"]);
    let event = world.event(EventType::RunSuspended);
    assert_eq!(event.data["run_id"], json!(world.run().id));
    assert_eq!(event.data["reason"], reason);
    assert!(!world.events().contains(&EventType::RunPaused));
    let snapshot = world.snapshot.clone().unwrap();
    assert_eq!(
        (snapshot.suspended_at, snapshot.complete),
        (world.now, false)
    );
    let content = snapshot.snapshot_json;
    assert_eq!(content.current_step.as_deref(), Some("send"));
    assert_eq!(content.tool_calls.len(), 1);
    let call = &content.tool_calls[0];
    assert_eq!(call.status, StepStatus::InProgress);
    assert_eq!((call.tool.as_str(), call.dispatch), ("send_email", 1));
    assert_eq!(call.request, json!({ "to": "x@x.example" }));
    // Its worker is part at once, however long its lease is.
    assert_eq!(world.probed, ["node-a"]);
}

/// S1-R3
#[test]
fn suspending_twice_changes_nothing_and_emits_nothing() {
    let mut world = suspended(SEND, "send");
    let (run, events) = (world.run().clone(), world.events());
    assert!(!changed(&suspend(&mut world)));
    assert_eq!((world.run(), world.events()), (&run, events));
}

/// S1-R1: any state that is not final; a final run refuses it, and an unknown one is not found.
#[test]
fn only_a_run_that_has_not_ended_can_be_suspended() {
    for steps in [
        "  - wait: 5 days\n",
        "  - ask: { question: Go on? }\n",
        "  - handoff: { to: \"@user.ada\" }\n",
        SEND,
    ] {
        let mut world = World::started(steps);
        assert!(changed(&suspend(&mut world)), "{steps}");
        assert_eq!(world.status(), RunStatus::PausedForIntervention);
        assert!(world.snapshot.clone().unwrap().complete, "{steps}");
        assert!(changed(&world.cancel()));
        assert_eq!(world.status(), RunStatus::Cancelled);
        assert_eq!(world.view().paused_at, None);
        let heard = suspend(&mut world);
        assert!(
            matches!(heard, Heard::Refused(Refusal::RunFinal(..))),
            "{heard:?}"
        );
    }
    let heard = suspend(&mut World::of(SEND));
    assert!(matches!(heard, Heard::Refused(Refusal::RunNotFound(_))));
    let mut world = World::started(SEND);
    let heard = world.give(suspend_input(&"x".repeat(2_001)));
    assert!(matches!(heard, Heard::Refused(Refusal::ReasonTooLong)));
    let (by, reason) = (owner(), Some("  ".to_owned()));
    world.give(RunInput::Suspend { by, reason });
    assert_eq!(
        world.view().pause_reason.as_deref(),
        Some("Suspended by owner.")
    );
}

/// S1-R1: holds freeze as with a pause, and one resume ends both.
#[test]
fn a_resume_ends_the_pause_and_the_suspension() {
    let mut world = World::started("  - wait: 5 days\n");
    world.pass(TimeDelta::days(2));
    world.pause();
    suspend(&mut world);
    assert_eq!(world.run().pauses.len(), 1);
    world.pass(TimeDelta::days(10));
    world.resume(ResumeMode::Continue);
    let view = world.view();
    assert_eq!((view.status, view.paused_at), (RunStatus::Waiting, None));
    assert_eq!(view.message, "Agent paused. Will resume in 3 days.");
    assert!(!changed(&world.resume(ResumeMode::Continue)));
}

/// S1-R1: an answer during the suspension takes effect on resume.
#[test]
fn an_answer_takes_effect_on_resume() {
    let mut world = World::started("  - id: it\n    ask: { question: Go on? }\n  - wait: 1 day\n");
    let hold = world.run().people().next().unwrap().1.id;
    suspend(&mut world);
    world.close_as(hold, HoldOutcome::Answered, json!({ "answer": "yes" }));
    assert_eq!(world.status(), RunStatus::PausedForIntervention);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.step("it").phase.status(), StepStatus::Completed);
}

/// S1-R2: the worker of the current dispatch adds its part once, and in time.
#[test]
fn a_supplement_of_the_current_dispatch_counts_once() {
    let mut world = suspended(SEND, "send");
    let good = report(&world, "send");
    let other_node = SuspensionReport {
        node: "node-b".parse().unwrap(),
        ..good.clone()
    };
    let older = SuspensionReport {
        dispatch: 0,
        ..good.clone()
    };
    for stray in [other_node, older] {
        assert_eq!(deliver(&mut world, stray), Ok(ResultReply::Late));
    }
    assert_eq!(deliver(&mut world, good.clone()), Ok(ResultReply::Applied));
    let snapshot = world.snapshot.clone().unwrap();
    assert!(snapshot.complete);
    assert_eq!(snapshot.snapshot_json.checkpoint, json!({ "page": 7 }));
    assert_eq!(deliver(&mut world, good), Ok(ResultReply::Known));
    assert_eq!(world.status(), RunStatus::PausedForIntervention);

    let mut late = suspended(SEND, "send");
    late.pass(TimeDelta::milliseconds(
        i64::try_from(SUPPLEMENT_MS).unwrap() + 1,
    ));
    let after = report(&late, "send");
    assert_eq!(deliver(&mut late, after), Ok(ResultReply::Late));
    assert!(!late.snapshot.clone().unwrap().complete);
}

/// S1-R2: a step that ends by itself needs no part of its worker, and its result counts.
#[test]
fn a_result_during_a_suspension_is_kept() {
    let mut world = suspended(SEND, "send");
    assert_eq!(
        world.report("send", done(json!({ "id": "m" }))),
        ResultReply::Applied
    );
    let suspension = world.run().suspension.clone().unwrap();
    assert!(suspension.is_complete(world.run()));
    assert_eq!(world.handed.len(), 1);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.len(), 2);
}

/// S1-R9: large values are references, and what exceeds the limits is refused.
#[test]
fn large_values_are_references_and_too_large_ones_are_refused() {
    let mut world = suspended(SEND, "send");
    let reference = |size: u64| json!({ "sha256": "ab", "size": size, "media_type": "text/plain" });
    let with = |world: &World, write_buffer: Value| SuspensionReport {
        supplement: Some(Supplement {
            write_buffer,
            ..Supplement::default()
        }),
        ..report(world, "send")
    };
    let huge = with(&world, reference(SNAPSHOT_BLOB_MAX + 1));
    assert_eq!(deliver(&mut world, huge), Err(413));
    assert!(!world.snapshot.clone().unwrap().complete);
    let odd = with(&world, json!("zero \u{0}"));
    assert_eq!(deliver(&mut world, odd), Err(422));
    let large = with(&world, json!("x".repeat(SNAPSHOT_INLINE_MAX)));
    assert_eq!(deliver(&mut world, large), Ok(ResultReply::Applied));
    let kept = world.snapshot.clone().unwrap().snapshot_json.write_buffer;
    assert_eq!(kept["size"], SNAPSHOT_INLINE_MAX + 2);
    assert_eq!(kept["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(kept["media_type"], "application/json");
}

/// S1-R9: all values of a snapshot together are bounded too.
#[test]
fn the_values_of_a_snapshot_are_bounded_together() {
    let steps = |id: usize| {
        format!("  - id: s{id}\n    needs: []\n    tool: send_email\n    args: {{ to: x }}\n")
    };
    let plan: String = (0..5).map(steps).collect();
    let mut world = World::started(&plan);
    for id in 0..5 {
        world.ask("node-a", &format!("s{id}"));
    }
    suspend(&mut world);
    let replies: Vec<_> = (0..5)
        .map(|id| {
            let size = SNAPSHOT_BLOB_MAX;
            let blob = json!({ "sha256": "ab", "size": size, "media_type": "text/plain" });
            let part = SuspensionReport {
                supplement: Some(supplement(blob)),
                ..report(&world, &format!("s{id}"))
            };
            deliver(&mut world, part)
        })
        .collect();
    assert_eq!(replies[..3], [Ok(ResultReply::Applied); 3]);
    assert!(replies[3..].contains(&Err(413)), "{replies:?}");
    let snapshot = world.snapshot.clone().unwrap();
    assert!(!snapshot.complete);
    assert_eq!(snapshot.snapshot_json.current_step.as_deref(), Some("s0"));
    assert!(snapshot.snapshot_json.other_steps.len() >= 2);
}

/// S1-R8: the manifest has as many files as it has room for.
#[test]
fn a_manifest_of_a_sandbox_is_bounded() {
    let mut world = suspended(SEND, "send");
    let file = |number: usize| SandboxFile {
        path: format!("out/{number}"),
        size: 1,
        sha256: "0".repeat(64),
    };
    let sandbox = Sandbox {
        node: "node-a".parse().unwrap(),
        path: "/sandboxes/send".to_owned(),
        files: (0..2_000).map(file).collect(),
        omitted: 3,
        found: None,
    };
    let part = |sandbox: Sandbox| SuspensionReport {
        supplement: Some(Supplement {
            sandbox: Some(sandbox),
            ..Supplement::default()
        }),
        ..report(&world, "send")
    };
    let (odd, good) = (
        part(Sandbox {
            path: "x".repeat(5_000),
            ..sandbox.clone()
        }),
        part(sandbox),
    );
    assert_eq!(deliver(&mut world, odd), Err(422));
    assert_eq!(deliver(&mut world, good), Ok(ResultReply::Applied));
    let kept = world
        .snapshot
        .clone()
        .unwrap()
        .snapshot_json
        .sandbox
        .unwrap();
    assert!(kept.files.len() < 1_000);
    assert_eq!(
        u64::try_from(kept.files.len()).unwrap() + kept.omitted,
        2_003
    );
}

/// S1-R10: take-over and cancel work from a suspension.
#[test]
fn a_suspended_run_can_be_taken_over_and_cancelled() {
    let mut world = suspended(SEND, "send");
    let by = holdpoint_contracts::message::Actor("ada".to_owned());
    world.give(RunInput::TakeOver { by });
    assert_eq!(world.view().taken_over_by.as_deref(), Some("ada"));
    assert_eq!(world.status(), RunStatus::PausedForIntervention);
    let mut cancelled = world.clone();
    cancelled.cancel();
    assert_eq!(cancelled.status(), RunStatus::Cancelled);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.status(), RunStatus::Waiting);
    let hold = world.run().takeover_hold.as_ref().unwrap().id;
    let data = json!({ "disposition": "finish", "notes": "done" });
    world.close_as(hold, HoldOutcome::Completed, data);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// A call that waits for an approval has not been made, and a fan-out calls nothing itself.
#[test]
fn a_snapshot_has_only_calls_that_were_dispatched() {
    let mut world = World::started(
        "
  - id: send
    tool: send_email
    args: { to: x@x.example }
  - id: pay
    needs: []
    tool: send_email
    args: { to: y@x.example }
    approval: {}
  - id: each
    needs: []
    for_each: [a, b]
    tool: log
    args: { message: $item }
",
    );
    world.ask("node-a", "send");
    suspend(&mut world);
    let snapshot = world.snapshot.clone().unwrap().snapshot_json;
    let mut calls: Vec<_> = snapshot.tool_calls.iter().map(|call| &*call.step).collect();
    calls.sort_unstable();
    assert_eq!(calls, ["each-0", "each-1", "send"]);
}
