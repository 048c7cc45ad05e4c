//! Instants and durations in milliseconds.

use chrono::{DateTime, TimeDelta, Utc};

/// Time from `from` to `to` in whole milliseconds; none if it has passed.
#[must_use]
pub fn millis_between(from: DateTime<Utc>, to: DateTime<Utc>) -> u64 {
    u64::try_from((to - from).num_milliseconds()).unwrap_or(0)
}

/// The instant `ms` milliseconds after `from`; the last there is, if that is out of range.
#[must_use]
pub fn after(from: DateTime<Utc>, ms: u64) -> DateTime<Utc> {
    i64::try_from(ms)
        .ok()
        .and_then(TimeDelta::try_milliseconds)
        .and_then(|length| from.checked_add_signed(length))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}
