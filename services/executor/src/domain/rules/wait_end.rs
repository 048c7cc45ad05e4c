//! When a wait until a date, a weekday or a placeholder ends.

use chrono::{DateTime, Datelike as _, Days, NaiveDate, NaiveTime, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_calendar::{WorkingDays, first_instant};
use holdpoint_contracts::duration::{self, MAX_WAIT};
use holdpoint_contracts::instant;
use serde_json::Value;

use crate::domain::model::plan::wait_until::{Until, WaitUntil, read_local};
use crate::domain::text::cut;

/// Code of a wait whose end is not a duration, a date or a time.
pub(crate) const INVALID_WAIT: &str = "invalid_wait";

/// Code of a wait that is longer than 90 days.
pub(crate) const WAIT_TOO_LONG: &str = "wait_too_long";

/// Why a wait has no end: a stable code and a sentence.
pub(crate) type WaitError = (&'static str, String);

/// The instant at which the wait ends. An instant that has passed is valid: the wait is over at once.
pub(crate) fn wait_end(
    wait: &WaitUntil,
    working_days: &WorkingDays,
    resolved: &Value,
    now: DateTime<Utc>,
) -> Result<DateTime<Utc>, WaitError> {
    let zone = wait.time_zone.parse::<Tz>().unwrap_or(Tz::UTC);
    let end = match &wait.until {
        Until::Weekday { day, minutes } => {
            let today = now.with_timezone(&zone).date_naive();
            let ahead = day.days_since(today.weekday());
            let time = time_of(*minutes);
            let on = |days: u32| first_instant(zone, add_days(today, days).and_time(time));
            let first = on(ahead);
            if first > now { first } else { on(ahead + 7) }
        }
        Until::BusinessDays(count) => working_days
            .later(zone, now, *count)
            .ok_or_else(|| too_few_days(*count))?,
        Until::Text(_) => {
            let written = resolved.get("until").unwrap_or(&Value::Null);
            let text = written.as_str().map(str::trim);
            let text = text.ok_or_else(|| invalid(&written.to_string()))?;
            read_end(text, zone, now).ok_or_else(|| invalid(text))?
        }
    };
    let longest = TimeDelta::from_std(MAX_WAIT).unwrap_or(TimeDelta::MAX);
    if end - now > longest {
        let end = instant::write(end);
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
    instant.or_else(|| Some(first_instant(zone, read_local(text)?)))
}

fn add_days(date: NaiveDate, days: u32) -> NaiveDate {
    date.checked_add_days(Days::new(u64::from(days)))
        .unwrap_or(NaiveDate::MAX)
}

fn time_of(minutes: u32) -> NaiveTime {
    NaiveTime::from_hms_opt(minutes / 60, minutes % 60, 0).unwrap_or(NaiveTime::MIN)
}

fn too_few_days(count: u32) -> WaitError {
    let message = format!(
        "the calendar of the agent has fewer than {count} business days within a year, and a wait has at most 90 days"
    );
    (WAIT_TOO_LONG, message)
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
