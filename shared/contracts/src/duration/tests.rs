use std::time::Duration;

use proptest::prelude::*;

use super::{DurationError, MAX_WAIT, describe, parse};

fn ms(text: &str) -> u64 {
    u64::try_from(parse(text).unwrap().as_millis()).unwrap()
}

/// S0-AC1
#[test]
fn every_way_of_writing_a_duration_is_read_exactly() {
    for (text, expected) in [
        ("350ms", 350),
        ("1s", 1_000),
        ("30m", 1_800_000),
        ("2h", 7_200_000),
        ("5d", 432_000_000),
        ("2w", 1_209_600_000),
        ("5 days", 432_000_000),
        ("1 hour", 3_600_000),
        ("2 weeks", 1_209_600_000),
        ("  1   DAY  ", 86_400_000),
        ("1d12h", 129_600_000),
        ("1D12H", 129_600_000),
        ("1 day 12 hours", 129_600_000),
        ("1day12hours", 129_600_000),
        ("1.5h", 5_400_000),
        ("0.001s", 1),
        (
            "1.50000000000000000000000000000000000000000000000000000000000m",
            90_000,
        ),
        ("0s", 0),
        ("007 minutes", 420_000),
        ("18446744073709551615ms", u64::MAX),
    ] {
        assert_eq!(ms(text), expected, "{text}");
    }
}

/// S0-AC8
#[test]
fn ninety_days_is_the_longest_wait_to_the_millisecond() {
    assert_eq!(MAX_WAIT.as_millis(), 7_776_000_000);
    assert_eq!(parse("90 days").unwrap(), MAX_WAIT);
    assert_eq!(parse("7776000000ms").unwrap(), MAX_WAIT);
    assert!(parse("90d 1ms").unwrap() > MAX_WAIT);
}

/// S0-T5
#[test]
fn the_known_limits_of_timers_are_ordinary_durations() {
    assert_eq!(ms("2147483647ms") + 1, ms("2147483648ms"));
    assert_eq!(ms("4294967295ms") + 1, ms("4294967296ms"));
    assert_eq!(describe(parse("24.8d").unwrap()), "24 days 19 hours");
    assert_eq!(describe(parse("49.7d").unwrap()), "49 days 16 hours");
}

/// S0-AC8
#[test]
fn invalid_durations_are_refused_with_a_reason() {
    let number = |number: &str| DurationError::MissingUnit {
        number: number.to_owned(),
    };
    let found = |found: &str| DurationError::MissingNumber {
        found: found.to_owned(),
    };
    let unit = |unit: &str| DurationError::UnknownUnit {
        unit: unit.to_owned(),
    };
    for (text, expected) in [
        ("", DurationError::Empty),
        (" \t ", DurationError::Empty),
        ("5", number("5")),
        ("5000", number("5000")),
        ("1d 12", number("12")),
        ("1.5", number("1.5")),
        ("-5d", found("-5d")),
        ("five days", found("five")),
        ("d", found("d")),
        ("1.h", found("1.h")),
        (".5h", found(".5h")),
        ("1.2.3h", found("1.2.3h")),
        ("5 months", unit("months")),
        ("2 business days", unit("business")),
        ("5 dayz", unit("dayz")),
        ("1d,12h", unit("d,")),
        ("18446744073709551616ms", DurationError::TooLarge),
        ("18446744073709551615ms 1ms", DurationError::TooLarge),
        (
            "99999999999999999999999999999999999999999w",
            DurationError::TooLarge,
        ),
    ] {
        assert_eq!(parse(text), Err(expected), "{text}");
    }
    assert_eq!(parse(&"1d".repeat(51)), Err(DurationError::TooLong));
    assert!(matches!(
        parse("0.0005s"),
        Err(DurationError::NotExact { .. })
    ));
    assert!(matches!(
        parse("1.5ms"),
        Err(DurationError::NotExact { .. })
    ));
}

/// S0-AC8
#[test]
fn a_number_without_a_unit_gets_a_suggestion() {
    let message = parse("30").unwrap_err().to_string();
    assert_eq!(
        message,
        "`30` has no unit; add one of ms, s, m, h, d, w, for example `30s`"
    );
}

/// S0-AC1
#[test]
fn a_duration_is_shown_by_its_two_largest_units() {
    for (text, expected) in [
        ("5d", "5 days"),
        ("2d4h", "2 days 4 hours"),
        ("2d4h59m", "2 days 4 hours"),
        ("90s", "1 minute 30 seconds"),
        ("350ms", "350 milliseconds"),
        ("1ms", "1 millisecond"),
        ("1w", "7 days"),
        ("1d1h", "1 day 1 hour"),
        ("1d 5m", "1 day 5 minutes"),
        ("59m59s999ms", "59 minutes 59 seconds"),
        ("0ms", "0 seconds"),
    ] {
        assert_eq!(describe(parse(text).unwrap()), expected, "{text}");
    }
    assert_eq!(describe(Duration::from_micros(999)), "0 seconds");
    let text = format!(
        "Agent paused. Will resume in {}.",
        describe(parse("5 days").unwrap())
    );
    assert_eq!(text, "Agent paused. Will resume in 5 days.");
}

proptest! {
    /// S0-AC8
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _outcome = parse(&text);
    }

    /// S0-AC8
    #[test]
    fn no_near_duration_makes_the_parser_panic(text in "[0-9.]{1,45} ?[a-zA-Zµ]{0,6}( [0-9.]{1,20}[smhdw]){0,2}") {
        if let Ok(duration) = parse(&text) {
            prop_assert_eq!(parse(&text.to_uppercase()), Ok(duration));
        }
    }

    /// S0-AC1
    #[test]
    fn a_described_duration_of_two_units_is_parsed_back(
        (large, small) in prop_oneof![
            (Just(86_400_000_u64), Just(3_600_000_u64), Just(90_u64)),
            (Just(3_600_000), Just(60_000), Just(24)),
            (Just(60_000), Just(1_000), Just(60)),
            (Just(1_000), Just(1), Just(60)),
        ].prop_flat_map(|(large, small, most)| (0..most, 0..large / small)
            .prop_map(move |(a, b)| (a * large, b * small)))
    ) {
        let duration = Duration::from_millis(large + small);
        let parts = describe(duration).split(' ').count();
        prop_assert!(parts == 2 || parts == 4);
        prop_assert_eq!(parse(&describe(duration)), Ok(duration));
    }

    /// S0-AC1
    #[test]
    fn a_described_duration_is_never_rounded_up(ms in any::<u64>()) {
        let duration = Duration::from_millis(ms);
        let shown = parse(&describe(duration)).unwrap();
        prop_assert!(shown <= duration);
    }

    /// S0-AC8
    #[test]
    fn parts_of_a_duration_are_added(d in 0..1_000_u64, h in 0..1_000_u64, x in 0..1_000_000_u64) {
        let expected = d * 86_400_000 + h * 3_600_000 + x;
        prop_assert_eq!(ms(&format!("{d}d{h}h{x}ms")), expected);
        prop_assert_eq!(ms(&format!("{d} days {h} Hours {x} milliseconds")), expected);
    }
}
