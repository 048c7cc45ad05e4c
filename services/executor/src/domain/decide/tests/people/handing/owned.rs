//! Whose a run is that was given away, and how its policies end a handoff.

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ClosedAnswer, Deed, DeedKind, EndedByRung, HoldOutcome};
use serde_json::Value;

use super::super::super::world::{Heard, World, closing, deed};
use super::super::hold;
use super::{handled, offered, told};
use crate::domain::run::people::Closing;

/// A run that was taken over and given away is whoever's it was given to; of a group, whoever's takes it.
#[test]
fn a_run_that_is_given_away_is_somebody_elses() {
    let mut world = offered();
    let id = hold(&world);
    world.close_as(id, HoldOutcome::TakenOver, Value::Null);
    let given = deed(3, DeedKind::Reassigned, world.now);
    handled(&mut world, std::slice::from_ref(&given));
    assert_eq!(world.view().taken_over_by.as_deref(), Some("bob"));
    assert!(world.view().message.contains("bob has taken over"));
    let to_all = Deed {
        rev: 4,
        to: vec!["@role.sales".to_owned()],
        ..given
    };
    handled(&mut world, &[to_all]);
    assert_eq!(world.view().taken_over_by.as_deref(), Some("@role.sales"));
    let by_zoe = Closing {
        by: "zoe".to_owned(),
        ..closing(HoldOutcome::TakenOver, Value::Null, world.now)
    };
    for _twice in 0..2 {
        assert_eq!(world.close_at(id, by_zoe.clone()), ClosedAnswer::Applied);
        assert_eq!(world.view().taken_over_by.as_deref(), Some("zoe"));
    }
    let taken = told(&world);
    let taken = taken
        .iter()
        .filter(|one| **one == EventType::HandoffTakenOver);
    assert_eq!(taken.count(), 2, "by ada, and by zoe");
}

/// Policies: a rung ends a handoff before its deadline as its time-out would, unless that was moved
/// meanwhile.
#[test]
fn a_rung_ends_a_handoff_as_its_time_out_would() {
    let mut world = offered();
    let (id, due) = (hold(&world), world.view().resume_at.unwrap());
    let ended = |world: &World, deadline| Closing {
        by_rung: Some(EndedByRung {
            after_ms: 3_600_000,
            deadline: Some(deadline),
        }),
        ..closing(HoldOutcome::Timeout, Value::Null, world.now)
    };
    let before = ended(&world, due - TimeDelta::seconds(1));
    assert_eq!(world.close_at(id, before), ClosedAnswer::OnResume);
    let now = ended(&world, due);
    assert_eq!(world.close_at(id, now), ClosedAnswer::Applied);
    let expired = world.event(EventType::HandoffExpired);
    assert!(
        expired.message.contains("within 1 hour"),
        "{}",
        expired.message
    );
}

/// At the deadline that counts time is up, whatever the rung knew: its owner lets that end stand.
#[test]
fn a_rung_that_comes_with_the_deadline_ends_it_whatever_it_knew() {
    let mut world = offered();
    let (id, due) = (hold(&world), world.view().resume_at.unwrap());
    let late = Closing {
        by_rung: Some(EndedByRung {
            after_ms: 3_600_000,
            deadline: Some(due - TimeDelta::days(1)),
        }),
        ..closing(HoldOutcome::Timeout, Value::Null, due)
    };
    assert_eq!(world.close_at(id, late), ClosedAnswer::Applied);
}

/// Policies: `decide_within` is the time of a step that names none; the run keeps the clock.
#[test]
fn a_policy_says_how_long_a_handoff_waits() {
    let mut world = offered();
    let due = world.view().resume_at.unwrap();
    let timed = Deed {
        within_ms: Some(2 * 86_400_000),
        ..deed(1, DeedKind::Timed, world.now)
    };
    let timed = std::slice::from_ref(&timed);
    assert!(matches!(handled(&mut world, timed), Heard::Decided(_)));
    let sooner = due - TimeDelta::days(1);
    assert_eq!(world.view().resume_at, Some(sooner));
    assert!(matches!(handled(&mut world, timed), Heard::Unchanged(_)));
    let waiting = world.event(EventType::RunWaiting);
    assert!(
        waiting.message.contains("within 2 days"),
        "{}",
        waiting.message
    );

    let mut world = offered();
    world.pause();
    handled(&mut world, timed);
    let left = world.view().waiting_on[0].remaining_ms;
    assert_eq!(left, Some(2 * 86_400_000), "a pause has stopped its clock");
}
