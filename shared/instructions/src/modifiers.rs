//! What may follow every action: a name, a timeout, a priority, an approval and so on.
//!
//! A modifier that does not belong to the kind of the step is refused, not ignored.

use serde_json::{Map, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded, repeat};

use crate::draft::{Action, Modifier, text_field};
use crate::durations::{count, duration};
use crate::line_parser::{
    Input, Parsed, choice, comma, is_same_word, miss, next_kind, phrase, refuse_at, refused_phrase,
    take_word, tokens_left,
};
use crate::options::options;
use crate::recipients::approvers;
use crate::tokens::TokenKind;
use crate::values::{filled_value, name, text_value};

/// Most attempts, and most items at a time.
const COUNT_MAX: u64 = 100;

/// Most words of a purpose without quotes.
const PURPOSE_WORDS_MAX: usize = 4;

/// Words that a purpose without quotes does not have: they could begin another part of the line, or be a time.
const NO_PURPOSE: &str = "if when unless while once before after until till because so that which who whose where as named with without \
    then and or but nor not no never none only except also timeout within at by in on up from most least every \
    each all any both everyone priority urgency high low normal urgent medium critical saying message otherwise \
    skip continue fail finish escalate a an one two three four five six seven eight nine ten eleven twelve several \
    many some second seconds minute minutes hour hours day days week weeks month months year years business \
    working weekday weekdays today tomorrow yesterday tonight now later soon next last monday tuesday wednesday \
    thursday friday saturday sunday contact approval retry attempts default options";

/// Names of placeholders, which a step must not have.
const RESERVED_NAMES: [&str; 4] = ["input", "contact", "run", "item"];

const PRIORITIES: &[(&str, &str)] = &[
    ("low", "low"),
    ("normal", "normal"),
    ("medium", "medium"),
    ("high", "high"),
    ("urgent", "urgent"),
];

/// Reads all that follows an action, and adds it to `modifiers`. `repeats`: the line has a repetition, so that `at most 5
/// days` could also be its end.
pub(crate) fn read_modifiers(
    input: &mut Input<'_>,
    action: &Action,
    modifiers: &mut Vec<Modifier>,
    repeats: bool,
) -> Parsed<()> {
    loop {
        let start = tokens_left(input);
        let Some(found) = opt(preceded(opt(comma), |input: &mut Input<'_>| {
            modifier(input, action)
        }))
        .parse_next(input)?
        else {
            return Ok(());
        };
        let label = found.label();
        if let Some(message) = action.refusal(&found) {
            return refuse_at(input, start, message);
        }
        let follows_approval = matches!(modifiers.last(), Some(Modifier::Approval(_)));
        if follows_approval && matches!(found, Modifier::Timeout(_)) && !says_timeout(input, start)
        {
            let message = "It is not clear whether this is the time to decide or that of the call; write `after approval by @role.manager within 2 days` or `timeout 30 seconds`";
            return refuse_at(input, start, message);
        }
        if repeats && matches!(found, Modifier::Timeout(_)) && !says_timeout(input, start) {
            let message = "It is not clear whether this ends the repetition or each call; write `at most 5 times` or `timeout 30 seconds`";
            return refuse_at(input, start, message);
        }
        if modifiers.iter().any(|other| other.label() == label) {
            let message = format!("A line has {label} at most once");
            return refuse_at(input, start, message);
        }
        modifiers.push(found);
    }
}

/// Whether the words since a place name a timeout. `within 30 seconds` could also be the time to decide.
fn says_timeout(input: &Input<'_>, start: usize) -> bool {
    let taken = input.input.previous_tokens();
    let mut taken = taken.take(start - tokens_left(input));
    taken.any(|token| matches!(&token.kind, TokenKind::Word(word) if is_same_word(word, "timeout")))
}

/// `after approval by @role.manager within 2 days`.
pub(crate) fn approval(input: &mut Input<'_>) -> Parsed<Modifier> {
    phrase(&["after approval", "after an approval", "after the approval"])(input)?;
    let from = opt(preceded(phrase(&["by", "of", "from"]), approvers)).parse_next(input)?;
    let within = opt(preceded(phrase(&["within"]), duration)).parse_next(input)?;
    let from = from.map(|from| ("from".to_owned(), from));
    let within = within.map(|time| text_field("decide_within", time));
    let rule: Map<String, Value> = from.into_iter().chain(within).collect();
    Ok(Modifier::Approval(rule))
}

fn modifier(input: &mut Input<'_>, action: &Action) -> Parsed<Modifier> {
    let then = choice(&[
        ("continue", "continue"),
        ("skip", "skip"),
        ("fail", "fail"),
        ("escalate", "escalate"),
    ]);
    let then = preceded(phrase(&["then", "and then", "on timeout"]), then);
    let message = phrase(&[
        "with message",
        "with the message",
        "with a message",
        "message",
        "saying",
    ]);
    // A number of attempts or items begins as a timeout does, so it comes first.
    let limits = alt((refused_retry, attempts, parallel, timeout));
    let is_handoff = matches!(action, Action::Handoff { .. });
    let purpose = |input: &mut Input<'_>| {
        if is_handoff {
            return alt((filled_value, bare_purpose)).parse_next(input);
        }
        text_value(input)
    };
    let about_people = alt((
        phrase(&["as warm lead", "as a warm lead"]).value(Modifier::WarmLead),
        then.map(Modifier::Then),
        priority.map(Modifier::Priority),
        preceded(message, filled_value).map(Modifier::Message),
        preceded(phrase(&["for"]), purpose).map(Modifier::Message),
        options.map(Modifier::Options),
        default,
    ));
    let id = |input: &mut Input<'_>| id(input, action);
    alt((limits, about_people, on_error, approval, id)).parse_next(input)
}

