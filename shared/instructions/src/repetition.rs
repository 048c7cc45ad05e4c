//! Words that repeat a step: `every 2 days until contact replies, at most 5 times`.
//!
//! Owns the three parts of a repetition, in any order, before the step or after it. All three are required, because a
//! repetition without an end or a limit could send mails for ever.

use winnow::Parser as _;
use winnow::combinator::{alt, opt, peek, preceded};

use crate::conditions::{Condition, end_condition};
use crate::draft::{Action, Draft};
use crate::durations::{count, period};
use crate::line_parser::{
    Input, Parsed, comma, mark, phrase, refuse_at, refused_phrase, tokens_left, with_need,
};
use crate::waits::BUSINESS_DAYS;

/// Most times that a line does its step.
pub(crate) const REPETITIONS_MAX: usize = 50;

/// Words before the period.
const EVERY: &[&str] = &["every", "once every", "with a pause of", "with pauses of"];

/// Words before the end.
const UNTIL: &[&str] = &["until", "till"];

/// Words before the limit.
const AT_MOST: &[&str] = &[
    "at most",
    "for at most",
    "but at most",
    "up to",
    "for up to",
    "no more than",
    "not more than",
    "a maximum of",
];

/// Fewest times. A step that is done once is an ordinary line.
const REPETITIONS_MIN: usize = 2;

/// A repetition with all its parts.
#[derive(Debug, Clone)]
pub(crate) struct Repetition {
    /// Length of the pause.
    pub(crate) period: String,
    /// What ends it.
    pub(crate) end: Condition,
    /// Most times; the first one counts.
    pub(crate) times: usize,
    /// Tokens that are left before its first part.
    pub(crate) start: usize,
}

/// The parts of a repetition that a line has so far.
#[derive(Debug, Default)]
pub(crate) struct RepetitionParts {
    period: Option<String>,
    end: Option<Condition>,
    times: Option<usize>,
    /// Tokens that were left before the first part.
    start: Option<usize>,
    /// The words before the step end with the condition, so that a comma must follow.
    ends_with_condition: bool,
}

enum Part {
    Period(String),
    End(Condition),
    Times(usize),
}

impl RepetitionParts {
    /// Reads the words before a step, and what separates them from it.
    pub(crate) fn read_before_step(&mut self, input: &mut Input<'_>) -> Parsed<()> {
        let start = tokens_left(input);
        let verb = refused_phrase(&["repeat", "repeat this"]);
        let verb = opt((verb, opt(comma))).parse_next(input)?;
        if verb.is_some() {
            self.start = Some(start);
            let need = "`every 2 days`, `until contact replies` or `at most 5 times`";
            let read = |input: &mut Input<'_>| part(input);
            let first = with_need(need, read)(input)?;
            self.add(input, start, first)?;
        }
        while self.read_part(input)? {}
        if self.start.is_none() {
            return Ok(());
        }
        let then = (comma, opt(phrase(&["then"]))).void();
        let end = opt(alt((then, mark(":")))).parse_next(input)?;
        if end.is_none() && self.ends_with_condition {
            return with_need("a comma", comma)(input);
        }
        Ok(())
    }

    /// Reads the next part, if one follows.
    pub(crate) fn read_part(&mut self, input: &mut Input<'_>) -> Parsed<bool> {
        let start = tokens_left(input);
        let furthest = input.state.furthest.clone();
        let opening = alt((phrase(EVERY), phrase(UNTIL), phrase(AT_MOST)));
        let opening = preceded(opt(comma), opening);
        let is_opened = opt(peek(opening)).parse_next(input)?.is_some();
        if is_opened {
            input.state.furthest.clone_from(&furthest);
        }
        let found = opt(preceded(opt(comma), part)).parse_next(input)?;
        // Most lines do not repeat their step, so an error must not offer it at each place.
        if !is_opened {
            input.state.furthest = furthest;
        }
        let Some(found) = found else {
            return Ok(false);
        };
        self.add(input, start, found)?;
        Ok(true)
    }

    /// Whether the line has a part.
    pub(crate) const fn is_begun(&self) -> bool {
        self.start.is_some()
    }

