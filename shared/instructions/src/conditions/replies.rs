//! Words about replies of the contact.

use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};

use super::condition::{Test, Tone};
use crate::line_parser::{Input, Parsed, choice, miss, phrase, with_need};

const TONES: &[(&str, Tone)] = &[("positive", Tone::Positive), ("negative", Tone::Negative)];

/// `no reply`, `contact replied positively`, `there is a reply`, …
pub(super) fn reply(input: &mut Input<'_>) -> Parsed<Test> {
    let need = "a condition such as `no reply` or `contact.plan is \"pro\"`";
    with_need(
        need,
        alt((sentence_of_contact, tone_of_reply, existing_reply)),
    )(input)
}

/// `[the contact] did not reply [positively]`.
fn sentence_of_contact(input: &mut Input<'_>) -> Parsed<Test> {
    let verbs = choice(&[
        ("replied", false),
        ("has replied", false),
        ("did reply", false),
        ("responded", false),
        ("has responded", false),
        ("not replied", true),
        ("never replied", true),
        ("did not reply", true),
        ("didn't reply", true),
        ("does not reply", true),
        ("doesn't reply", true),
        ("has not replied", true),
        ("hasn't replied", true),
        ("has never replied", true),
        ("did not respond", true),
        ("didn't respond", true),
        ("has not responded", true),
        ("hasn't responded", true),
        ("not responded", true),
    ]);
    let contact = opt(phrase(&["the contact", "contact"]));
    let is_negated = preceded(contact, verbs).parse_next(input)?;
    let adverbs = choice(&[
        ("positively", Tone::Positive),
        ("negatively", Tone::Negative),
    ]);
    let tone = opt(adverbs).parse_next(input)?;
    if is_negated {
        let _yet = opt(phrase(&["yet", "so far"])).parse_next(input)?;
    }
    Ok(Test::Reply { tone, is_negated })
}

/// `contact replies [positively]` or `a [positive] reply comes`, which only the end of a repetition has.
pub(super) fn coming_reply(input: &mut Input<'_>) -> Parsed<Test> {
    let verbs = phrase(&[
        "contact replies",
        "the contact replies",
        "contact responds",
        "the contact responds",
    ]);
    let adverbs = choice(&[
        ("positively", Tone::Positive),
        ("negatively", Tone::Negative),
    ]);
    let of_contact = preceded(verbs, opt(adverbs));
    let nouns = (
        phrase(&["a"]),
        opt(choice(TONES)),
        phrase(&["reply", "response"]),
        phrase(&["comes", "comes in", "arrives"]),
    );
    let tone = alt((of_contact, nouns.map(|(_, tone, _, ())| tone))).parse_next(input)?;
    Ok(Test::Reply {
        tone,
        is_negated: false,
    })
}

/// `the reply is positive`.
fn tone_of_reply(input: &mut Input<'_>) -> Parsed<Test> {
    let subject = phrase(&[
        "reply is",
        "reply was",
        "the reply is",
        "the reply was",
        "response is",
        "the response is",
        "the response was",
    ]);
    let tone = preceded(subject, choice(TONES)).parse_next(input)?;
    Ok(Test::Reply {
        tone: Some(tone),
        is_negated: false,
    })
}

/// `there is no reply`, `a positive reply came`.
fn existing_reply(input: &mut Input<'_>) -> Parsed<Test> {
    let mut there = opt(phrase(&[
        "there is",
        "there was",
        "there has been",
        "there's",
    ]));
    let has_there = there.parse_next(input)?.is_some();
    let is_negated = choice(&[("a", false), ("no", true)]).parse_next(input)?;
    let tone = opt(choice(TONES)).parse_next(input)?;
    phrase(&["reply", "response"])(input)?;
    let came = phrase(&["came", "came in", "arrived", "has come", "has arrived"]);
    let has_verb = !has_there && opt(came).parse_next(input)?.is_some();
    // `a reply` alone does not say whether it is there.
    if !has_there && !has_verb && !is_negated {
        return miss(input, "`came` or `arrived`");
    }
    if is_negated {
        let _yet = opt(phrase(&["yet", "so far"])).parse_next(input)?;
    }
    Ok(Test::Reply { tone, is_negated })
}
