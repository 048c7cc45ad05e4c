//! Working time: rungs fire within it, in order, and each rung fires.

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_calendar::WorkingHours;
use holdpoint_contracts::handoff::{
    Calendar, EscalationRules, PolicyRules, PolicyRung, RequestAction, Weekday,
};
use holdpoint_contracts::hold::{HoldSpec, HoldState, RungAct};
use holdpoint_contracts::run::HoldKind;
use proptest::prelude::*;

use super::world::{World, spec};
use crate::domain::PolicyInput;

const HOUR_MS: u64 = 3_600_000;

fn berlin() -> Calendar {
    Calendar {
        time_zone: "Europe/Berlin".to_owned(),
        days: Weekday::ALL[..5].to_vec(),
        from: "09:00".to_owned(),
        to: "17:00".to_owned(),
        holidays: vec!["2026-12-25".parse().unwrap()],
    }
}

fn instant(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// S4-R15, business calendar: nights, weekends, holidays and clock changes do not count.
#[test]
fn only_working_time_counts() {
    let calendar = berlin();
    let hours = WorkingHours::read(&calendar).unwrap();
    for (since, count, due) in [
        // Thursday noon, and the same day.
        ("2026-12-03T11:00:00Z", 2, "2026-12-03T13:00:00Z"),
        // Closing time is the next opening.
        ("2026-12-03T11:00:00Z", 5, "2026-12-04T08:00:00Z"),
        // Over a weekend, and from within one.
        ("2026-12-04T15:30:00Z", 1, "2026-12-07T08:30:00Z"),
        ("2026-12-05T12:00:00Z", 1, "2026-12-07T09:00:00Z"),
        // Christmas is a Friday.
        ("2026-12-24T15:00:00Z", 2, "2026-12-28T09:00:00Z"),
        // The clock changes in the night to Sunday: winter's 9 o'clock, then summer's.
        ("2026-03-27T15:00:00Z", 2, "2026-03-30T08:00:00Z"),
    ] {
        let found = hours.after(instant(since), count * HOUR_MS).unwrap();
        assert_eq!(found, instant(due), "{count} hours after {since}");
    }
    // Who works in the night of the change: 3 hours of the clock, 2 and 4 of time.
    let night = Calendar {
        days: vec![Weekday::Sun],
        from: "01:00".to_owned(),
        to: "04:00".to_owned(),
        ..berlin()
    };
    let hours = WorkingHours::read(&night).unwrap();
    for (day, count) in [("2026-03-29", 2), ("2026-10-25", 4)] {
        let start = instant(&format!("{day}T00:00:00Z")) - TimeDelta::hours(12);
        let end = start + TimeDelta::days(1);
        assert_eq!(hours.between(start, end), count * HOUR_MS, "{day}");
    }
}

/// An impossible time of day and a calendar without working time are refused with their fields.
#[test]
fn a_calendar_that_cannot_be_read_is_refused() {
    let mut world = World::alone();
    let change = |field: &str| {
        let mut calendar = berlin();
        match field {
            "time_zone" => calendar.time_zone = "Berlin".to_owned(),
            "from" => calendar.from = "9".to_owned(),
            "to" => calendar.to = "09:30".to_owned(),
            _ => calendar.days.clear(),
        }
        calendar
    };
    for field in ["time_zone", "from", "to", "days"] {
        let refused = put(&mut world, change(field)).unwrap_err();
        let pointer = refused.errors[0].pointer.clone().unwrap();
        assert_eq!(pointer, format!("/calendar/{field}"), "{refused:?}");
    }
}

fn put(world: &mut World, calendar: Calendar) -> Result<(), holdpoint_contracts::Problem> {
    let rung = |after, to: &str| PolicyRung {
        after,
        act: RungAct::Notify,
        to: vec![to.to_owned()],
        repeat: None,
    };
    let rules = PolicyRules::Escalation(EscalationRules {
        rungs: vec![
            rung(2 * HOUR_MS, "@role.ops"),
            rung(4 * HOUR_MS, "@role.owner"),
        ],
        stop_on: Vec::new(),
        calendar: Some(calendar),
        acknowledged_for: None,
    });
    let olga = world.caller("olga");
    let put = world.policy_input("office", olga, PolicyInput::Put(rules));
    put.map(drop)
}

fn asked(since: &str) -> World {
    let mut world = World::new();
    put(&mut world, berlin()).unwrap();
    world.now = instant(since);
    let spec = Box::new(HoldSpec {
        policies: vec!["office".parse().unwrap()],
        ..spec(HoldKind::Approval)
    });
    let deadline = None;
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

/// S0-AC4 with a calendar: a pause stops the working clock, and what had passed of it counts.
#[test]
fn pauses_and_snoozes_keep_to_working_time() {
    let mut world = asked("2026-12-04T15:00:00Z");
    assert_eq!(world.due(), Some(instant("2026-12-07T09:00:00Z")));
    let spec = Box::new(world.request.clone().unwrap().spec.unwrap());
    let frozen = HoldState::Frozen {
        spec: spec.clone(),
        since: instant("2026-12-04T15:30:00Z"),
        remaining_ms: None,
    };
    world.desired_state(2, frozen);
    world.now = instant("2026-12-08T10:00:00Z");
    let deadline = None;
    world.desired_state(3, HoldState::Open { spec, deadline });
    assert_eq!(
        world.due(),
        Some(instant("2026-12-08T11:30:00Z")),
        "half an hour had passed"
    );
    world.act("oscar", RequestAction::Accept).unwrap();
    // A snooze until Saturday ends on the next working day, and the rung after it keeps its distance.
    let for_ms = 4 * 24 * HOUR_MS + 2 * HOUR_MS;
    world
        .act("oscar", RequestAction::Snooze { for_ms })
        .unwrap();
    assert_eq!(world.due(), Some(instant("2026-12-14T08:00:00Z")));
    world.now = instant("2026-12-14T08:00:00Z");
    world.fire();
    assert_eq!(world.due(), Some(instant("2026-12-14T10:00:00Z")));
}

fn calendars() -> impl Strategy<Value = Calendar> {
    let zones = prop_oneof![
        Just("Europe/Berlin"),
        Just("America/New_York"),
        Just("Australia/Lord_Howe"),
        Just("Asia/Kolkata"),
        Just("Pacific/Apia"),
        Just("UTC"),
    ];
    let days = proptest::sample::subsequence(Weekday::ALL.to_vec(), 1..=7);
    (
        zones,
        days,
        0..22_u32,
        1..4_u32,
        proptest::collection::vec(0..400_i64, 0..5),
    )
        .prop_map(|(zone, days, from, length, holidays)| {
            let first: chrono::NaiveDate = "2026-01-01".parse().unwrap();
            Calendar {
                time_zone: zone.to_owned(),
                days,
                from: format!("{from:02}:00"),
                to: format!("{:02}:00", (from + length * 3).min(24)),
                holidays: holidays
                    .into_iter()
                    .map(|day| first + TimeDelta::days(day))
                    .collect(),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// S4-R15: a rung never fires outside working time, is never lost, and later ones fire later.
    #[test]
    fn rungs_fire_within_working_time_in_their_order(
        calendar in calendars(),
        start in 0..400 * 24 * 60_i64,
        first in 0..300 * 60_u64,
        more in 1..300 * 60_u64,
    ) {
        let hours = WorkingHours::read(&calendar).unwrap();
        let since = instant("2026-01-01T00:00:00Z") + TimeDelta::minutes(start);
        let [one, two] = [first, first + more].map(|minutes| {
            let ms = minutes * 60_000;
            let due = hours.after(since, ms);
            prop_assert!(due.is_some(), "lost: {} minutes", minutes);
            let due = due.unwrap();
            // As much working time has passed as was wanted, and the next moment counts too.
            prop_assert_eq!(hours.between(since, due), ms);
            prop_assert_eq!(hours.between(due, due + TimeDelta::milliseconds(1)), 1);
            Ok(due)
        });
        let (one, two) = (one?, two?);
        prop_assert!(since <= one && one < two);
        let later = hours.after(since + TimeDelta::minutes(7), first * 60_000);
        prop_assert!(later.is_some_and(|later| one <= later), "monotone in the beginning too");
    }
}