    /// Puts the parts together, after the last word of the line.
    pub(crate) fn finish(self, input: &mut Input<'_>, draft: &Draft) -> Parsed<Option<Repetition>> {
        let Some(start) = self.start else {
            return Ok(None);
        };
        if let Some(message) = refusal_of_step(draft) {
            return refuse_at(input, start, message);
        }
        match (self.period, self.end, self.times) {
            (Some(period), Some(end), Some(times)) => Ok(Some(Repetition {
                period,
                end,
                times,
                start,
            })),
            (period, end, times) => {
                let parts = [
                    (period.is_none(), "a period such as `every 2 days`"),
                    (end.is_none(), "an end such as `until contact replies`"),
                    (times.is_none(), "a limit such as `at most 5 times`"),
                ];
                let missing = parts.into_iter().filter(|(is_missing, _)| *is_missing);
                let missing: Vec<&str> = missing.map(|(_, name)| name).collect();
                let missing = missing.join(" and ");
                let message = format!("A line that repeats its step also needs {missing}");
                refuse_at(input, 0, message)
            }
        }
    }

    fn add(&mut self, input: &mut Input<'_>, start: usize, part: Part) -> Parsed<()> {
        self.start.get_or_insert(start);
        self.ends_with_condition = matches!(part, Part::End(_));
        let is_second = match part {
            Part::Period(period) => self.period.replace(period).is_some(),
            Part::End(end) => self.end.replace(end).is_some(),
            Part::Times(times) => self.times.replace(times).is_some(),
        };
        if is_second {
            let message = "A repetition has one period, one `until …` and one `at most … times`";
            return refuse_at(input, start, message);
        }
        Ok(())
    }
}

fn part(input: &mut Input<'_>) -> Parsed<Part> {
    let every = preceded(phrase(EVERY), refuse_other_period_or(period));
    let until = preceded(phrase(UNTIL), end);
    alt((
        every.map(Part::Period),
        until.map(Part::End),
        times.map(Part::Times),
    ))
    .parse_next(input)
}

/// A period is a length of time. Days of a calendar have no words here.
fn refuse_other_period_or<'t>(
    mut period: impl FnMut(&mut Input<'t>) -> Parsed<String>,
) -> impl FnMut(&mut Input<'t>) -> Parsed<String> {
    move |input| {
        let start = tokens_left(input);
        let furthest = input.state.furthest.clone();
        let words = alt((
            refused_phrase(BUSINESS_DAYS),
            refused_phrase(&["weekday", "other day"]),
        ));
        let days = (opt(count), words);
        if opt(days).parse_next(input)?.is_some() {
            let message = "The period of a repetition is a duration, such as `every 2 days`";
            return refuse_at(input, start, message);
        }
        input.state.furthest = furthest;
        period(input)
    }
}

fn end(input: &mut Input<'_>) -> Parsed<Condition> {
    let start = tokens_left(input);
    let found = end_condition(input)?;
    if found.is_missing_reply() {
        let message = "A missing reply holds from the start; write `until contact replies`";
        return refuse_at(input, start, message);
    }
    Ok(found)
}

fn times(input: &mut Input<'_>) -> Parsed<usize> {
    let start = tokens_left(input);
    let bound = opt(phrase(AT_MOST)).parse_next(input)?;
    let first = tokens_left(input);
    let mut words = alt((
        phrase(&["once"]).value(1),
        phrase(&["twice"]).value(2),
        (count, phrase(&["times", "time"])).map(|(count, ())| count),
    ));
    let count = words.parse_next(input)?;
    if bound.is_none() {
        let message =
            "It is not clear whether the step is always done so often; write `at most 5 times`";
        return refuse_at(input, start, message);
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if !(REPETITIONS_MIN..=REPETITIONS_MAX).contains(&count) {
        let message =
            format!("A line repeats its step at most {REPETITIONS_MIN} to {REPETITIONS_MAX} times");
        return refuse_at(input, first, message);
    }
    Ok(count)
}

/// Why such a line is not repeated, if it is not.
fn refusal_of_step(draft: &Draft) -> Option<String> {
    if !matches!(draft.action, Action::Tool { .. }) {
        let label = draft.action.label();
        return Some(format!(
            "A mail, a call of a tool, a change of the contact, a task and a log entry can be repeated; the step is {label}"
        ));
    }
    if draft.for_each.is_some() {
        let message = "A line has either `for each` or a repetition";
        return Some(message.to_owned());
    }
    if draft.when.is_some() {
        let message = "It is not clear whether a further condition counts once or each time; a line that repeats its step has only `until …`";
        return Some(message.to_owned());
    }
    None
}
