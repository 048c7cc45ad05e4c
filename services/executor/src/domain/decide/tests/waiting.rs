//! Waits: they open, add up, end in time and only then.

use chrono::TimeDelta;
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use serde_json::json;

use super::world::{World, done};
use crate::domain::run::StepPhase;

const WAIT_THEN_LOG: &str = "
  - id: step-01
    wait: 5 days
  - id: step-02
    tool: log
    args: { message: hello }
";

/// S0-AC1
#[test]
fn a_wait_pauses_the_run_and_says_until_when() {
    let mut world = World::of(WAIT_THEN_LOG);
    let view = world.start();
    assert_eq!(view.message, "Agent paused. Will resume in 5 days.");
    assert_eq!(view.status, RunStatus::Waiting);
    assert_eq!(view.resume_at, Some(world.now + TimeDelta::days(5)));
    let [hold] = view.waiting_on.as_slice() else {
        panic!("{:?}", view.waiting_on);
    };
    assert_eq!(
        (hold.step.as_str(), hold.until),
        ("step-01", view.resume_at)
    );
    let waiting = world.event(EventType::RunWaiting);
    assert_eq!(waiting.message, "Agent paused. Will resume in 5 days.");
    assert_eq!(waiting.step.as_deref(), Some("step-01"));
    assert!(world.handed.is_empty());
}

/// Mend D-8: the sentence says what is left when it is read, and right after the pause all of it.
#[test]
fn the_sentence_of_a_wait_says_what_is_left() {
    let mut world = World::started(WAIT_THEN_LOG);
    for (passed, left) in [
        (TimeDelta::milliseconds(5), "5 days"),
        (TimeDelta::hours(6), "4 days 18 hours"),
        (TimeDelta::hours(90), "1 day"),
        (TimeDelta::hours(23), "1 hour"),
        (TimeDelta::seconds(3_599), "1 second"),
    ] {
        world.pass(passed);
        let sent = world.view().message;
        assert_eq!(sent, format!("Agent paused. Will resume in {left}."));
    }
}

/// S0-AC2
#[test]
fn at_the_due_time_the_run_resumes_by_itself_and_the_rest_runs() {
    let mut world = World::started(WAIT_THEN_LOG);
    assert_eq!(world.fire_next(), Some(TimerReply::Applied));
    assert_eq!(world.status(), RunStatus::Running);
    assert_eq!(world.view().resume_at, None);
    assert_eq!(world.handed[0].step, "step-02");
    assert_eq!(world.handed[0].args, json!({ "message": "hello" }));
    world.report("step-02", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(
        world.view().result,
        Some(json!({ "summary": "2 steps done." }))
    );
    assert_eq!(
        world.events(),
        [
            EventType::RunStarted,
            EventType::RunWaiting,
            EventType::RunResumed,
            EventType::StepCalled,
            EventType::StepSucceeded,
            EventType::RunCompleted,
        ]
    );
}

/// S0-AC3
#[test]
fn two_waits_in_a_row_add_up_and_the_second_starts_when_the_first_has_ended() {
    let mut world = World::started("  - wait: 2 days\n  - wait: 3 days\n");
    let began = world.now;
    assert_eq!(world.view().waiting_on.len(), 1);
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(2)));
    world.fire_next();
    assert_eq!(world.view().resume_at, Some(began + TimeDelta::days(5)));
    assert_eq!(world.view().message, "Agent paused. Will resume in 3 days.");
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.now, began + TimeDelta::days(5));
}

/// S0-AC3: a timer that is late does not shorten what follows.
#[test]
fn the_second_wait_counts_from_the_real_end_of_the_first() {
    let mut world = World::started("  - wait: 2 days\n  - wait: 3 days\n");
    world.pass(TimeDelta::days(4));
    world.fire_next();
    assert_eq!(world.view().resume_at, Some(world.now + TimeDelta::days(3)));
}

