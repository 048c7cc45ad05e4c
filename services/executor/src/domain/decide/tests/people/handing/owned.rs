//! Whose a run is that was given away, and how its policies end a handoff.

use chrono::TimeDelta;
use holdpoint_contracts::executor::{PauseNew, PauseWaiting};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{
    CloseReply, EndedByRung, HandoffEvent, HandoffEventKind, HoldOutcome,
};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::{HoldKind, PauseScope, ResumeMode, RunStatus};
use serde_json::Value;

use super::super::super::world::{Heard, World, closing, handoff_event};
use super::super::hold;
use super::{handled, offered, sent};
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{RunInput, ScopeInput};

/// A run that was taken over and given away is whoever's it was given to; of a group, whoever's takes it.
#[test]
fn a_run_that_is_given_away_is_somebody_elses() {
    let mut world = offered();
    let id = hold(&world);
    world.close_as(id, HoldOutcome::TakenOver, Value::Null);
    let given = handoff_event(3, HandoffEventKind::Reassigned, world.now);
    handled(&mut world, std::slice::from_ref(&given));
    assert_eq!(world.view().taken_over_by.as_deref(), Some("bob"));
    assert!(world.view().message.contains("bob has taken over"));
    let to_all = HandoffEvent {
        rev: 4,
        to: vec!["@role.sales".to_owned()],
        ..given
    };
    handled(&mut world, &[to_all]);
    assert_eq!(world.view().taken_over_by.as_deref(), Some("@role.sales"));
    let by_zoe = HoldClosure {
        by: "zoe".to_owned(),
        ..closing(HoldOutcome::TakenOver, Value::Null, world.now)
    };
    for _twice in 0..2 {
        assert_eq!(world.close_at(id, by_zoe.clone()), CloseReply::Applied);
        assert_eq!(world.view().taken_over_by.as_deref(), Some("zoe"));
    }
    let taken = sent(&world);
    let taken = taken
        .iter()
        .filter(|one| **one == EventType::HandoffTakenOver);
    assert_eq!(taken.count(), 2, "by ada, and by zoe");
}

/// Policies: a rung ends a handoff before its deadline as its timeout would, unless that was moved
/// meanwhile.
#[test]
fn a_rung_ends_a_handoff_as_its_time_out_would() {
    let mut world = offered();
    let (id, due) = (hold(&world), world.view().resume_at.unwrap());
    let ended = |world: &World, deadline| HoldClosure {
        by_rung: Some(EndedByRung {
            after_ms: 3_600_000,
            deadline: Some(deadline),
        }),
        ..closing(HoldOutcome::Timeout, Value::Null, world.now)
    };
    let before = ended(&world, due - TimeDelta::seconds(1));
    assert_eq!(world.close_at(id, before), CloseReply::OnResume);
    let now = ended(&world, due);
    assert_eq!(world.close_at(id, now), CloseReply::Applied);
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
    let late = HoldClosure {
        by_rung: Some(EndedByRung {
            after_ms: 3_600_000,
            deadline: Some(due - TimeDelta::days(1)),
        }),
        ..closing(HoldOutcome::Timeout, Value::Null, due)
    };
    assert_eq!(world.close_at(id, late), CloseReply::Applied);
}

