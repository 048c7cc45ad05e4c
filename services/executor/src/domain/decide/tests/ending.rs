//! Cancel, and what comes after the end (S2-R13).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{FailureClass, ResumeMode, RunStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::json;

use super::world::{Heard, World, broken, done};
use crate::domain::{Refusal, Reply};

const STEPS: &str = "
  - id: send
    tool: send_email
    args: { to: x@x.example }
  - id: nap
    wait: 1 day
    needs: []
  - id: last
    tool: log
    args: { message: hi }
";

fn queued() -> World {
    World::started(STEPS)
}

fn working() -> World {
    let mut world = queued();
    world.ask("node-a", "send");
    world
}

fn uncertain() -> World {
    let mut world = working();
    world.ask_as("node-b", "send", 1, 2);
    world
}

fn waiting() -> World {
    let mut world = working();
    world.report("send", done(json!({})));
    world
}

fn paused(mut world: World) -> World {
    world.pause();
    world
}

/// S2-R13
#[test]
fn a_run_can_be_cancelled_from_every_state_that_is_not_final() {
    let states = [queued(), working(), uncertain(), waiting()];
    let with_pauses = states
        .into_iter()
        .flat_map(|world| [world.clone(), paused(world)]);
    for mut world in with_pauses {
        let from = world.status();
        let Heard::Decided(Reply::Changed(answer)) = world.cancel() else {
            panic!("from {from}");
        };
        assert!(answer.changed, "from {from}");
        assert_eq!(world.status(), RunStatus::Cancelled);
        let failure = world.view().failure.unwrap();
        assert_eq!(
            (
                failure.class,
                failure.code.as_str(),
                failure.message.as_str()
            ),
            (
                FailureClass::Cancelled,
                "cancelled",
                "Cancelled by owner: no longer needed"
            )
        );
        assert!(world.timers.values().all(|(_, due)| due.is_none()));
        assert_eq!(world.view().resume_at, None);
        assert!(world.view().paused_by.is_empty() && world.view().waiting_on.is_empty());
    }
}

/// Races: a late step result is kept as evidence, never applied.
#[test]
fn the_result_of_a_cancelled_step_is_evidence_and_is_never_applied() {
    for mut world in [queued(), working(), uncertain()] {
        world.cancel();
        let before = world.view();
        assert_eq!(
            world.report_as("send", 1, done(json!({ "id": 4 }))),
            ResultReply::Late
        );
        let late = world.event(EventType::StepLateResult);
        assert_eq!(
            (late.step.as_deref(), &late.data["dispatch"]),
            (Some("send"), &json!(1))
        );
        assert_eq!(late.data["result"]["data"], json!({ "id": 4 }));
        assert_eq!(world.view(), before);
    }
}

/// Races: a worker that sends its late result again is told the same, and it is kept once.
#[test]
fn a_late_result_that_comes_twice_is_kept_once() {
    let mut world = working();
    world.cancel();
    for _ in 0..3 {
        assert_eq!(
            world.report_as("send", 1, done(json!({}))),
            ResultReply::Late
        );
    }
    let late = |kind: &&EventType| **kind == EventType::StepLateResult;
    assert_eq!(world.events().iter().filter(late).count(), 1);
}

/// S2-R13: a queued step of a cancelled run never starts.
#[test]
fn no_step_of_a_cancelled_run_starts() {
    for mut world in [queued(), working(), uncertain()] {
        world.cancel();
        assert_eq!(world.ask_as("node-a", "send", 1, 1), Grant::Drop);
        assert_eq!(world.ask("node-a", "send"), Grant::Drop);
    }
}

/// Races: a second cancel is a no-op that says so.
#[test]
fn a_second_cancel_changes_nothing_and_says_so() {
    let mut world = waiting();
    world.cancel();
    let before = world.run().clone();
    let Heard::Unchanged(Reply::Changed(answer)) = world.cancel() else {
        panic!("decided again");
    };
    assert!(!answer.changed);
    assert_eq!(*world.run(), before);
}

/// S2-R13
#[test]
fn a_completed_or_failed_run_cannot_be_cancelled() {
    let mut completed = World::started("  - wait: 1 day\n");
    completed.fire_next();
    let mut failed = working();
    failed.report("send", broken());
    for mut world in [completed, failed] {
        let heard = world.cancel();
        let Heard::Refused(refusal @ Refusal::RunFinal(..)) = heard else {
            panic!("{heard:?}");
        };
        let problem = refusal.problem();
        assert_eq!((problem.status, problem.code.as_str()), (409, "run_final"));
    }
}

/// Races: cancel against timer; the first commit wins.
#[test]
fn a_timer_of_a_cancelled_run_changes_nothing() {
    let mut world = waiting();
    let (hold, (rev, _)) = world
        .timers
        .iter()
        .next()
        .map(|(id, set)| (*id, *set))
        .unwrap();
    world.cancel();
    let before = world.run().clone();
    world.fire(hold, rev);
    assert_eq!(*world.run(), before);
}

/// A cancelled run stays where it is, whatever else is asked.
#[test]
fn a_cancelled_run_is_not_resumed() {
    let mut world = paused(waiting());
    world.cancel();
    assert!(matches!(
        world.resume(ResumeMode::Now),
        Heard::Refused(Refusal::RunFinal(..))
    ));
    assert_eq!(world.status(), RunStatus::Cancelled);
}