/// `for personal outreach` (S0-AC6): words up to a comma or the end of the line.
fn bare_purpose(input: &mut Input<'_>) -> Parsed<String> {
    let need = "a purpose such as `personal outreach`";
    let word = |input: &mut Input<'_>| {
        take_word(input, need, |word| {
            is_of_purpose(word).then(|| word.to_owned())
        })
    };
    let words: Vec<String> = repeat(1..=PURPOSE_WORDS_MAX, word).parse_next(input)?;
    let is_ended = match next_kind(input) {
        None | Some(TokenKind::Punctuation("," | ".")) => true,
        Some(_) => false,
    };
    if is_ended {
        return Ok(words.join(" "));
    }
    miss(input, "a comma")
}

/// A word that begins no other part of a line.
fn is_of_purpose(word: &str) -> bool {
    let is_plain = word.chars().all(|c| c.is_alphabetic() || "'’-".contains(c));
    let is_other = NO_PURPOSE.split(' ').any(|other| is_same_word(word, other));
    is_plain && !is_other
}

fn timeout(input: &mut Input<'_>) -> Parsed<Modifier> {
    let never = phrase(&[
        "no timeout",
        "without timeout",
        "without a timeout",
        "with no timeout",
    ]);
    let before = phrase(&[
        "timeout",
        "timeout of",
        "timeout after",
        "with timeout",
        "with a timeout of",
        "at most",
        "for at most",
        "within",
    ]);
    alt((
        never.value(Value::from(0)),
        preceded(before, duration).map(Value::String),
    ))
    .map(Modifier::Timeout)
    .parse_next(input)
}

fn priority(input: &mut Input<'_>) -> Parsed<&'static str> {
    let first = preceded(phrase(&["priority", "with priority"]), choice(PRIORITIES));
    let last = preceded(
        opt(phrase(&["with", "at"])),
        (choice(PRIORITIES), phrase(&["priority"])),
    );
    alt((first, last.map(|(word, ())| word))).parse_next(input)
}

/// `retry 3 times` could mean three attempts or four.
fn refused_retry(input: &mut Input<'_>) -> Parsed<Modifier> {
    let start = tokens_left(input);
    refused_phrase(&["retry", "with retry", "retries", "and retry", "retried"])(input)?;
    let message = "It is not clear whether the first call counts; write `at most 3 attempts`";
    refuse_at(input, start, message)
}

fn attempts(input: &mut Input<'_>) -> Parsed<Modifier> {
    phrase(&["at most", "with at most"])(input)?;
    let start = tokens_left(input);
    let count = count(input)?;
    phrase(&["attempts", "attempt", "tries"])(input)?;
    check_count(input, start, count, "attempts").map(Modifier::Attempts)
}

fn parallel(input: &mut Input<'_>) -> Parsed<Modifier> {
    phrase(&["at most", "with at most"])(input)?;
    let start = tokens_left(input);
    let count = count(input)?;
    phrase(&["at a time", "at once", "at the same time", "in parallel"])(input)?;
    check_count(input, start, count, "items").map(Modifier::Parallel)
}

fn check_count(input: &mut Input<'_>, start: usize, count: u64, things: &str) -> Parsed<u64> {
    if (1..=COUNT_MAX).contains(&count) {
        return Ok(count);
    }
    let message = format!("The number of {things} is from 1 to {COUNT_MAX}");
    refuse_at(input, start, message)
}

fn default(input: &mut Input<'_>) -> Parsed<Modifier> {
    phrase(&[
        "default",
        "with default",
        "then default",
        "by default",
        "default answer",
    ])(input)?;
    let bare = choice(&[("yes", "yes"), ("no", "no")]).map(str::to_owned);
    alt((text_value, bare))
        .map(Modifier::Default)
        .parse_next(input)
}

fn on_error(input: &mut Input<'_>) -> Parsed<Modifier> {
    phrase(&[
        "if it fails",
        "if this fails",
        "if that fails",
        "on failure",
        "on error",
    ])(input)?;
    let effect = choice(&[
        ("continue", "continue"),
        ("continue anyway", "continue"),
        ("go on", "continue"),
        ("skip the rest", "skip_rest"),
        ("hand off", "handoff"),
        ("handoff", "handoff"),
        ("fail", "fail"),
        ("fail the run", "fail"),
    ]);
    preceded(opt(comma), effect)
        .map(Modifier::OnError)
        .parse_next(input)
}

/// `as NAME` or `named NAME`. After a handoff, `as` is for `as warm lead`, so `as lead` must not be a name.
fn id(input: &mut Input<'_>, action: &Action) -> Parsed<Modifier> {
    if matches!(action, Action::Handoff { .. }) {
        phrase(&["named"])(input)?;
    } else {
        phrase(&["as", "named"])(input)?;
    }
    let start = tokens_left(input);
    let id = name("a name of the step such as `find`")(input)?;
    if RESERVED_NAMES.contains(&id) {
        return refuse_at(
            input,
            start,
            format!("A step must not be named `{id}`, because placeholders use this name"),
        );
    }
    Ok(Modifier::Id(id.to_owned()))
}
