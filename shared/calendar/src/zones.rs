//! The time zones of the IANA database: their names, and the instants of their local times.

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

/// Longest name that is compared with the names of zones, in characters.
pub const NAME_CHARS_MAX: usize = 100;

/// Most suggestions for an unknown name.
const NEAREST_MAX: usize = 3;

/// Most changed characters between a mistyped name and a suggestion.
const TYPOS_MAX: usize = 3;

/// Longest gap in the local time of a zone, in minutes. Samoa once skipped a day.
const GAP_MINUTES_MAX: i64 = 25 * 60;

/// The first and the last instant at which clocks in a zone show a local time. They differ where clocks are put back. A
/// time that the clocks skip is the end of the gap. `None`: it is beyond the calendar.
#[must_use]
pub fn instants(zone: Tz, local: NaiveDateTime) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let mut minutes = (0..=GAP_MINUTES_MAX).map(TimeDelta::minutes);
    minutes.find_map(
        |later| match zone.from_local_datetime(&local.checked_add_signed(later)?) {
            MappedLocalTime::Single(one) => Some((one.to_utc(), one.to_utc())),
            MappedLocalTime::Ambiguous(first, last) => Some((first.to_utc(), last.to_utc())),
            MappedLocalTime::None => None,
        },
    )
}

/// The first of the [`instants`] of a local time. A time beyond the calendar is read as UTC.
#[must_use]
pub fn first_instant(zone: Tz, local: NaiveDateTime) -> DateTime<Utc> {
    instants(zone, local).map_or_else(|| local.and_utc(), |(first, _)| first)
}

/// The zone with a name.
///
/// # Errors
/// Names of zones that are near, the nearest first: they contain the text, or differ from it by a typo.
pub fn read_zone(name: &str) -> Result<Tz, Vec<String>> {
    name.parse().map_err(|_unknown| nearest(name))
}

fn nearest(name: &str) -> Vec<String> {
    let wanted = name.to_lowercase().replace(' ', "_");
    if wanted.is_empty() || wanted.chars().count() > NAME_CHARS_MAX {
        return Vec::new();
    }
    let mut near: Vec<_> = TZ_VARIANTS
        .into_iter()
        .filter_map(|zone| {
            let lower = zone.name().to_lowercase();
            let typos = strsim::osa_distance(&lower, &wanted);
            let is_near = typos <= TYPOS_MAX || lower.contains(&wanted);
            is_near.then_some((typos, zone.name()))
        })
        .collect();
    near.sort_unstable();
    let names = near.into_iter().take(NEAREST_MAX);
    names.map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(text: &str) -> NaiveDateTime {
        text.parse().unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_local_time_has_a_first_and_a_last_instant() {
        for (zone, time, first, last) in [
            (
                Tz::Europe__Berlin,
                "2026-01-10T08:00:00",
                "2026-01-10T07:00:00Z",
                "2026-01-10T07:00:00Z",
            ),
            // Clocks show it twice.
            (
                Tz::Europe__Berlin,
                "2026-10-25T02:30:00",
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
            ),
            // Clocks skip it.
            (
                Tz::Europe__Berlin,
                "2026-03-29T02:30:00",
                "2026-03-29T01:00:00Z",
                "2026-03-29T01:00:00Z",
            ),
            // A skipped day.
            (
                Tz::Pacific__Apia,
                "2011-12-30T12:00:00",
                "2011-12-30T10:00:00Z",
                "2011-12-30T10:00:00Z",
            ),
        ] {
            assert_eq!(
                instants(zone, local(time)),
                Some((at(first), at(last))),
                "{zone} {time}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_calendar_have_an_instant() {
        for time in [NaiveDateTime::MIN, NaiveDateTime::MAX] {
            for zone in [Tz::Pacific__Apia, Tz::America__New_York, Tz::UTC] {
                let apart = first_instant(zone, time).naive_utc() - time;
                assert!(apart.abs() <= TimeDelta::hours(15), "{zone} {time}");
            }
        }
    }

    #[test]
    fn an_unknown_name_has_suggestions() {
        assert_eq!(read_zone("Europe/Berlin"), Ok(Tz::Europe__Berlin));
        assert_eq!(
            read_zone("Europe/Berlinn").unwrap_err(),
            ["Europe/Berlin", "Europe/Tallinn"]
        );
        assert_eq!(read_zone("new york").unwrap_err(), ["America/New_York"]);
        assert!(read_zone("").unwrap_err().is_empty());
        assert!(read_zone(&"x".repeat(10_000)).unwrap_err().is_empty());
    }
}