/// Policies: `decide_within` is the time of a step that names none; the run keeps the clock.
#[test]
fn a_policy_says_how_long_a_handoff_waits() {
    let mut world = offered();
    let due = world.view().resume_at.unwrap();
    let timed = HandoffEvent {
        within_ms: Some(2 * 86_400_000),
        ..handoff_event(1, HandoffEventKind::Timed, world.now)
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

/// Mend C-13: a wait stands while an operator owns the run, also when a pause ends meanwhile. It goes on
/// with what was left of it.
#[test]
fn the_clock_of_a_wait_stops_while_an_operator_owns_the_run() {
    let mut world = World::started("  - id: wait\n    wait: 1 day\n");
    world.pass(TimeDelta::hours(6));
    let bob = RunInput::TakeOver {
        by: Actor("bob".to_owned()),
    };
    assert!(matches!(world.give(bob), Heard::Decided(_)));
    let timers = |world: &World| {
        let mut all = world.view().waiting_on.into_iter();
        let timer = all.find(|one| one.kind == HoldKind::Timer).unwrap();
        (timer.until, timer.remaining_ms)
    };
    let left = Some(18 * 3_600_000);
    assert_eq!(
        (world.view().resume_at, timers(&world)),
        (None, (None, left))
    );
    world.pass(TimeDelta::days(3));
    assert_eq!(world.fire_next(), None, "no timer is set");
    world.pause();
    world.resume(ResumeMode::Continue);
    assert_eq!(timers(&world), (None, left), "a resume does not start it");
    let own = world.run().takeover_hold.as_ref().unwrap().id;
    world.close_as(
        own,
        HoldOutcome::Completed,
        super::completion("return_to_agent"),
    );
    let due = world.now + TimeDelta::hours(18);
    assert_eq!(world.view().resume_at, Some(due));
    world.fire_next();
    assert_eq!((world.status(), world.now), (RunStatus::Completed, due));
}

/// The mode of a resume counts for the waits of a run that an operator has handed back during the pause,
/// whether the pause was of the run or of its agent.
#[test]
fn a_resume_keeps_its_mode_for_the_waits_of_a_run_that_was_handed_back() {
    let day = TimeDelta::days(1);
    let modes = [
        (ResumeMode::Continue, TimeDelta::hours(18)),
        (ResumeMode::Restart, day),
        (ResumeMode::KeepDeadline, TimeDelta::hours(16)),
        (ResumeMode::Now, TimeDelta::zero()),
    ];
    for (mode, left) in modes {
        for is_agent in [false, true] {
            let mut world = World::started("  - id: wait\n    wait: 1 day\n");
            world.pass(TimeDelta::hours(6));
            let by = Actor("bob".to_owned());
            world.give(RunInput::TakeOver { by: by.clone() });
            world.pass(TimeDelta::hours(1));
            if is_agent {
                world.command(
                    PauseScope::Agent,
                    ScopeInput::Pause {
                        by: by.clone(),
                        waiting: PauseWaiting::Hold,
                        new: PauseNew::Accept,
                    },
                );
            } else {
                world.pause();
            }
            let own = world.run().takeover_hold.as_ref().unwrap().id;
            let returned = super::completion("return_to_agent");
            let reply = world.close_as(own, HoldOutcome::Completed, returned);
            assert_eq!(reply, CloseReply::OnResume);
            world.pass(TimeDelta::hours(1));
            if is_agent {
                world.command(PauseScope::Agent, ScopeInput::Resume { by, mode });
                world.give(RunInput::ApplyScopes);
            } else {
                world.resume(mode);
            }
            let due = (left > TimeDelta::zero()).then(|| world.now + left);
            assert_eq!(world.view().resume_at, due, "{mode:?}, {is_agent}");
            assert_eq!(world.run().is_final(), due.is_none());
        }
    }
}

/// Mend L3: the mode of a resume counts at its instant, whatever is commanded after it, and however late the run
/// applies both.
#[test]
fn a_later_pause_leaves_the_mode_of_a_resume_as_it_was() {
    for is_applied_at_once in [true, false] {
        let mut world = World::started("  - id: wait\n    wait: 1 day\n");
        world.pass(TimeDelta::hours(6));
        let by = Actor("bob".to_owned());
        world.give(RunInput::TakeOver { by: by.clone() });
        let pause = ScopeInput::Pause {
            by: by.clone(),
            waiting: PauseWaiting::Hold,
            new: PauseNew::Accept,
        };
        let resume = |mode| ScopeInput::Resume {
            by: by.clone(),
            mode,
        };
        world.command(PauseScope::Agent, pause.clone());
        let own = world.run().takeover_hold.as_ref().unwrap().id;
        let returned = super::completion("return_to_agent");
        let reply = world.close_as(own, HoldOutcome::Completed, returned);
        assert_eq!(reply, CloseReply::OnResume);
        let resumed_at = world.now;
        for (kind, input) in [
            (PauseScope::Agent, resume(ResumeMode::Restart)),
            (PauseScope::Workspace, pause),
            (PauseScope::Workspace, resume(ResumeMode::Continue)),
        ] {
            world.command(kind, input);
            if is_applied_at_once {
                world.give(RunInput::ApplyScopes);
            }
            world.pass(TimeDelta::hours(1));
        }
        world.give(RunInput::ApplyScopes);
        // A whole day again, and the hour of the second pause.
        let due = resumed_at + TimeDelta::hours(25);
        assert_eq!(world.view().resume_at, Some(due), "{is_applied_at_once}");
    }
}

/// Mend C-13: a timeout that is kept while an operator owns the run only proposes. An answer replaces it,
/// and a clock that changes forgets it.
#[test]
fn a_kept_time_out_gives_way_to_an_answer() {
    let asked = "  - id: q\n    ask: { question: \"Go on?\", timeout: 1h, on_timeout: fail }\n";
    for is_answered in [true, false] {
        let mut world = World::started(asked);
        let id = hold(&world);
        let bob = RunInput::TakeOver {
            by: Actor("bob".to_owned()),
        };
        assert!(matches!(world.give(bob), Heard::Decided(_)));
        world.pass(TimeDelta::hours(2));
        let late = world.close_as(id, HoldOutcome::Timeout, Value::Null);
        assert_eq!(late, CloseReply::OnResume);
        if is_answered {
            let answer = world.close_as(id, HoldOutcome::Answered, Value::from("yes"));
            assert_eq!(answer, CloseReply::OnResume);
        } else {
            world.pause();
            world.resume(ResumeMode::Restart);
        }
        let own = world.run().takeover_hold.as_ref().unwrap().id;
        let returned = super::completion("return_to_agent");
        world.close_as(own, HoldOutcome::Completed, returned);
        let status = match is_answered {
            true => RunStatus::Completed,
            false => RunStatus::AwaitingInput,
        };
        assert_eq!(world.status(), status);
    }
}
