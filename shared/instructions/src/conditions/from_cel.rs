//! Reads CEL that the grammar has written, so that a step gets its words back.
//!
//! The parser accepts more than the grammar writes. A condition counts only if it gives exactly the same CEL again.

use serde_json::Value;
use winnow::ModalResult;
use winnow::Parser as _;
use winnow::combinator::{alt, delimited, eof, opt, preceded, repeat, separated, terminated};
use winnow::error::{EmptyError, ErrMode};
use winnow::token::{take_until, take_while};

use super::condition::{Check, Comparison, Condition, NEGATIONS_MAX, Path, Test, Tone};
use super::to_cel::{OR_ONLY_DEAL, SOME_DEAL};
use crate::quotes::{Characters, quoted};
use crate::values::literal;

type Parsed<O> = ModalResult<O, EmptyError>;

/// The condition of a CEL expression. An expression that the grammar does not write stays CEL.
pub(super) fn from_cel(cel: &str) -> Condition {
    let found = read_nested(cel, 0).filter(|condition| condition.to_cel() == cel);
    found.unwrap_or_else(|| Condition::Cel(cel.to_owned()))
}

fn read_nested(cel: &str, depth: usize) -> Option<Condition> {
    let mut input = Characters::new(cel);
    let tests: Parsed<Condition> = terminated(alt((any, all)), eof).parse_next(&mut input);
    if let Ok(condition) = tests {
        return Some(condition);
    }
    let inside = cel.strip_prefix("!(")?.strip_suffix(')')?;
    if depth == NEGATIONS_MAX {
        return None;
    }
    read_nested(inside, depth + 1).map(|inner| Condition::Not(Box::new(inner)))
}

fn any(input: &mut Characters<'_>) -> Parsed<Condition> {
    separated(2.., delimited('(', test, ')'), " || ")
        .map(Condition::Any)
        .parse_next(input)
}

fn all(input: &mut Characters<'_>) -> Parsed<Condition> {
    separated(1.., test, " && ")
        .map(Condition::All)
        .parse_next(input)
}

fn test(input: &mut Characters<'_>) -> Parsed<Test> {
    let negated = delimited("!(", positive_test, ')').verify_map(negated);
    alt((negated, positive_test)).parse_next(input)
}

fn positive_test(input: &mut Characters<'_>) -> Parsed<Test> {
    let listed = delimited(SOME_DEAL, field, ')');
    let only = delimited(OR_ONLY_DEAL, field, ')');
    let of_deal = (listed, only)
        .map(|(test, _)| test)
        .verify(|test| matches!(test, Test::Field { path, .. } if path.is_of_deal()));
    alt((reply, of_deal, field)).parse_next(input)
}

fn negated(test: Test) -> Option<Test> {
    match test {
        Test::Reply { tone, .. } => Some(Test::Reply {
            tone,
            is_negated: true,
        }),
        Test::Field { path, check } => {
            let check = match check {
                Check::Compare(Comparison::Equal, value) => {
                    Check::Compare(Comparison::NotEqual, value)
                }
                Check::Contains(text) => Check::ContainsNot(text),
                Check::IsSet => Check::IsMissing,
                Check::Compare(..)
                | Check::ContainsNot(_)
                | Check::StartsWith(_)
                | Check::EndsWith(_)
                | Check::IsMissing => return None,
            };
            Some(Test::Field { path, check })
        }
    }
}

fn reply(input: &mut Characters<'_>) -> Parsed<Test> {
    let tones = alt((
        "\"positive\"".value(Tone::Positive),
        "\"negative\"".value(Tone::Negative),
    ));
    let tone = preceded(" && has(contact.sentiment) && contact.sentiment == ", tones);
    preceded("has(contact.replied) && contact.replied == true", opt(tone))
        .map(|tone| Test::Reply {
            tone,
            is_negated: false,
        })
        .parse_next(input)
}

fn field(input: &mut Characters<'_>) -> Parsed<Test> {
    let guard = ("has(", take_until(0.., ')'), ") && ");
    repeat::<_, _, (), _, _>(0.., guard).parse_next(input)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "$._-[]".contains(c);
    let run = take_while(1.., is_part).parse_next(input)?;
    let method = |name: &str| run.strip_suffix(name).and_then(Path::read);
    let text = delimited('(', quoted, ')');
    let (path, check) = if let Some(path) = method(".contains") {
        (path, text.map(Check::Contains).parse_next(input)?)
    } else if let Some(path) = method(".startsWith") {
        (path, text.map(Check::StartsWith).parse_next(input)?)
    } else if let Some(path) = method(".endsWith") {
        (path, text.map(Check::EndsWith).parse_next(input)?)
    } else {
        let path = Path::read(run).ok_or(ErrMode::Backtrack(EmptyError))?;
        let check = alt((|input: &mut _| is_set(input, run), comparison)).parse_next(input)?;
        (path, check)
    };
    Ok(Test::Field { path, check })
}

fn is_set(input: &mut Characters<'_>, name: &str) -> Parsed<Check> {
    (" != null && ", name, " != \"\"")
        .value(Check::IsSet)
        .parse_next(input)
}

fn comparison(input: &mut Characters<'_>) -> Parsed<Check> {
    let operator = alt((
        " == ".value(Comparison::Equal),
        " != ".value(Comparison::NotEqual),
        " >= ".value(Comparison::AtLeast),
        " <= ".value(Comparison::AtMost),
        " > ".value(Comparison::Above),
        " < ".value(Comparison::Below),
    ))
    .parse_next(input)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let bare = take_while(1.., is_part).verify_map(literal);
    let value = alt((quoted.map(Value::String), bare)).parse_next(input)?;
    Ok(Check::Compare(operator, value))
}
