//! Examples and properties of quiet hours (S4-R15).

use chrono::Timelike as _;
use holdpoint_contracts::handoff::Weekday;
use holdpoint_contracts::notification::{Channels, QuietHours};
use proptest::prelude::*;

use chrono_tz::Tz;
use holdpoint_contracts::notification::{self as contract, PendingReason, PersonalChannel};

use super::*;
use crate::domain::commands::claim_delivery::claim_delivery;
use crate::domain::rules::digest::create_digest as digest;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "America/Santiago",
];

fn said(zone: &str, from: &str, to: &str, days: &[Weekday]) -> contract::Preferences {
    contract::Preferences {
        channels: Channels::default(),
        time_zone: zone.to_owned(),
        quiet_hours: Some(QuietHours {
            from: from.to_owned(),
            to: to.to_owned(),
            days: days.to_vec(),
        }),
        digest: None,
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn held(said: &contract::Preferences, now: &str) -> Option<DateTime<Utc>> {
    let rules = DeliveryRules::read(said).unwrap();
    rules.held_until(Priority::Normal, at(now))
}

/// S4-R15: by the clock on the person's wall, in summer and in winter, over midnight and on some days.
#[test]
fn quiet_hours_are_hours_of_the_persons_zone() {
    let nights = said("Europe/Berlin", "22:00", "07:00", &[]);
    for (now, until) in [
        ("2026-01-10T20:59:59Z", None),
        ("2026-01-10T21:00:00Z", Some("2026-01-11T06:00:00Z")),
        ("2026-01-11T05:59:59Z", Some("2026-01-11T06:00:00Z")),
        ("2026-01-11T06:00:00Z", None),
        ("2026-07-10T20:00:00Z", Some("2026-07-11T05:00:00Z")),
        // The night of 29 March has an hour less, that of 25 October one more.
        ("2026-03-28T21:00:00Z", Some("2026-03-29T05:00:00Z")),
        ("2026-10-24T20:00:00Z", Some("2026-10-25T06:00:00Z")),
    ] {
        assert_eq!(held(&nights, now), until.map(at), "{now}");
    }
    let weekend = said("UTC", "00:00", "24:00", &[Weekday::Sat, Weekday::Sun]);
    let monday = Some(at("2026-01-12T00:00:00Z"));
    assert_eq!(held(&weekend, "2026-01-10T00:00:00Z"), monday, "in a row");
    assert_eq!(held(&weekend, "2026-01-09T23:59:59Z"), None);
}

/// S4-R15: a time of day that clocks skip, or show twice, makes quiet longer and never shorter.
#[test]
fn a_clock_that_is_put_forward_or_back_breaks_no_quiet() {
    let skipped = said("Europe/Berlin", "01:00", "02:30", &[]);
    let three = Some(at("2026-03-29T01:00:00Z"));
    assert_eq!(held(&skipped, "2026-03-29T00:59:00Z"), three);
    let twice = said("Europe/Berlin", "02:15", "02:30", &[]);
    let second = Some(at("2026-10-25T01:30:00Z"));
    assert_eq!(held(&twice, "2026-10-25T00:15:00Z"), second);
    assert_eq!(held(&twice, "2026-10-25T01:29:00Z"), second);
}

/// S4-R15: what is urgent reaches people.
#[test]
fn what_is_urgent_is_not_held_back() {
    let rules = DeliveryRules::read(&said("UTC", "00:00", "23:00", &[])).unwrap();
    let now = at("2026-01-10T12:00:00Z");
    for priority in Priority::ALL {
        let is_held = rules.held_until(priority, now).is_some();
        assert_eq!(is_held, priority < Priority::Urgent, "{priority:?}");
    }
}

/// S0-T4: from which priority on.
#[test]
fn a_channel_begins_at_a_priority() {
    let mut wanted = contract::Preferences::default();
    assert!(
        DeliveryRules::read(&wanted)
            .unwrap()
            .wants(PersonalChannel::Email, Priority::Low)
    );
    wanted.channels.email.from = Priority::High;
    let rules = DeliveryRules::read(&wanted).unwrap();
    let mailed = |priority| rules.wants(PersonalChannel::Email, priority);
    assert!(mailed(Priority::High) && !mailed(Priority::Normal));
    wanted.channels.email.enabled = false;
    let rules = DeliveryRules::read(&wanted).unwrap();
    assert!(!rules.wants(PersonalChannel::Email, Priority::Critical));
}

fn ada(said: &contract::Preferences) -> Preferences {
    Preferences {
        workspace: "acme".parse().unwrap(),
        person: "ada".parse().unwrap(),
        said: said.clone(),
        digest_at: None,
        version: 1,
    }
}

/// People, deliverable 7: one a day by the clock on the person's wall, on days with a changed clock too.
#[test]
fn a_digest_is_due_once_a_day() {
    let mut wanted = said("Europe/Berlin", "22:00", "07:00", &[]);
    let next = |wanted: &contract::Preferences, now: &str| {
        DeliveryRules::read(wanted).unwrap().digest_after(at(now))
    };
    assert_eq!(next(&wanted, "2026-01-10T00:00:00Z"), None);
    for (time, now, due) in [
        ("08:00", "2026-01-10T06:59:59Z", "2026-01-10T07:00:00Z"),
        ("08:00", "2026-01-10T07:00:00Z", "2026-01-11T07:00:00Z"),
        ("08:00", "2026-03-28T07:00:00Z", "2026-03-29T06:00:00Z"),
        // Skipped on 29 March, shown twice on 25 October.
        ("02:30", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("02:30", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("02:30", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
    ] {
        wanted.digest = Some(contract::Digest {
            at: time.to_owned(),
        });
        assert_eq!(next(&wanted, now), Some(at(due)), "{time} {now}");
    }
    wanted.digest = Some(contract::Digest {
        at: "24:00".to_owned(),
    });
    let problem = DeliveryRules::read(&wanted).unwrap_err();
    assert_eq!(problem.errors[0].pointer.as_deref(), Some("/digest/at"));
}

/// People, deliverable 7: decided again it is the same mail; quiet hours hold it back; one for all the
/// days that were missed.
#[test]
fn a_digest_is_one_mail_a_day() {
    let mut wanted = said("Europe/Berlin", "22:00", "07:00", &[]);
    wanted.digest = Some(contract::Digest {
        at: "06:00".to_owned(),
    });
    let mut known = ada(&wanted);
    known.digest_at = Some(at("2026-01-10T05:00:00Z"));
    let decided = |known: &Preferences, now: &str| {
        let Outcome::Decided(change) = digest(known, at(now)) else {
            panic!("nothing is due");
        };
        let (Aggregate::Preferences(next), [Effect::Deliver(NewDeliveries { id, to, .. })]) =
            (change.state, &change.effects[..])
        else {
            panic!("no digest");
        };
        (next.digest_at, *id, to[0].due_at)
    };
    let (next, id, due) = decided(&known, "2026-01-10T05:00:01Z");
    assert_eq!(next, Some(at("2026-01-11T05:00:00Z")));
    assert_eq!(id, NotificationId::digest(20_260_110));
    assert_eq!(due, at("2026-01-10T06:00:00Z"), "when quiet hours end");
    let (next, same, _) = decided(&known, "2026-01-13T12:00:00Z");
    assert_eq!((next, same), (Some(at("2026-01-14T05:00:00Z")), id));
    known.digest_at = next;
    let early = digest(&known, at("2026-01-14T04:59:59Z"));
    assert_eq!(early, Outcome::Unchanged(Reply::Done));
}

/// What is wrong is notified all at once, with where and how to mend it.
#[test]
fn what_is_no_zone_or_no_hour_is_refused() {
    for (zone, from, to, days, pointers) in [
        ("Berlin", "22:00", "07:00", &[][..], &["/time_zone"][..]),
        (
            "",
            "7",
            "25:00",
            &[],
            &["/time_zone", "/quiet_hours/from", "/quiet_hours/to"],
        ),
        ("UTC", "24:00", "07:00", &[], &["/quiet_hours/from"]),
        (
            "UTC",
            "22:60",
            "+7:00",
            &[],
            &["/quiet_hours/from", "/quiet_hours/to"],
        ),
        ("UTC", "22:00", "22:00", &[], &["/quiet_hours/to"]),
        ("UTC", "00:00", "24:00", &[], &["/quiet_hours/days"]),
        (
            "UTC",
            "00:00",
            "24:00",
            &Weekday::ALL,
            &["/quiet_hours/days"],
        ),
    ] {
        let problem = DeliveryRules::read(&said(zone, from, to, days)).unwrap_err();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (422, "invalid_body")
        );
        let pointed: Vec<_> = problem
            .errors
            .iter()
            .filter_map(|one| one.pointer.as_deref())
            .collect();
        assert_eq!(pointed, pointers, "{problem}");
    }
    let problem = DeliveryRules::read(&said("berlin", "22:00", "07:00", &[])).unwrap_err();
    assert_eq!(problem.errors[0].nearest, ["Europe/Berlin"]);
}

/// Whether a clock on the wall shows quiet hours, told in another way than the rules do.
fn is_quiet(said: &contract::Preferences, now: DateTime<Utc>) -> bool {
    let zone: Tz = said.time_zone.parse().unwrap();
    let hours = said.quiet_hours.as_ref().unwrap();
    let shown = now.with_timezone(&zone);
    let time = format!("{:02}:{:02}", shown.hour(), shown.minute());
    let is_day = |back: usize| {
        let today = chrono::Datelike::weekday(&shown).num_days_from_monday() as usize;
        hours.days.contains(&Weekday::ALL[(today + 7 - back) % 7])
    };
    if hours.from < hours.to {
        return is_day(0) && hours.from <= time && time < hours.to;
    }
    (is_day(0) && hours.from <= time) || (is_day(1) && time < hours.to)
}

fn anything() -> impl Strategy<Value = contract::Preferences> {
    let days = proptest::sample::subsequence(Weekday::ALL.to_vec(), 1..=7);
    let zone = proptest::sample::select(ZONES.to_vec());
    // Often around the hours at which clocks are put forward and back.
    let minutes = || prop_oneof![0_u32..24 * 60, 60_u32..240];
    (zone, minutes(), minutes(), days).prop_map(|(zone, from, to, days)| {
        let text = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let to = if to == from { (to + 1) % (24 * 60) } else { to };
        said(zone, &text(from), &text(to), &days)
    })
}

/// Instants of two years, often near the changes of clocks.
fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    let year = (0_i64..730 * 24 * 60).prop_map(|minutes| ("2026-01-01T00:00:00Z", minutes));
    let near = |day: &'static str| (0_i64..36 * 60).prop_map(move |minutes| (day, minutes));
    prop_oneof![
        year,
        near("2026-03-28T12:00:00Z"),
        near("2026-10-24T12:00:00Z"),
        near("2026-03-07T20:00:00Z"),
        near("2026-10-31T20:00:00Z"),
        near("2026-04-04T00:00:00Z"),
    ]
    .prop_map(|(from, minutes)| at(from) + TimeDelta::minutes(minutes))
}

fn mail(next_at: DateTime<Utc>) -> Delivery {
    Delivery {
        priority: Priority::High,
        phase: Phase::Pending {
            next_at,
            waits: PendingReason::Queued,
        },
        ..delivery()
    }
}

proptest! {
    /// S4-R15: whenever a sweep comes by, a mail is never dispatched in quiet hours, and never lost: it
    /// waits for an instant, and at that instant it goes.
    #[test]
    fn a_mail_is_never_sent_in_quiet_hours_and_never_lost(
        said in anything(),
        start in instant(),
        passes in proptest::collection::vec(1_i64..2_000, 1..6),
    ) {
        let rules = DeliveryRules::read(&said).unwrap();
        let lookup = |need: &Need| match need {
            Need::Person(_, name) => Lookup::Found(Fact::Person(Person {
                name: name.clone(),
                active: true,
                has_mail: true,
                may_look: true,
                rules: rules.clone(),
            })),
            Need::Members { .. } | Need::RequestLifecycle(..) | Need::Webhooks(_) | Need::Watchers { .. } | Need::WatchCount(..) | Need::IsErased(..) | Need::LastErasure(..) | Need::ContactEvents { .. } | Need::Unread { .. } => Lookup::Missing,
        };
        let (mut one, mut now) = (mail(start), start);
        // Passes at any time, and at last one at the very instant that it waits for.
        for minutes in passes.into_iter().map(Some).chain([None]) {
            let Phase::Pending { next_at, .. } = one.phase else { panic!("lost") };
            now = minutes.map_or(next_at.max(now), |minutes| now + TimeDelta::minutes(minutes));
            let Ok(Outcome::Decided(change)) = claim_delivery(&one, &lookup, now) else {
                prop_assert!(next_at > now, "due, and nothing happens");
                continue;
            };
            if !change.effects.is_empty() {
                prop_assert!(!is_quiet(&said, now), "sent at {now}");
                return Ok(());
            }
            let Aggregate::Delivery(held) = change.state else { panic!("no delivery") };
            one = *held;
            let Phase::Pending { next_at, .. } = one.phase else { panic!("lost") };
            prop_assert!(next_at > now && next_at - now < TimeDelta::days(9));
            prop_assert_eq!(one.attempts, 0, "being held is no try");
        }
        prop_assert!(false, "it was due, and was not sent");
    }
}
