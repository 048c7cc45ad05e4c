//! Dates, times of a day, weekdays and names of time zones.

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};
use winnow::stream::Stream as _;

use crate::line_parser::{
    Input, Parsed, choice, is_same_word, miss, phrase, refuse, refuse_at, take_word, tokens_left,
    with_need,
};

const ZONE: &str = "a time zone such as `Europe/Berlin` or `UTC`";
const TIME: &str = "a time such as `9:00` or `2:30 pm`";

const DAYS: &[(&str, &str)] = &[
    ("monday", "monday"),
    ("tuesday", "tuesday"),
    ("wednesday", "wednesday"),
    ("thursday", "thursday"),
    ("friday", "friday"),
    ("saturday", "saturday"),
    ("sunday", "sunday"),
];

/// A date, with its time and offset as far as they are written.
pub(crate) struct Moment {
    /// `2026-12-24`, `2026-12-24T09:00` or `2026-12-24T09:00:00Z`.
    pub(crate) text: String,
    pub(crate) has_offset: bool,
}

/// Reads `2026-12-24`, `2026-12-24 09:00`, `2026-12-24T09:00` or an instant with an offset.
pub(crate) fn moment(input: &mut Input<'_>) -> Parsed<Moment> {
    let need = "a date such as `2026-12-24`";
    let start = tokens_left(input);
    let word = take_word(input, need, |word| {
        let is_like_date = word.get(..10).is_some_and(is_shaped_as_date);
        is_like_date.then_some(word)
    })?;
    let (date, rest) = word.split_at(10);
    if NaiveDate::parse_from_str(date, "%Y-%m-%d").is_err() {
        let message = "This day is not in the calendar; write a date such as `2026-12-24`";
        return refuse_at(input, start, message);
    }
    if rest.is_empty() {
        let time = opt(preceded(opt(phrase(&["at"])), time_of_day)).parse_next(input)?;
        let text = time.map_or_else(|| date.to_owned(), |time| format!("{date}T{time}"));
        return Ok(Moment {
            text,
            has_offset: false,
        });
    }
    let has_offset = DateTime::parse_from_rfc3339(word).is_ok();
    let mut forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"].into_iter();
    // The pattern also reads an hour of one digit, which ISO 8601 does not have.
    let is_local = matches!(word.len(), 16 | 19)
        && forms.any(|form| NaiveDateTime::parse_from_str(word, form).is_ok());
    if !has_offset && !is_local {
        let message = "Write a time as `2026-12-24T09:00`, or as an instant `2026-12-24T09:00:00Z`";
        return refuse_at(input, start, message);
    }
    Ok(Moment {
        text: word.to_owned(),
        has_offset,
    })
}

/// Reads `monday` to `sunday`.
pub(crate) fn weekday(input: &mut Input<'_>) -> Parsed<&'static str> {
    if opt(phrase(&["next", "this", "coming"]))
        .parse_next(input)?
        .is_some()
    {
        let message = "Write the day alone, such as `Wait until Monday`: it is the next such day";
        return refuse(input, message);
    }
    with_need("a weekday such as `Monday`", choice(DAYS))(input)
}

/// Reads `9:00`, `9 am`, `2:30 pm` or `noon`, and gives `HH:MM`.
pub(crate) fn time_of_day(input: &mut Input<'_>) -> Parsed<String> {
    let noon = phrase(&["noon"]).value("12:00".to_owned());
    alt((noon, clock_time)).parse_next(input)
}

/// Reads the name of a time zone of the IANA database. Whether it exists is checked when the agent is applied.
pub(crate) fn time_zone(input: &mut Input<'_>) -> Parsed<String> {
    take_word(input, ZONE, |word| {
        let is_part = |part: &str| {
            let begins = part.starts_with(|c: char| c.is_ascii_alphabetic());
            begins
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_+-".contains(c))
        };
        let is_zone = (word.contains('/') && word.split('/').all(is_part)) || word == "UTC";
        is_zone.then(|| word.to_owned())
    })
}

fn clock_time(input: &mut Input<'_>) -> Parsed<String> {
    let start = input.checkpoint();
    let time = read_clock_time(input);
    if time.is_err() {
        input.reset(&start);
    }
    time
}

fn read_clock_time(input: &mut Input<'_>) -> Parsed<String> {
    let before = tokens_left(input);
    let word = take_word(input, TIME, |word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            .then_some(word)
    })?;
    let end = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
    let (digits, suffix) = word.split_at(end);
    let half = match suffix {
        "" => opt(choice(&[("am", Half::Morning), ("pm", Half::Evening)])).parse_next(input)?,
        am if is_same_word(am, "am") => Some(Half::Morning),
        pm if is_same_word(pm, "pm") => Some(Half::Evening),
        _ => return miss(input, TIME),
    };
    let (hour, minute) = match (digits.split_once(':'), half) {
        (Some((hour, minute)), _) => (hour, minute),
        (None, Some(_)) => (digits, "00"),
        // `at 9` could be the morning or the evening.
        (None, None) => return miss(input, "`am`, `pm` or a time such as `9:00`"),
    };
    let is_two_digits = minute.len() == 2;
    let hour = number_below(hour, 24).and_then(|hour| Half::hour(half, hour));
    match (hour, number_below(minute, 60)) {
        (Some(hour), Some(minute)) if is_two_digits => Ok(format!("{hour:02}:{minute:02}")),
        (Some(_) | None, _) => {
            let message = "This is not a time of the day; write for example `9:00` or `2:30 pm`";
            refuse_at(input, before, message)
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Half {
    Morning,
    Evening,
}

impl Half {
    /// The hour from 0 to 23.
    const fn hour(half: Option<Self>, hour: u32) -> Option<u32> {
        match (half, hour) {
            (None, _) => Some(hour),
            (Some(_), 0 | 13..) => None,
            (Some(Self::Morning), 12) => Some(0),
            (Some(Self::Evening), 12) => Some(12),
            (Some(Self::Morning), _) => Some(hour),
            (Some(Self::Evening), _) => Some(hour + 12),
        }
    }
}

/// One or two digits.
fn number_below(digits: &str, limit: u32) -> Option<u32> {
    let is_number = digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse::<u32>().ok().filter(|_| is_number)?;
    (number < limit).then_some(number)
}

fn is_shaped_as_date(text: &str) -> bool {
    let is_expected = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.bytes().enumerate().all(is_expected)
}
