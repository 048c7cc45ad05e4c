//! When a schedule fires.

use chrono::{DateTime, Datelike as _, NaiveDate, TimeDelta, Timelike as _, Utc};
use chrono_tz::Tz;
use proptest::prelude::*;

use super::super::rules::fire_times::FireTimes;

fn times(cron: &str, zone: &str) -> FireTimes {
    FireTimes::read(cron, zone).unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// The fires after `from` and until `to`.
fn between(times: &FireTimes, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let next = |after: &DateTime<Utc>| times.next_after(*after).filter(|next| *next <= to);
    std::iter::successors(next(&from), next).collect()
}

/// The fires of one day in Berlin, as the clock there shows them.
fn of_day(cron: &str, day: &str) -> Vec<String> {
    let zone: Tz = "Europe/Berlin".parse().unwrap();
    let day: NaiveDate = day.parse().unwrap();
    let midnight = |day: NaiveDate| {
        let local = day.and_hms_opt(0, 0, 0).unwrap().and_local_timezone(zone);
        local.unwrap().with_timezone(&Utc)
    };
    let to = midnight(day.succ_opt().unwrap()) - TimeDelta::seconds(1);
    let fires = between(
        &times(cron, zone.name()),
        midnight(day) - TimeDelta::seconds(1),
        to,
    );
    let local = |at: &DateTime<Utc>| at.with_timezone(&zone).format("%H:%M%z").to_string();
    fires.iter().map(local).collect()
}

/// Issue 17, "daylight saving": the hour from 2:00 does not exist on 2026-03-29, and exists twice on 2026-10-25.
#[test]
fn a_fixed_time_fires_once_a_day() {
    for (cron, gap, repeated) in [
        ("30 2 * * *", &["03:00+0200"][..], &["02:30+0200"][..]),
        (
            "0,30 2 * * *",
            &["03:00+0200"],
            &["02:00+0200", "02:30+0200"],
        ),
        (
            "30 2,3 * * *",
            &["03:00+0200", "03:30+0200"],
            &["02:30+0200", "03:30+0100"],
        ),
        ("30 1 * * *", &["01:30+0100"], &["01:30+0200"]),
        ("0 3 * * *", &["03:00+0200"], &["03:00+0100"]),
        ("0 0 * * *", &["00:00+0100"], &["00:00+0200"]),
    ] {
        assert_eq!(of_day(cron, "2026-03-29"), gap, "{cron}");
        assert_eq!(of_day(cron, "2026-10-25"), repeated, "{cron}");
    }
}

#[test]
fn an_expression_for_every_hour_follows_the_time_that_passes() {
    assert_eq!(of_day("0 * * * *", "2026-03-29").len(), 23);
    assert_eq!(of_day("0 * * * *", "2026-10-25").len(), 25);
    assert_eq!(of_day("*/10 * * * *", "2026-10-25").len(), 150);
    assert_eq!(of_day("*/30 2 * * *", "2026-03-29"), Vec::<String>::new());
    let both = ["02:00+0200", "02:30+0200", "02:00+0100", "02:30+0100"];
    assert_eq!(of_day("*/30 2 * * *", "2026-10-25"), both);
    for (range, wildcard) in [
        ("0-59/15 * * * *", "*/15 * * * *"),
        ("0-59/30 2 * * *", "*/30 2 * * *"),
        ("0 0-23/2 * * *", "0 */2 * * *"),
        ("00-59 0-23 * * *", "* * * * *"),
    ] {
        for day in ["2026-03-29", "2026-10-25"] {
            assert_eq!(of_day(range, day), of_day(wildcard, day), "{range}");
        }
    }
    // Less than the whole range stays a list of fixed times.
    assert_eq!(of_day("0-45/15 2 * * *", "2026-10-25").len(), 4);
}

/// In a zone of half an hour, and one whose day begins in a gap.
#[test]
fn unusual_gaps_have_an_end() {
    let lord_howe = times("15 2 * * *", "Australia/Lord_Howe");
    let next = lord_howe.next_after(at("2026-10-03T14:00:00Z"));
    assert_eq!(
        next,
        Some(at("2026-10-03T15:30:00Z")),
        "2:30 of the new time"
    );
    let beirut = times("0 0 * * *", "Asia/Beirut");
    let next = beirut.next_after(at("2026-03-28T12:00:00Z"));
    assert_eq!(
        next,
        Some(at("2026-03-28T22:00:00Z")),
        "1:00 of the new time"
    );
    let apia = times("0 12 30 12 *", "Pacific/Apia");
    let next = apia.next_after(at("2011-12-01T00:00:00Z"));
    assert_eq!(
        next,
        Some(at("2011-12-30T10:00:00Z")),
        "the day that Samoa skipped"
    );
}

#[test]
fn expressions_follow_the_calendar() {
    let first = |cron| times(cron, "UTC").next_after(at("2026-01-01T00:00:00.5Z"));
    for (cron, next) in [
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("0 9 * * MON-FRI", "2026-01-01T09:00:00Z"),
        ("0 0 L * *", "2026-01-31T00:00:00Z"),
        ("@weekly", "2026-01-04T00:00:00Z"),
        ("0 0 13 * FRI", "2026-01-02T00:00:00Z"),
        ("* * * * *", "2026-01-01T00:01:00Z"),
    ] {
        assert_eq!(first(cron), Some(at(next)), "{cron}");
    }
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        assert_eq!(first(never), None, "{never}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let long = format!("{} * * * *", "1,".repeat(200));
    for cron in [
        "",
        "* * * *",
        "* * * * * *",
        "* * * * * * *",
        "60 * * * *",
        "@reboot",
        "a b c d e",
        &long,
    ] {
        let errors = FireTimes::read(cron, "UTC").unwrap_err();
        assert_eq!(errors[0].pointer.as_deref(), Some("/cron"), "{cron}");
    }
    for (zone, nearest) in [
        ("Berlin", &["Europe/Berlin"][..]),
        ("europe/berlim", &["Europe/Berlin"]),
        ("", &[]),
        ("Mars/Olympus", &[]),
    ] {
        let errors = FireTimes::read("* * * * *", zone).unwrap_err();
        assert_eq!(errors[0].pointer.as_deref(), Some("/time_zone"));
        assert_eq!(errors[0].nearest, nearest, "{zone}");
    }
    assert_eq!(
        FireTimes::read("x", "x").unwrap_err().len(),
        2,
        "all errors at once"
    );
}

/// Sets of minutes, hours and weekdays, and whether minutes and hours are any.
fn any_cron() -> impl Strategy<Value = String> {
    let field = |max: u32| {
        prop_oneof![
            2 => proptest::collection::btree_set(0..=max, 1..4).prop_map(|all| {
                let all: Vec<_> = all.iter().map(u32::to_string).collect();
                all.join(",")
            }),
            1 => Just("*".to_owned()),
            1 => (2..=max / 2).prop_map(|step| format!("*/{step}")),
        ]
    };
    (field(59), field(23), field(6))
        .prop_map(|(minute, hour, day)| format!("{minute} {hour} * * {day}"))
}

/// Whether a field of numbers, steps and `*` contains a number.
fn has(field: &str, number: u32) -> bool {
    match field.strip_prefix('*') {
        Some("") => true,
        Some(step) => number.is_multiple_of(step.trim_start_matches('/').parse().unwrap()),
        None => field
            .split(',')
            .any(|one| one.parse::<u32>().unwrap() == number),
    }
}

const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Santiago",
];

proptest! {
    /// Against every minute of three days: where the offset does not change, the fires are the minutes that match. A
    /// fixed expression never fires twice at one local time.
    #[test]
    fn fires_are_the_minutes_that_match(
        cron in any_cron(), zone in proptest::sample::select(&ZONES[..]), day in 0_i64..1_000
    ) {
        let zone: Tz = zone.parse().unwrap();
        let from = at("2026-01-01T00:00:00Z") + TimeDelta::days(day);
        let to = from + TimeDelta::days(3);
        let times = times(&cron, zone.name());
        let fires = between(&times, from, to);
        prop_assert!(fires.is_sorted_by(|one, two| one < two));
        let fields: Vec<_> = cron.split(' ').collect();
        let is_match = |at: DateTime<Utc>| {
            let local = at.with_timezone(&zone);
            has(fields[0], local.minute())
                && has(fields[1], local.hour())
                && has(fields[4], local.weekday().num_days_from_sunday())
        };
        let offset = |at: DateTime<Utc>| at.with_timezone(&zone).naive_local() - at.naive_utc();
        let matching: Vec<_> = (1..=3 * 24 * 60)
            .map(|minute| from + TimeDelta::minutes(minute))
            .filter(|at| is_match(*at))
            .collect();
        let is_fixed = !fields[0].contains('*') && !fields[1].contains('*');
        if !is_fixed || offset(from) == offset(to) {
            prop_assert_eq!(&fires, &matching);
        }
        let mut local: Vec<_> = fires.iter().map(|at| at.with_timezone(&zone).naive_local()).collect();
        local.dedup();
        prop_assert!(!is_fixed || local.len() == fires.len());
    }

    /// A time of day fires once on each day, whatever the zone does.
    #[test]
    fn a_time_of_day_fires_once_on_each_date(
        minute in 0..60_u32, hour in 0..24_u32, zone in proptest::sample::select(&ZONES[..])
    ) {
        let tz: Tz = zone.parse().unwrap();
        let times = times(&format!("{minute} {hour} * * *"), zone);
        let fires = between(&times, at("2026-01-01T12:00:00Z"), at("2027-01-01T12:00:00Z"));
        let dates: Vec<_> = fires.iter().map(|at| at.with_timezone(&tz).date_naive()).collect();
        prop_assert!(dates.windows(2).all(|two| two[0].succ_opt() == Some(two[1])), "{dates:?}");
    }

    /// The latest of the missed fires is the last one in order.
    #[test]
    fn the_latest_missed_fire_is_the_last(
        cron in any_cron(), zone in proptest::sample::select(&ZONES[..]),
        day in 0_i64..365, minutes in 0_i64..20_000
    ) {
        let times = times(&cron, zone);
        let from = at("2026-01-01T00:00:00Z") + TimeDelta::days(day);
        let due = times.next_after(from).unwrap();
        let now = due + TimeDelta::minutes(minutes);
        let last = between(&times, from, now).last().copied();
        prop_assert_eq!(Some(times.latest(due, now)), last);
    }
}
