//! The options of a question: `with options "yes", "no"`, or `options yes or no`.

use std::collections::BTreeSet;

use holdpoint_holds::limits::{OPTION_CHARS_MAX, OPTIONS};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded, repeat};

use crate::line_parser::{
    Input, Parsed, comma, mark, phrase, quoted_text, refuse_at, take_word, tokens_left,
};

/// Reads options in quotes, or two words with `or`.
pub(crate) fn options(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    phrase(&[
        "with options",
        "with the options",
        "options",
        "the options are",
        "with the choices",
    ])(input)?;
    let _colon = opt(mark(":")).parse_next(input)?;
    let start = tokens_left(input);
    let options = alt((quoted_options, two_words)).parse_next(input)?;
    let is_valid =
        |text: &String| !text.trim().is_empty() && text.chars().count() <= OPTION_CHARS_MAX;
    let has_count = OPTIONS.contains(&options.len());
    let is_distinct = options.iter().collect::<BTreeSet<_>>().len() == options.len();
    if has_count && is_distinct && options.iter().all(is_valid) {
        return Ok(options);
    }
    let message = format!(
        "A question has from {} to {} different options of at most {OPTION_CHARS_MAX} characters, such as `with options \"yes\", \"no\"`",
        OPTIONS.start(),
        OPTIONS.end()
    );
    refuse_at(input, start, message)
}

fn quoted_options(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    let first = quoted_text(input)?;
    let joint = alt((
        (comma, phrase(&["or", "and"])).void(),
        comma,
        phrase(&["or", "and"]),
    ));
    let more: Vec<String> = repeat(0.., preceded(joint, quoted_text)).parse_next(input)?;
    Ok([first].into_iter().chain(more).collect())
}

/// Words after a comma could be something else, such as a timeout. So there are two, with `or` between them.
fn two_words(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    let first = word(input)?;
    phrase(&["or"])(input)?;
    Ok(vec![first, word(input)?])
}

fn word(input: &mut Input<'_>) -> Parsed<String> {
    take_word(input, "an option in quotes", |word| {
        word.chars()
            .all(char::is_alphabetic)
            .then(|| word.to_owned())
    })
}
