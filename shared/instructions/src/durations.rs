//! Lengths of time and small numbers in words: `5 days`, `1d12h`, `two hours`.

use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded, repeat};
use winnow::stream::Stream as _;

use crate::line_parser::{Input, Parsed, is_same_word, phrase, refuse_at, take_word, tokens_left};

/// The longest wait, inclusive: 90 days, in milliseconds.
const WAIT_MS_MAX: u128 = 7_776_000_000;

/// The shortest wait, in milliseconds.
const WAIT_MS_MIN: u128 = 1_000;

/// Most digits of a number, so that its milliseconds are exact in 128 bits.
const DIGITS_MAX: usize = 12;

const DURATION: &str = "a duration such as `5 days` or `1d12h`";

/// A unit with its milliseconds and its spellings. The first two are one and several.
struct Unit {
    ms: u128,
    spellings: &'static [&'static str],
}

/// From long to short, as the parts of a duration are written.
const UNITS: [Unit; 6] = [
    Unit {
        ms: 604_800_000,
        spellings: &["week", "weeks", "w"],
    },
    Unit {
        ms: 86_400_000,
        spellings: &["day", "days", "d"],
    },
    Unit {
        ms: 3_600_000,
        spellings: &["hour", "hours", "h", "hr", "hrs"],
    },
    Unit {
        ms: 60_000,
        spellings: &["minute", "minutes", "m", "min", "mins"],
    },
    Unit {
        ms: 1_000,
        spellings: &["second", "seconds", "s", "sec", "secs"],
    },
    Unit {
        ms: 1,
        spellings: &["millisecond", "milliseconds", "ms"],
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
    ms: u128,
}

/// Reads a duration from 1 second to 90 days, and gives it in long words: `1 day 12 hours`.
pub(crate) fn duration(input: &mut Input<'_>) -> Parsed<String> {
    let start = tokens_left(input);
    let mut parts = part_group(input)?;
    let more: Vec<Vec<Part>> =
        repeat(0.., preceded(opt(phrase(&["and"])), part_group)).parse_next(input)?;
    parts.extend(more.into_iter().flatten());
    let is_descending = parts.windows(2).all(|pair| match pair {
        [before, after] => before.unit.ms > after.unit.ms,
        _ => true,
    });
    if !is_descending {
        let message = "Write the parts of a duration from long to short, such as `1 day 12 hours`";
        return refuse_at(input, start, message);
    }
    let ms: u128 = parts.iter().map(|part| part.ms).sum();
    if !(WAIT_MS_MIN..=WAIT_MS_MAX).contains(&ms) {
        let message = "A duration has from 1 second to 90 days";
        return refuse_at(input, start, message);
    }
    let words: Vec<String> = parts.iter().map(Part::words).collect();
    Ok(words.join(" "))
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
        let spells = |known: &&Unit| known.spellings.iter().any(|name| is_same_word(unit, name));
        let unit = UNITS.iter().find(spells)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let is_short = whole.len() + fraction.len() <= DIGITS_MAX;
        if !is_short || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = whole.parse::<u128>().ok()? * scale + fraction.parse::<u128>().ok()?;
        let scaled_ms = scaled.checked_mul(unit.ms)?;
        // A fraction of a millisecond cannot be waited.
        if scaled_ms % scale != 0 {
            return None;
        }
        Some(Self {
            number: number.to_owned(),
            unit,
            ms: scaled_ms / scale,
        })
    }

    fn words(&self) -> String {
        let [one, several, ..] = self.unit.spellings else {
            return String::new();
        };
        let name = if self.number == "1" { one } else { several };
        format!("{} {name}", self.number)
    }
}
