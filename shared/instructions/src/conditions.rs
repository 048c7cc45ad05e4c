//! The words of conditions (S0-AC5).
//!
//! A condition is a list of tests, joined by `and` or by `or`. Words that could mean two things are refused.

mod comparisons;
mod condition;
mod from_cel;
mod paths;
mod replies;
mod to_cel;
mod to_words;

use winnow::Parser as _;
use winnow::combinator::{alt, opt, peek, repeat};

use crate::line_parser::{Input, Parsed, phrase, refuse, refuse_at, take_token, tokens_left};
use crate::tokens::TokenKind;
use condition::{NEGATIONS_MAX, Test};

pub(crate) use condition::{Condition, negate};
use from_cel::from_cel;
use to_words::to_words;

/// Longest condition in CEL, in characters.
pub(crate) const CEL_CHARS_MAX: usize = 2_048;

/// Reads a condition, and gives its CEL.
pub(crate) fn condition(input: &mut Input<'_>) -> Parsed<String> {
    let start = tokens_left(input);
    let cel = read_condition(input, test)?.to_cel();
    if cel.chars().count() > CEL_CHARS_MAX {
        let message = format!("A condition has at most {CEL_CHARS_MAX} characters of CEL");
        return refuse_at(input, start, message);
    }
    Ok(cel)
}

/// Reads the condition that ends a repetition. It may be about a reply that is still to come.
pub(crate) fn end_condition(input: &mut Input<'_>) -> Parsed<Condition> {
    read_condition(input, |input| {
        alt((replies::coming_reply, test)).parse_next(input)
    })
}

/// The words of a condition in CEL. CEL without words is written in braces.
pub(crate) fn condition_words(cel: &str) -> String {
    to_words(&from_cel(cel))
}

fn read_condition(
    input: &mut Input<'_>,
    test: fn(&mut Input<'_>) -> Parsed<Test>,
) -> Parsed<Condition> {
    let negations: Vec<()> = repeat(
        0..=NEGATIONS_MAX,
        phrase(&["it is not so that", "it is not true that"]),
    )
    .parse_next(input)?;
    let positive = alt((cel, |input: &mut Input<'_>| tests(input, test))).parse_next(input)?;
    Ok(negations
        .iter()
        .fold(positive, |inner, ()| Condition::Not(Box::new(inner))))
}

fn cel(input: &mut Input<'_>) -> Parsed<Condition> {
    let need = "a condition such as `no reply` or `contact.plan is \"pro\"`";
    take_token(input, need, |kind| match kind {
        TokenKind::Expression(text) => {
            let inside = text.strip_prefix("{{")?.strip_suffix("}}")?.trim();
            (!inside.is_empty()).then(|| Condition::Cel(inside.to_owned()))
        }
        TokenKind::Word(_)
        | TokenKind::Text(_)
        | TokenKind::Path(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })
}

fn tests(input: &mut Input<'_>, test: fn(&mut Input<'_>) -> Parsed<Test>) -> Parsed<Condition> {
    let first = test(input)?;
    let is_any = opt(peek(phrase(&["or"]))).parse_next(input)?.is_some();
    let joint: &'static [&'static str] = if is_any { &["or"] } else { &["and"] };
    let mut all = vec![first];
    while opt(phrase(joint)).parse_next(input)?.is_some() {
        all.push(test(input)?);
    }
    if opt(peek(phrase(&["and", "or"])))
        .parse_next(input)?
        .is_some()
    {
        let message = "A condition has either `and` or `or`, because both together can be read in two ways; use two lines";
        return refuse(input, message);
    }
    if is_any {
        return Ok(Condition::Any(all));
    }
    Ok(Condition::All(all))
}

fn test(input: &mut Input<'_>) -> Parsed<Test> {
    alt((replies::reply, comparisons::field)).parse_next(input)
}
