use chrono::Weekday;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn until(text: &str, zone: &str, now: &str) -> Result<DateTime<Utc>, WaitError> {
    let wait = WaitUntil {
        until: Until::Text(text.to_owned()),
        time_zone: zone.to_owned(),
    };
    wait_end(
        &wait,
        &WorkingDays::default(),
        &json!({ "until": text }),
        at(now),
    )
}

fn weekday(day: Weekday, minutes: u32, zone: &str, now: &str) -> DateTime<Utc> {
    let wait = WaitUntil {
        until: Until::Weekday { day, minutes },
        time_zone: zone.to_owned(),
    };
    wait_end(&wait, &WorkingDays::default(), &Value::Null, at(now)).unwrap()
}

/// Gate 4: dates and times count in their zone, and instants with an offset in theirs.
#[test]
fn a_date_is_midnight_of_its_zone() {
    let now = "2026-12-01T12:00:00Z";
    for (text, zone, end) in [
        ("2026-12-24", "UTC", "2026-12-24T00:00:00Z"),
        ("2026-12-24", "Europe/Berlin", "2026-12-23T23:00:00Z"),
        ("2026-12-24T09:30", "Europe/Berlin", "2026-12-24T08:30:00Z"),
        (
            "2026-12-24 09:30:15",
            "America/New_York",
            "2026-12-24T14:30:15Z",
        ),
        (
            "2026-12-24T09:30:00+05:30",
            "Europe/Berlin",
            "2026-12-24T04:00:00Z",
        ),
        ("2 days", "Europe/Berlin", "2026-12-03T12:00:00Z"),
        ("2026-11-01", "UTC", "2026-11-01T00:00:00Z"),
    ] {
        assert_eq!(until(text, zone, now), Ok(at(end)), "{text} {zone}");
    }
}

/// Gate 4: a time that the clocks skip ends right after the gap, and one that they show twice the first time.
#[test]
fn changes_of_the_clocks_have_one_end() {
    let now = "2026-03-01T00:00:00Z";
    let skipped = until("2026-03-29T02:30", "Europe/Berlin", now);
    assert_eq!(skipped, Ok(at("2026-03-29T01:00:00Z")));
    let twice = until("2026-10-25T02:30", "Europe/Berlin", "2026-09-01T00:00:00Z");
    assert_eq!(twice, Ok(at("2026-10-25T00:30:00Z")));
}

#[test]
fn a_weekday_is_the_next_one() {
    // A Wednesday.
    let now = "2026-11-25T10:00:00Z";
    for (day, minutes, end) in [
        (Weekday::Thu, 0, "2026-11-25T23:00:00Z"),
        (Weekday::Wed, 9 * 60, "2026-12-02T08:00:00Z"),
        (Weekday::Wed, 12 * 60, "2026-11-25T11:00:00Z"),
        (Weekday::Tue, 9 * 60, "2026-12-01T08:00:00Z"),
    ] {
        assert_eq!(weekday(day, minutes, "Europe/Berlin", now), at(end));
    }
    // Exactly now is over: the next week counts.
    let next = weekday(Weekday::Wed, 11 * 60, "Europe/Berlin", now);
    assert_eq!(next, at("2026-12-02T10:00:00Z"));
}

/// Words 4: holidays of the calendar do not count, and add to the length of the wait.
#[test]
fn business_days_end_at_the_same_local_time() {
    let wait = |count| WaitUntil {
        until: Until::BusinessDays(count),
        time_zone: "Europe/Berlin".to_owned(),
    };
    let mut days = WorkingDays::default();
    // A Wednesday.
    let now = at("2026-11-25T10:00:00Z");
    let end = |days: &WorkingDays, count| wait_end(&wait(count), days, &Value::Null, now);
    assert_eq!(end(&days, 2), Ok(at("2026-11-27T10:00:00Z")));
    assert_eq!(end(&days, 3), Ok(at("2026-11-30T10:00:00Z")));
    days.holidays.insert("2026-11-30".parse().unwrap());
    assert_eq!(end(&days, 3), Ok(at("2026-12-01T10:00:00Z")));
    assert!(end(&days, 60).is_ok());
    assert_eq!(end(&days, 70).unwrap_err().0, WAIT_TOO_LONG);
    days.days = std::iter::once(holdpoint_contracts::handoff::Weekday::Sun).collect();
    assert_eq!(end(&days, 70).unwrap_err().0, WAIT_TOO_LONG);
}

/// S0-AC8: at most 90 days, inclusive.
#[test]
fn a_wait_that_is_too_long_or_has_no_end_is_refused() {
    let now = "2026-01-01T00:00:00Z";
    assert!(until("2026-04-01", "UTC", now).is_ok());
    let (code, message) = until("2026-04-01T00:00:01", "UTC", now).unwrap_err();
    assert_eq!(code, WAIT_TOO_LONG);
    assert!(message.contains("2026-04-01T00:00:01"), "{message}");
    for text in ["9999-12-31", "300000d"] {
        assert_eq!(
            until(text, "UTC", now).unwrap_err().0,
            WAIT_TOO_LONG,
            "{text}"
        );
    }
    for text in ["", "soon", "2026-02-30", "5", "-3 days", &"9".repeat(1_000)] {
        let (code, message) = until(text, "UTC", now).unwrap_err();
        assert_eq!(code, INVALID_WAIT, "{text}");
        assert!(message.chars().count() < 300);
    }
    let wait = WaitUntil {
        until: Until::Text("$input.when".to_owned()),
        time_zone: "UTC".to_owned(),
    };
    for value in [json!(5), json!(null), json!({ "a": 1 })] {
        let resolved = json!({ "until": value });
        assert_eq!(
            wait_end(&wait, &WorkingDays::default(), &resolved, at(now))
                .unwrap_err()
                .0,
            INVALID_WAIT
        );
    }
}

proptest! {
    /// Total: each text and zone has an end of at most 90 days, or a named error.
    #[test]
    fn each_text_has_an_end_or_an_error(text in ".{0,30}", now in 0_i64..4_000_000_000) {
        let now = DateTime::from_timestamp(now, 0).unwrap();
        let wait = WaitUntil { until: Until::Text(text.clone()), time_zone: "Asia/Kathmandu".to_owned() };
        if let Ok(end) = wait_end(&wait, &WorkingDays::default(), &json!({ "until": text }), now) {
            prop_assert!(end - now <= TimeDelta::days(90));
        }
    }

    /// The next weekday is later than now, at most a week and an hour away, and on that day in its zone.
    #[test]
    fn each_weekday_is_within_a_week(day in 0_u8..7, minutes in 0_u32..1_440, now in 0_i64..4_000_000_000) {
        let now = DateTime::from_timestamp(now, 0).unwrap();
        let day = Weekday::try_from(day).unwrap();
        let wait = WaitUntil { until: Until::Weekday { day, minutes }, time_zone: "America/Sao_Paulo".to_owned() };
        let end = wait_end(&wait, &WorkingDays::default(), &Value::Null, now).unwrap();
        prop_assert!(end > now && end - now <= TimeDelta::days(7) + TimeDelta::hours(1));
        prop_assert_eq!(end.with_timezone(&Tz::America__Sao_Paulo).weekday(), day);
    }
}
