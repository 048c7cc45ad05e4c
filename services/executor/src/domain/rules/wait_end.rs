//! When a wait until a date, a weekday or a placeholder ends.

use chrono::{DateTime, Datelike as _, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
use chrono::{MappedLocalTime, TimeZone as _};
use chrono_tz::Tz;
use holdpoint_contracts::duration::{self, MAX_WAIT};
use serde_json::Value;

use crate::domain::model::plan::wait_until::{Until, WaitUntil, read_local};
use crate::domain::text::cut;

/// Code of a wait whose end is not a duration, a date or a time.
pub(crate) const INVALID_WAIT: &str = "invalid_wait";

/// Code of a wait that is longer than 90 days.
pub(crate) const WAIT_TOO_LONG: &str = "wait_too_long";

/// Longest step of a change to or from daylight saving time, in minutes.
const GAP_MINUTES_MAX: i64 = 24 * 60;

/// Why a wait has no end: a stable code and a sentence.
pub(crate) type WaitError = (&'static str, String);

/// The instant at which the wait ends. An instant that has passed is valid: the wait is over at once.
pub(crate) fn wait_end(
    wait: &WaitUntil,
    resolved: &Value,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>, WaitError> {
    let zone = wait.time_zone.parse::<Tz>().unwrap_or(Tz::UTC);
    let end = match &wait.until {
        Until::Weekday { day, minutes } => {
            let today = now.with_timezone(&zone).date_naive();
            let ahead = day.days_since(today.weekday());
            let time = time_of(*minutes);
            let on = |days: u32| instant_in(zone, add_days(today, days).and_time(time));
            let first = on(ahead);
            if first > now { first } else { on(ahead + 7) }
        }
        Until::Text(_) => {
            let text = resolved.get("until").and_then(Value::as_str);
            let written = resolved.get("until").unwrap_or(&Value::Null);
            let text = text
                .map(str::trim)
                .ok_or_else(|| invalid(&written.to_string()))?;
            read_end(text, zone, now).ok_or_else(|| invalid(text))?
        }
    };
    let longest = TimeDelta::from_std(MAX_WAIT).unwrap_or(TimeDelta::MAX);
    if end - now > longest {
        let end = holdpoint_contracts::instant::write(end);
        let message = format!("the wait would last until {end}, and at most 90 days are allowed");
        return Err((WAIT_TOO_LONG, message));
    }
    Ok(end)
}

/// The instant that a text names: a duration from now, an instant with an offset, or a date or time in the zone.
fn read_end(text: &str, zone: Tz, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if let Ok(length) = duration::parse(text) {
        // Too long for the calendar is too long for a wait.
        let length = TimeDelta::from_std(length).ok()?;
        return Some(
            now.checked_add_signed(length)
                .unwrap_or(DateTime::<Utc>::MAX_UTC),
        );
    }
    let instant = DateTime::parse_from_rfc3339(text).ok();
    let instant = instant.map(|instant| instant.with_timezone(&Utc));
    instant.or_else(|| Some(instant_in(zone, read_local(text)?)))
}

/// A local time as an instant. A time that the clocks show twice is the first one. A time that they skip is the first
/// instant after it.
fn instant_in(zone: Tz, local: NaiveDateTime) -> DateTime<Utc> {
    let at = |local: &NaiveDateTime| match zone.from_local_datetime(local) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => {
            Some(at.with_timezone(&Utc))
        }
        MappedLocalTime::None => None,
    };
    let mut later = (0..=GAP_MINUTES_MAX).filter_map(|minutes| {
        let local = local.checked_add_signed(TimeDelta::minutes(minutes))?;
        at(&local)
    });
    later.next().unwrap_or_else(|| local.and_utc())
}

fn add_days(date: NaiveDate, days: u32) -> NaiveDate {
    date.checked_add_days(Days::new(u64::from(days)))
        .unwrap_or(NaiveDate::MAX)
}

fn time_of(minutes: u32) -> NaiveTime {
    NaiveTime::from_hms_opt(minutes / 60, minutes % 60, 0).unwrap_or(NaiveTime::MIN)
}

fn invalid(text: &str) -> WaitError {
    let text = cut(text, 100);
    let message = format!(
        "`{text}` is not the end of a wait; expected a duration such as `5 days`, a date such as `2026-12-24`, \
         or a time such as `2026-12-24T09:00`"
    );
    (INVALID_WAIT, message)
}

#[cfg(test)]
mod tests;
