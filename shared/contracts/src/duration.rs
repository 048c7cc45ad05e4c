//! Durations as people write and read them.
//!
//! Owns the one grammar for durations in agents, requests and commands (API.md, "Durations
//! everywhere"), the text in which they are shown, and their form on the wire (milliseconds).
//! It must never round: a text that is not a whole number of milliseconds is refused, so that
//! what was written is what is waited.

use std::time::Duration;

/// The longest wait, inclusive: 90 days, 7 776 000 000 ms. Longer is refused when the plan is
/// made (S0-AC8), and the same bound holds for questions (S3-R1).
pub const MAX_WAIT: Duration = Duration::from_millis(7_776_000_000);

/// Longest text that is looked at, in bytes.
const MAX_TEXT: usize = 100;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// Every accepted unit in lower case, with its length in milliseconds.
const UNITS: [(u64, &[&str]); 6] = [
    (1, &["ms", "millisecond", "milliseconds"]),
    (SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (MINUTE, &["m", "min", "mins", "minute", "minutes"]),
    (HOUR, &["h", "hr", "hrs", "hour", "hours"]),
    (DAY, &["d", "day", "days"]),
    (WEEK, &["w", "week", "weeks"]),
];

/// Units in which a duration is shown, with their long and short names. Weeks are not used: 7 days stays `7 days`.
const SHOWN: [(u64, &str, &str); 5] = [
    (DAY, "day", "d"),
    (HOUR, "hour", "h"),
    (MINUTE, "minute", "m"),
    (SECOND, "second", "s"),
    (1, "millisecond", "ms"),
];

/// Why a text is not a duration. Every message says what is allowed, and quotes at most one word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("the duration is empty; write a number and a unit, for example `5 days` or `1d12h`")]
    Empty,
    /// Longer than any sensible duration, so it was not read.
    #[error("the duration is longer than {MAX_TEXT} characters; write for example `1d12h`")]
    TooLong,
    /// A number without a unit could be seconds or milliseconds, so it is not guessed.
    #[error("`{number}` has no unit; add one of ms, s, m, h, d, w, for example `{number}s`")]
    MissingUnit { number: String },
    /// Something other than a number, for example a sign or a word.
    #[error("expected a number instead of `{found}`; write for example `5 days` or `1d12h`")]
    MissingNumber { found: String },
    /// A word after a number that is not a unit of fixed length, such as a month.
    #[error(
        "invalid unit `{unit}`; expected ms, s, m, h, d, w or milliseconds, seconds, minutes, hours, days, weeks"
    )]
    UnknownUnit { unit: String },
    /// A decimal that is not a whole number of milliseconds.
    #[error("`{number}{unit}` is not a whole number of milliseconds; use a smaller unit")]
    NotExact { number: String, unit: String },
    /// More milliseconds than 64 bits hold.
    #[error("the duration is too large")]
    TooLarge,
}

/// Reads a duration, exact to the millisecond: `350ms`, `5 days`, `1d12h`, `1 day 12 hours`,
/// `1.5h`. Letter case and white space between parts do not matter.
///
/// # Errors
/// [`DurationError`] for a text without a unit, with an unknown one, or that is not a whole number
/// of milliseconds in 64 bits. Zero is a duration; whether it is allowed is for the caller.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    if text.len() > MAX_TEXT {
        return Err(DurationError::TooLong);
    }
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let (unit, after) = split_word(after.trim_start());
        let part_ms = part_ms(number, unit)?;
        total_ms = total_ms
            .checked_add(part_ms)
            .ok_or(DurationError::TooLarge)?;
        rest = after.trim_start();
    }
    Ok(Duration::from_millis(total_ms))
}

/// Shows a duration by its two largest units that are not zero: `5 days`, `2 days 4 hours`,
/// `1 minute 30 seconds`, `350 milliseconds`. What is smaller is cut, never rounded up, so that
/// a text never promises more time than is left. Nothing at all is `0 seconds`.
///
/// Used in `Agent paused. Will resume in 5 days.` (S0-AC1).
#[must_use]
pub fn describe(duration: Duration) -> String {
    let mut rest_ms = duration.as_millis();
    let mut shown = Vec::with_capacity(2);
    for (unit_ms, name, _short) in SHOWN {
        let count = rest_ms / u128::from(unit_ms);
        rest_ms %= u128::from(unit_ms);
        if count > 0 && shown.len() < 2 {
            let plural = if count == 1 { "" } else { "s" };
            shown.push(format!("{count} {name}{plural}"));
        }
    }
    if shown.is_empty() {
        return "0 seconds".to_owned();
    }
    shown.join(" ")
}

