//! Words of waits (S0-AC1): for a time, until a date or weekday, for business days, for a reply, and for a signal.

use holdpoint_calendar::BUSINESS_DAYS_MAX;
use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};

use crate::dates::{moment, time_of_day, time_zone, weekday};
use crate::draft::{Action, text_field};
use crate::durations::{count, duration};
use crate::line_parser::{
    Input, Parsed, phrase, quoted_if, refuse_at, refused_phrase, tokens_left,
};
use crate::values::{is_name, name, placeholder};

/// Words for the working days of a calendar.
pub(crate) const BUSINESS_DAYS: &[&str] = &[
    "business day",
    "business days",
    "working day",
    "working days",
    "workday",
    "workdays",
];

/// Reads a line that begins with `wait`, `pause` or `sleep`.
pub(crate) fn wait(input: &mut Input<'_>) -> Parsed<Action> {
    alt((wait_for_reply, wait_for_signal, wait_until, wait_for_time)).parse_next(input)
}

fn wait_for_signal(input: &mut Input<'_>) -> Parsed<Action> {
    let before = phrase(&[
        "wait for signal",
        "wait for the signal",
        "wait for a signal",
        "wait until signal",
        "wait until the signal",
        "pause until signal",
        "pause until the signal",
        "await signal",
        "await the signal",
    ]);
    let named = preceded(before, signal_name);
    let after = (
        preceded(phrase(&["wait for the", "await the"]), signal_name),
        phrase(&["signal"]),
    );
    let signal = alt((named, after.map(|(signal, ())| signal))).parse_next(input)?;
    let _arrives =
        opt(phrase(&["arrives", "comes", "is received", "has arrived"])).parse_next(input)?;
    Ok(Action::Signal(signal))
}

fn signal_name(input: &mut Input<'_>) -> Parsed<String> {
    let need = "the name of a signal such as `payment`";
    let bare = name(need).map(str::to_owned);
    let quoted = quoted_if(need, is_name);
    alt((bare, quoted)).parse_next(input)
}

fn wait_until(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&[
        "wait until",
        "wait till",
        "pause until",
        "pause till",
        "pause the run until",
        "sleep until",
        "sleep till",
    ])(input)?;
    let value = alt((
        until_moment,
        until_weekday,
        placeholder.map(until_placeholder),
    ));
    value.map(Action::Wait).parse_next(input)
}

fn until_placeholder(text: String) -> Value {
    Value::Object(Map::from_iter([text_field("until", text)]))
}

fn until_moment(input: &mut Input<'_>) -> Parsed<Value> {
    let moment = moment(input)?;
    let start = tokens_left(input);
    let zone = opt(preceded(phrase(&["in"]), time_zone)).parse_next(input)?;
    if moment.has_offset && zone.is_some() {
        return refuse_at(
            input,
            start,
            "An instant with an offset has its time zone already",
        );
    }
    let zone = zone.map(|zone| text_field("time_zone", zone));
    let fields = [text_field("until", moment.text)].into_iter().chain(zone);
    Ok(Value::Object(fields.collect()))
}

fn until_weekday(input: &mut Input<'_>) -> Parsed<Value> {
    let day = weekday(input)?;
    let time = opt(preceded(opt(phrase(&["at"])), time_of_day)).parse_next(input)?;
    let zone = opt(preceded(phrase(&["in"]), time_zone)).parse_next(input)?;
    let time = time.map(|time| text_field("at", time));
    let zone = zone.map(|zone| text_field("time_zone", zone));
    let fields = [text_field("weekday", day.to_owned())]
        .into_iter()
        .chain(time)
        .chain(zone);
    Ok(Value::Object(fields.collect()))
}

fn wait_for_time(input: &mut Input<'_>) -> Parsed<Action> {
    phrase(&[
        "wait",
        "wait for",
        "wait another",
        "wait for another",
        "pause",
        "pause for",
        "pause the run for",
        "sleep",
        "sleep for",
    ])(input)?;
    let duration = duration.map(Value::String);
    let placeholder = placeholder.map(Value::String);
    alt((business_days, duration, placeholder))
        .map(Action::Wait)
        .parse_next(input)
}

fn business_days(input: &mut Input<'_>) -> Parsed<Value> {
    let start = tokens_left(input);
    let days = count(input)?;
    if opt(refused_phrase(&[
        "business hours",
        "business hour",
        "working hours",
        "office hours",
    ]))
    .parse_next(input)?
    .is_some()
    {
        let message =
            "A wait has no business hours; write `Wait 2 business days` or `Wait 5 hours`";
        return refuse_at(input, start, message);
    }
    phrase(BUSINESS_DAYS)(input)?;
    if !(1..=u64::from(BUSINESS_DAYS_MAX)).contains(&days) {
        let message = format!("A wait has from 1 to {BUSINESS_DAYS_MAX} business days");
        return refuse_at(input, start, message);
    }
    let mut fields = Map::from_iter([("business_days".to_owned(), Value::from(days))]);
    let zone = opt(preceded(phrase(&["in"]), time_zone)).parse_next(input)?;
    fields.extend(zone.map(|zone| text_field("time_zone", zone)));
    Ok(Value::Object(fields))
}

/// Reads a wait that the reply of the contact ends.
fn wait_for_reply(input: &mut Input<'_>) -> Parsed<Action> {
    let bare = phrase(&[
        "wait for a reply",
        "wait for the reply",
        "wait for reply",
        "wait for a response",
        "wait for an answer of contact",
        "wait for a reply of contact",
        "wait for a reply of the contact",
        "wait for a reply from contact",
        "wait for a reply from the contact",
        "wait for contact to reply",
        "wait for the contact to reply",
        "wait for contact to respond",
        "wait for the contact to respond",
        "wait until contact replies",
        "wait until the contact replies",
        "wait until contact has replied",
        "wait until the contact has replied",
        "wait until contact responds",
        "wait until the contact responds",
        "wait till contact replies",
        "wait till the contact replies",
        "wait until a reply",
        "wait until a reply comes",
        "wait until a reply arrives",
        "wait until there is a reply",
        "pause until contact replies",
        "pause until the contact replies",
        "await a reply",
        "await the reply",
    ])
    .map(|()| Action::Reply { within: None });
    let longest = phrase(&[
        "wait up to",
        "wait at most",
        "wait for up to",
        "wait for at most",
        "wait",
        "wait for",
    ]);
    let reply = phrase(&[
        "for a reply",
        "for the reply",
        "for a response",
        "for contact to reply",
        "for the contact to reply",
        "or until contact replies",
        "or until the contact replies",
        "or until a reply comes",
        "or for a reply",
        "unless contact replies",
        "unless the contact replies",
    ]);
    let timed = (preceded(longest, duration), refuse_unclear_signal, reply);
    let timed = timed.map(|(within, (), ())| Action::Reply {
        within: Some(within),
    });
    alt((bare, timed)).parse_next(input)
}

/// A reply that does not come lets the run go on, and a signal that does not come fails it.
fn refuse_unclear_signal(input: &mut Input<'_>) -> Parsed<()> {
    let start = tokens_left(input);
    let signal = refused_phrase(&["for signal", "for the signal", "for a signal"]);
    if opt(signal).parse_next(input)?.is_some() {
        let message = "It is not clear whether the run goes on without the signal; write `Wait for signal payment, at most 3 days, then skip` or `then fail`";
        return refuse_at(input, start, message);
    }
    Ok(())
}
