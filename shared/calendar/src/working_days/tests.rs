use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn with_holidays(dates: &[&str]) -> WorkingDays {
    WorkingDays {
        holidays: dates.iter().map(|date| date.parse().unwrap()).collect(),
        ..WorkingDays::default()
    }
}

#[test]
fn weekends_do_not_count() {
    let days = WorkingDays::default();
    for (since, count, end) in [
        // A Wednesday.
        ("2026-01-07T10:00:00Z", 1, "2026-01-08T10:00:00Z"),
        ("2026-01-07T10:00:00Z", 2, "2026-01-09T10:00:00Z"),
        ("2026-01-07T10:00:00Z", 3, "2026-01-12T10:00:00Z"),
        ("2026-01-07T10:00:00Z", 10, "2026-01-21T10:00:00Z"),
        // A Saturday and a Sunday.
        ("2026-01-10T10:00:00Z", 1, "2026-01-12T10:00:00Z"),
        ("2026-01-11T10:00:00Z", 2, "2026-01-13T10:00:00Z"),
    ] {
        assert_eq!(
            days.later(Tz::UTC, at(since), count),
            Some(at(end)),
            "{since} + {count}"
        );
    }
}

/// Friday 23:59 in Auckland is Friday noon in UTC, and Saturday in no zone that matters to the wait.
#[test]
fn the_day_is_that_of_the_zone() {
    let days = WorkingDays::default();
    let friday_in_auckland = at("2026-01-09T10:59:00Z");
    assert_eq!(
        days.later(Tz::Pacific__Auckland, friday_in_auckland, 2),
        Some(at("2026-01-13T10:59:00Z"))
    );
    // The same instant a minute later is Saturday there, and Friday in UTC.
    let saturday_in_auckland = at("2026-01-09T11:00:00Z");
    assert_eq!(
        days.later(Tz::Pacific__Auckland, saturday_in_auckland, 2),
        Some(at("2026-01-12T11:00:00Z")),
        "Tuesday 00:00 in Auckland"
    );
    assert_eq!(
        days.later(Tz::UTC, saturday_in_auckland, 2),
        Some(at("2026-01-13T11:00:00Z"))
    );
}

#[test]
fn holidays_do_not_count() {
    let christmas = with_holidays(&["2026-12-25", "2026-12-28", "2027-01-01"]);
    assert_eq!(
        christmas.later(Tz::Europe__Berlin, at("2026-12-23T08:00:00Z"), 2),
        Some(at("2026-12-29T08:00:00Z"))
    );
}

#[test]
fn the_local_time_is_kept_over_a_change_of_the_clocks() {
    let days = WorkingDays::default();
    // 09:00 on the Friday before clocks are put forward is 08:00 in UTC, and 07:00 on the Monday after.
    assert_eq!(
        days.later(Tz::Europe__Berlin, at("2026-03-27T08:00:00Z"), 1),
        Some(at("2026-03-30T07:00:00Z"))
    );
    let all = WorkingDays {
        days: Weekday::ALL.into_iter().collect(),
        ..WorkingDays::default()
    };
    // 02:30 does not exist on 2026-03-29: the wait ends when the gap does.
    assert_eq!(
        all.later(Tz::Europe__Berlin, at("2026-03-28T01:30:00Z"), 1),
        Some(at("2026-03-29T01:00:00Z"))
    );
    // 02:30 exists twice on 2026-10-25: the first one counts.
    assert_eq!(
        all.later(Tz::Europe__Berlin, at("2026-10-24T00:30:00Z"), 1),
        Some(at("2026-10-25T00:30:00Z"))
    );
}

#[test]
fn a_calendar_without_a_working_day_has_no_end() {
    let none = WorkingDays {
        days: BTreeSet::new(),
        ..WorkingDays::default()
    };
    assert_eq!(none.later(Tz::UTC, at("2026-01-07T10:00:00Z"), 1), None);
    assert_eq!(
        WorkingDays::default().later(Tz::UTC, at("2026-01-07T10:00:00Z"), 0),
        None,
        "the caller refuses 0 working days"
    );
    assert_eq!(
        WorkingDays::default().later(Tz::UTC, DateTime::<Utc>::MAX_UTC, 1),
        None
    );
}

#[test]
fn working_days_take_at_least_so_many_days() {
    let days = WorkingDays::default();
    for (count, least) in [(1, 1), (5, 1), (6, 8), (65, 85), (66, 92)] {
        assert_eq!(days.fewest_days(count), least, "{count}");
    }
}

prop_compose! {
    fn a_calendar()(
        days in prop::collection::btree_set(prop::sample::select(Weekday::ALL.to_vec()), 1..=7),
        holidays in prop::collection::btree_set(0_u64..200, 0..20),
    ) -> WorkingDays {
        let first: NaiveDate = "2026-01-01".parse().unwrap();
        let holidays = holidays.into_iter().map(|day| first + Days::new(day)).collect();
        WorkingDays { days, holidays }
    }
}

proptest! {
    /// The end is on a working day, later than its beginning, and one more day ends later.
    #[test]
    fn each_working_day_is_later_than_the_one_before(
        calendar in a_calendar(),
        minutes in 0_i64..200_000,
        count in 1_u32..20,
        zone in prop::sample::select(vec![Tz::UTC, Tz::Europe__Berlin, Tz::Pacific__Auckland, Tz::America__New_York]),
    ) {
        let since = at("2026-01-01T00:00:00Z") + TimeDelta::minutes(minutes);
        let end = calendar.later(zone, since, count).unwrap();
        prop_assert!(end > since);
        let passed = (end.with_timezone(&zone).date_naive() - since.with_timezone(&zone).date_naive()).num_days();
        prop_assert!(u64::try_from(passed).unwrap() >= calendar.fewest_days(count));
        prop_assert!(calendar.contains(end.with_timezone(&zone).date_naive()));
        prop_assert!(calendar.later(zone, since, count + 1).unwrap() > end);
        // As many working days as were asked for lie behind the first date, up to the last one.
        let (first, last) = (since.with_timezone(&zone).date_naive(), end.with_timezone(&zone).date_naive());
        let working = first.iter_days().skip(1).take_while(|date| *date <= last);
        let working = working.filter(|date| calendar.contains(*date)).count();
        prop_assert_eq!(working, usize::try_from(count).unwrap());
    }
}