/// Writes milliseconds so that [`parse`] reads the same again: `30m`, `1d12h`, `1s500ms`.
#[must_use]
pub fn exact(ms: u64) -> String {
    let mut rest = ms;
    let mut text = String::new();
    for (unit_ms, _long, name) in SHOWN {
        let count = rest / unit_ms;
        rest %= unit_ms;
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
        }
    }
    if text.is_empty() {
        return "0s".to_owned();
    }
    text
}

/// A number at the start, with at most one decimal point between digits.
fn split_number(text: &str) -> Result<(&str, &str), DurationError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let mut parts = number.split('.');
    let whole_is_missing = parts.next().is_none_or(str::is_empty);
    let fraction_is_missing = parts.next().is_some_and(str::is_empty);
    if whole_is_missing || fraction_is_missing || parts.next().is_some() {
        let found = text.split_whitespace().next().unwrap_or(text);
        return Err(DurationError::MissingNumber {
            found: found.to_owned(),
        });
    }
    Ok((number, rest))
}

/// All up to the next digit or white space, which is the unit or the mistake to show.
fn split_word(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| c.is_ascii_digit() || c.is_whitespace())
        .unwrap_or(text.len());
    text.split_at(end)
}

fn part_ms(number: &str, unit: &str) -> Result<u64, DurationError> {
    if unit.is_empty() {
        return Err(DurationError::MissingUnit {
            number: number.to_owned(),
        });
    }
    let lower = unit.to_lowercase();
    let unit_ms = UNITS
        .iter()
        .find(|(_, names)| names.contains(&lower.as_str()))
        .map(|(unit_ms, _)| u128::from(*unit_ms))
        .ok_or_else(|| DurationError::UnknownUnit {
            unit: unit.to_owned(),
        })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let scaled_ms = digits(&[whole, fraction])
        .and_then(|scaled| scaled.checked_mul(unit_ms))
        .ok_or(DurationError::TooLarge)?;
    let scale = u32::try_from(fraction.len())
        .ok()
        .and_then(|places| 10_u128.checked_pow(places))
        .ok_or(DurationError::TooLarge)?;
    if scaled_ms % scale != 0 {
        return Err(DurationError::NotExact {
            number: number.to_owned(),
            unit: unit.to_owned(),
        });
    }
    u64::try_from(scaled_ms / scale)
        .ok()
        .ok_or(DurationError::TooLarge)
}

/// The value of ASCII digits read one after the other; `None` when 128 bits do not hold it.
fn digits(parts: &[&str]) -> Option<u128> {
    parts
        .iter()
        .flat_map(|part| part.chars())
        .filter_map(|c| c.to_digit(10))
        .try_fold(0_u128, |value, digit| {
            value.checked_mul(10)?.checked_add(u128::from(digit))
        })
}

/// Milliseconds as people write them in JSON (`"30m"`, `"1d12h"`), for `#[serde(with =
/// "duration::text")]`: what is shown can be sent back.
pub mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes a duration, exact to the millisecond.
    ///
    /// # Errors
    /// Never by itself.
    pub fn serialize<S: Serializer>(ms: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::exact(*ms))
    }

    /// Reads a duration.
    ///
    /// # Errors
    /// As [`super::parse`].
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        parse(&String::deserialize(from)?)
    }

    fn parse<E: Error>(text: &str) -> Result<u64, E> {
        let time = super::parse(text).map_err(E::custom)?;
        u64::try_from(time.as_millis()).map_err(E::custom)
    }

    /// The same where there may be none.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        /// Writes a duration, or null.
        ///
        /// # Errors
        /// Never by itself.
        pub fn serialize<S: Serializer>(ms: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
            match ms {
                Some(ms) => super::serialize(ms, to),
                None => to.serialize_none(),
            }
        }

        /// Reads a duration, or none.
        ///
        /// # Errors
        /// As [`super::deserialize`].
        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| super::parse(&text)).transpose()
        }
    }
}

#[cfg(test)]
mod tests;
