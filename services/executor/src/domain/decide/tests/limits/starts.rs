//! Rates, and starting once.

use chrono::TimeDelta;
use holdpoint_contracts::run::{ResumeMode, RunStatus};

use super::{THREE, limited};
use crate::domain::Refusal;
use crate::domain::decide::tests::world::{Heard, start_input};

/// A start above the rate waits for its time, in order, and a timer wakes it.
#[test]
fn a_start_above_the_rate_waits_for_its_turn() {
    let mut world = limited("{ rate: { starts: 2, per: 1m } }", THREE);
    let begun = world.now;
    world.starts = vec![
        (8, begun - TimeDelta::seconds(10)),
        (7, begun - TimeDelta::seconds(40)),
        (6, begun - TimeDelta::seconds(41)),
    ];
    let view = world.start();
    assert_eq!((view.status, world.handed.len()), (RunStatus::Queued, 0));
    assert_eq!(view.resume_at, Some(begun + TimeDelta::seconds(20)));
    assert!(
        view.message.contains("start in 20 seconds"),
        "{}",
        view.message
    );
    let start = world.limits.clone().unwrap().start.unwrap();
    assert_eq!((start.1, start.2), (9, begun + TimeDelta::seconds(20)));
    assert!(world.fire_next().is_some());
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 1)
    );

    let mut world = limited("{ rate: { starts: 2, per: 1m } }", THREE);
    world.starts = vec![(8, begun), (7, begun - TimeDelta::minutes(2))];
    world.start();
    assert_eq!(world.handed.len(), 1, "one of two in this minute");
}

#[test]
fn a_delayed_start_can_be_cancelled_and_paused() {
    let mut world = limited("{ rate: { starts: 1, per: 1m } }", THREE);
    world.starts = vec![(1, world.now)];
    world.start();
    world.pause();
    assert!(world.fire_next().is_some());
    assert!(
        world.handed.is_empty(),
        "its turn has come, and it is paused"
    );
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed.len(), 1);

    let mut world = limited("{ rate: { starts: 1, per: 1m } }", THREE);
    world.starts = vec![(1, world.now)];
    world.start();
    world.cancel();
    assert!(world.fire_next().is_none(), "its timer is cleared");
}

#[test]
fn a_rate_reserves_no_start_after_a_year() {
    let mut world = limited("{ rate: { starts: 1, per: 7 days } }", THREE);
    world.starts = vec![(5, world.now + TimeDelta::days(360))];
    assert!(matches!(
        world.give(start_input()),
        Heard::Refused(Refusal::TooManyStarts(_))
    ));
}

/// A run that ends before its turn gives the turn up, so a mistaken rate does not delay later starts.
#[test]
fn a_cancelled_run_gives_its_turn_up() {
    let mut world = limited("{ rate: { starts: 1, per: 1h } }", THREE);
    world.starts = vec![(1, world.now)];
    world.start();
    assert!(world.limits.clone().unwrap().start.is_some());
    world.cancel();
    assert_eq!(world.limits.clone().unwrap().start, None);

    let mut world = limited("{ rate: { starts: 1, per: 1h } }", THREE);
    world.start();
    world.cancel();
    assert!(world.limits.clone().unwrap().start.is_some(), "it began");
}

/// Two versions that start once for different keys do not mix them up.
#[test]
fn another_key_starts_again() {
    let once = |key: &str| {
        let mut world = limited(&format!("{{ once: {{ key: {key} }} }}"), THREE);
        world.start();
        world.limits.clone().unwrap().once
    };
    assert_ne!(once("$input.customer"), once("\"{{ input.customer }}\""));
    assert_eq!(once("$input.customer"), once("$input.customer"));
}

#[test]
fn a_key_without_a_value_refuses_the_start() {
    for limits in [
        "{ concurrency: { runs: 1, key: $input.nothing } }",
        "{ once: { key: \"{{ input.nothing }}\" } }",
    ] {
        let mut world = limited(limits, THREE);
        let Heard::Refused(Refusal::NoLimitKey(..)) = world.give(start_input()) else {
            panic!("{limits}");
        };
    }
}