/// S0-AC8
#[test]
fn a_wait_of_ninety_days_has_one_hold_and_one_timer() {
    let mut world = World::started("  - wait: 90 days\n");
    let due = world.now + TimeDelta::milliseconds(7_776_000_000);
    assert_eq!(world.view().resume_at, Some(due));
    assert_eq!(world.timers.len(), 1);
    world.fire_next();
    assert_eq!((world.status(), world.now), (RunStatus::Completed, due));
}

/// Races: a late timer is a no-op. One of another hold, or of another number, is none of ours.
#[test]
fn a_timer_that_is_not_the_current_one_changes_nothing() {
    let mut world = World::started("  - wait: 2 days\n  - wait: 3 days\n");
    let (hold, (rev, _)) = world
        .timers
        .iter()
        .next()
        .map(|(id, set)| (*id, *set))
        .unwrap();
    let before = world.run().clone();
    assert_eq!(world.fire(hold, rev + 1), TimerReply::Stale);
    let other = holdpoint_ids::HoldId { number: 9, ..hold };
    assert_eq!(world.fire(other, rev), TimerReply::Stale);
    assert_eq!(*world.run(), before);
    world.fire_next();
    let after = world.run().clone();
    assert_eq!(
        world.fire(hold, rev),
        TimerReply::Stale,
        "the same once more"
    );
    assert_eq!(*world.run(), after);
}

/// S0-AC4: what was set before a pause or a move never wakes the run.
#[test]
fn a_timer_that_was_frozen_or_moved_changes_nothing() {
    let mut world = World::started(WAIT_THEN_LOG);
    let (hold, (rev, _)) = world
        .timers
        .iter()
        .next()
        .map(|(id, set)| (*id, *set))
        .unwrap();
    world.pause();
    assert_eq!(world.fire(hold, rev), TimerReply::Stale, "frozen");
    world.resume(ResumeMode::Restart);
    assert_eq!(world.fire(hold, rev), TimerReply::Stale, "moved");
    assert!(matches!(world.phase("step-01"), StepPhase::Waiting(_)));
    assert_eq!(world.fire_next(), Some(TimerReply::Applied));
}

/// S0-AC2, S2-R6: branches wait side by side, and the earliest says when it goes on.
#[test]
fn waits_side_by_side_end_each_at_its_time() {
    let mut world = World::started(
        "  - id: long\n    wait: 3 days\n  - id: short\n    wait: 1 day\n    needs: []\n",
    );
    assert_eq!(world.view().resume_at, Some(world.now + TimeDelta::days(1)));
    assert_eq!(world.view().waiting_on.len(), 2);
    world.fire_next();
    assert!(matches!(world.phase("short"), StepPhase::Completed { .. }));
    assert_eq!(world.status(), RunStatus::Waiting);
    world.fire_next();
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S0-T5: around 2^31 and 2^32 ms (24.8 and 49.7 days), and at the longest.
#[test]
fn long_waits_end_at_their_millisecond_and_survive_a_pause() {
    let lengths = [
        (1_i64 << 31) - 1,
        1 << 31,
        (1 << 31) + 1,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        7_776_000_000,
    ];
    for length in lengths {
        let mut world = World::started(&format!("  - wait: {length}ms\n"));
        let due = world.now + TimeDelta::milliseconds(length);
        assert_eq!(world.view().resume_at, Some(due));
        world.pass(TimeDelta::milliseconds(1));
        world.pause();
        let left = world.view().waiting_on[0].remaining_ms;
        assert_eq!(left, u64::try_from(length - 1).ok());
        world.pass(TimeDelta::days(400));
        world.resume(ResumeMode::Continue);
        let due = world.now + TimeDelta::milliseconds(length - 1);
        assert_eq!(world.view().resume_at, Some(due));
        assert_eq!(world.fire_next(), Some(TimerReply::Applied));
        assert_eq!((world.now, world.status()), (due, RunStatus::Completed));
    }
}
