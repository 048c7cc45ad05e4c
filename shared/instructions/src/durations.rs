//! Lengths of time and small numbers in words: `5 days`, `1d12h`, `two hours`.

use std::time::Duration;

use holdpoint_contracts::duration::{self, MAX_WAIT};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded, repeat};
use winnow::stream::Stream as _;

use crate::line_parser::{
    Input, Parsed, choice, is_same_word, phrase, refuse_at, take_word, tokens_left,
};

/// The shortest wait.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// Most digits of a count. A larger number is not a number of things.
const DIGITS_MAX: usize = 12;

const DURATION: &str = "a duration such as `5 days` or `1d12h`";

/// A unit with its long name.
struct Unit {
    length: Duration,
    name: &'static str,
}

const UNITS: [Unit; 6] = [
    Unit {
        length: Duration::from_hours(7 * 24),
        name: "week",
    },
    Unit {
        length: Duration::from_hours(24),
        name: "day",
    },
    Unit {
        length: Duration::from_hours(1),
        name: "hour",
    },
    Unit {
        length: Duration::from_mins(1),
        name: "minute",
    },
    Unit {
        length: Duration::from_secs(1),
        name: "second",
    },
    Unit {
        length: Duration::from_millis(1),
        name: "millisecond",
    },
];

const NUMBERS: [(&str, u64); 14] = [
    ("a", 1),
    ("an", 1),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
];

/// A number with its unit.
struct Part {
    number: String,
    unit: &'static Unit,
}

/// Reads a duration from 1 second to 90 days, and gives it in long words: `1 day 12 hours`.
pub(crate) fn duration(input: &mut Input<'_>) -> Parsed<String> {
    let start = tokens_left(input);
    let mut parts = part_group(input)?;
    let more: Vec<Vec<Part>> =
        repeat(0.., preceded(opt(phrase(&["and"])), part_group)).parse_next(input)?;
    parts.extend(more.into_iter().flatten());
    let is_descending = parts.windows(2).all(|pair| match pair {
        [before, after] => before.unit.length > after.unit.length,
        _ => true,
    });
    if !is_descending {
        let message = "Write the parts of a duration from long to short, such as `1 day 12 hours`";
        return refuse_at(input, start, message);
    }
    let words: Vec<String> = parts.iter().map(Part::words).collect();
    let words = words.join(" ");
    let is_allowed = |length: &Duration| (MIN_WAIT..=MAX_WAIT).contains(length);
    if duration::parse(&words).is_ok_and(|length| is_allowed(&length)) {
        return Ok(words);
    }
    let message = "A duration has from 1 second to 90 days";
    refuse_at(input, start, message)
}

/// Reads the length of a period: a duration, or a unit alone such as `day`.
pub(crate) fn period(input: &mut Input<'_>) -> Parsed<String> {
    let unit = choice(&[
        ("second", "1 second"),
        ("minute", "1 minute"),
        ("hour", "1 hour"),
        ("day", "1 day"),
        ("week", "1 week"),
    ]);
    alt((unit.map(str::to_owned), duration)).parse_next(input)
}

/// A whole number: digits, or a word from `one` to `twelve`.
pub(crate) fn count(input: &mut Input<'_>) -> Parsed<u64> {
    take_word(input, "a number", read_count)
}

fn read_count(word: &str) -> Option<u64> {
    let named = NUMBERS.iter().find(|(name, _)| is_same_word(word, name));
    let digits = || {
        let is_number = word.len() <= DIGITS_MAX && word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| is_number)
    };
    named.map(|(_, value)| *value).or_else(digits)
}

/// `5 days`, or several parts in one word such as `1d12h`.
fn part_group(input: &mut Input<'_>) -> Parsed<Vec<Part>> {
    alt((compact_parts, spaced_part.map(|part| vec![part]))).parse_next(input)
}

fn compact_parts(input: &mut Input<'_>) -> Parsed<Vec<Part>> {
    take_word(input, DURATION, |word| {
        let mut parts = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let (number, after) = split_number(rest);
            let end = after
                .find(|c: char| !c.is_alphabetic())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            parts.push(Part::read(number, unit)?);
            rest = after;
        }
        Some(parts)
    })
}

fn spaced_part(input: &mut Input<'_>) -> Parsed<Part> {
    let start = input.checkpoint();
    let number = take_word(input, DURATION, |word| {
        let (number, after) = split_number(word);
        let digits = (!number.is_empty() && after.is_empty()).then(|| number.to_owned());
        digits.or_else(|| read_count(word).map(|count| count.to_string()))
    })?;
    let unit = "a unit such as `minutes`, `hours` or `days`";
    let part = take_word(input, unit, |unit| Part::read(&number, unit));
    if part.is_err() {
        input.reset(&start);
    }
    part
}

fn split_number(word: &str) -> (&str, &str) {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.');
    word.split_at(end.unwrap_or(word.len()))
}

impl Part {
    fn read(number: &str, unit: &str) -> Option<Self> {
        // The names of units are those of every duration.
        let length = duration::parse(&format!("1{unit}")).ok()?;
        let unit = UNITS.iter().find(|known| known.length == length)?;
        let part = Self {
            number: number.to_owned(),
            unit,
        };
        duration::parse(&part.words()).ok().map(|_length| part)
    }

    fn words(&self) -> String {
        let plural = if self.number == "1" { "" } else { "s" };
        format!("{} {}{plural}", self.number, self.unit.name)
    }
}
