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
use winnow::combinator::{alt, opt, peek, preceded, repeat};
use winnow::error::{EmptyError, ErrMode};

use crate::durations::duration;
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
    let condition = read_condition(input, test)?;
    let cel = condition.to_cel();
    if cel.chars().count() > CEL_CHARS_MAX {
        let message = format!("A condition has at most {CEL_CHARS_MAX} characters of CEL");
        return refuse_at(input, start, message);
    }
    if condition.deal_tests() > 1 {
        let message = "A condition has one test of a deal, because two could be about different deals; write both in CEL: `If {{ contact.deals.exists(deal, …) }}, …`";
        return refuse_at(input, start, message);
    }
    if condition.has_opposites() {
        let message = "This condition always has the same result, because one part is the opposite of another";
        return refuse_at(input, start, message);
    }
    Ok(cel)
}

/// A missing reply, and the time after which it counts: `no reply after 5 days` (S0-AC5). Gives the condition in CEL, and
/// the time.
pub(crate) fn no_reply_after(input: &mut Input<'_>) -> Parsed<(String, String)> {
    let test = replies::reply(input)?;
    let is_missing = Test::Reply {
        tone: None,
        is_negated: true,
    };
    if test != is_missing {
        return Err(ErrMode::Backtrack(EmptyError));
    }
    let time = preceded(phrase(&["after", "within", "in"]), duration).parse_next(input)?;
    Ok((Condition::All(vec![test]).to_cel(), time))
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

/// Whether a condition reads only inputs and results, which do not change any more.
pub(crate) fn is_constant(cel: &str) -> bool {
    from_cel(cel).is_constant()
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
