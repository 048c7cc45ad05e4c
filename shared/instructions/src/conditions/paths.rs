//! Names of values in conditions.

use winnow::Parser as _;
use winnow::combinator::{alt, opt, preceded};

use super::condition::Path;
use crate::line_parser::{
    Input, Parsed, is_same_word, phrase, refuse_at, take_token, take_word, tokens_left,
};
use crate::tokens::TokenKind;
use crate::values::name;

const VALUE: &str = "a value such as `contact.plan`, `$input.amount` or `the answer`";

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 300;

/// Reads `contact.plan`, `the contact's plan`, `deal.stage`, `$input.x`, `$step-01.x`, `the answer` or `the answer of step-01`.
pub(super) fn path(input: &mut Input<'_>) -> Parsed<Path> {
    alt((written_path, field_of_owner, answer)).parse_next(input)
}

impl Path {
    /// Reads a path as CEL writes it. `None`: a path that conditions in words do not have.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let root = parts.next()?;
        let is_step = root.strip_prefix('$').is_some_and(|id| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let is_reserved = matches!(id, "input" | "contact" | "run" | "item");
            id.starts_with(|c: char| c.is_ascii_alphanumeric())
                && id.chars().all(is_part)
                && !is_reserved
        });
        let is_known = is_step || matches!(root, "contact" | "input" | "deal");
        let mut keys = parts.clone();
        let has_keys = keys.next().is_some() && parts.all(|key| is_key(key, is_step));
        (is_known && has_keys && text.len() <= PATH_BYTES_MAX).then(|| Self(text.to_owned()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether it is the answer of a question, whose values are texts.
    pub(super) fn is_answer(&self) -> bool {
        self.0.starts_with('$') && self.0.ends_with(".answer")
    }

    /// Whether a field may be missing, so that a test must check this first.
    pub(super) fn is_of_contact(&self) -> bool {
        self.0.starts_with("contact.") || self.is_of_deal()
    }

    /// Whether it is a field of each deal in `contact.deals`.
    pub(super) fn is_of_deal(&self) -> bool {
        self.0.starts_with("deal.")
    }

    /// The same field of the field `deal` of the contact.
    pub(super) fn of_only_deal(&self) -> Self {
        Self(format!("contact.{}", self.0))
    }

    /// Whether it is one key of its root, without an index.
    pub(super) fn is_one_key(&self) -> bool {
        self.0.matches('.').count() == 1 && !self.0.contains('[')
    }

    /// The path and its parents below the root, from short to long: `contact.a`, `contact.a.b`.
    pub(super) fn levels(&self) -> Vec<&str> {
        let dots = self.0.match_indices('.').skip(1).map(|(at, _)| at);
        let ends = dots.chain([self.0.len()]);
        ends.filter_map(|end| self.0.get(..end)).collect()
    }
}

/// An identifier of CEL. Results of steps may have an index, such as `orders[0]`.
fn is_key(key: &str, may_have_index: bool) -> bool {
    let (name, index) = key
        .split_once('[')
        .map_or((key, None), |(name, index)| (name, Some(index)));
    let is_index = index.is_none_or(|index| {
        let digits = index.strip_suffix(']').unwrap_or_default();
        may_have_index && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && is_index && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn written_path(input: &mut Input<'_>) -> Parsed<Path> {
    take_token(input, VALUE, |kind| match kind {
        TokenKind::Word(word) => Path::read(word),
        TokenKind::Path(path) => {
            let bare = path.strip_prefix('$')?;
            let is_bare = bare.starts_with("input.") || bare.starts_with("contact.");
            Path::read(if is_bare { bare } else { path })
        }
        TokenKind::Text(_)
        | TokenKind::Expression(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })
}

/// `the contact's plan`.
fn field_of_owner(input: &mut Input<'_>) -> Parsed<Path> {
    let root = preceded(opt(phrase(&["the"])), owner).parse_next(input)?;
    take_word(input, "a field such as `plan`", |field| {
        Path::read(&format!("{root}.{field}"))
    })
}

fn owner(input: &mut Input<'_>) -> Parsed<&'static str> {
    take_word(input, VALUE, |word| {
        let owners = [
            ("contact's", "contact"),
            ("input's", "input"),
            ("deal's", "deal"),
        ];
        let found = owners
            .into_iter()
            .find(|(owner, _)| is_same_word(word, owner));
        found.map(|(_, root)| root)
    })
}

/// `the answer`, or `the answer of step-03`.
fn answer(input: &mut Input<'_>) -> Parsed<Path> {
    let start = tokens_left(input);
    phrase(&[
        "the answer",
        "answer of",
        "answer to",
        "the answer of",
        "the answer to",
    ])(input)
    .and_then(|()| step_of_answer(input, start))
}

fn step_of_answer(input: &mut Input<'_>, start: usize) -> Parsed<Path> {
    let before = input
        .input
        .previous_tokens()
        .next()
        .map(|token| &token.kind);
    let names_step = matches!(before, Some(TokenKind::Word(word)) if !is_same_word(word, "answer"));
    if names_step {
        let bare = name("a step such as `step-03`").map(str::to_owned);
        let step = alt((step_path, bare)).parse_next(input)?;
        return match Path::read(&format!("${step}.answer")) {
            Some(path) => Ok(path),
            None => refuse_at(
                input,
                start,
                "The answer of this step has no words; write it in CEL: `If {{ … }}, …`",
            ),
        };
    }
    let nearest = input.state.questions.last();
    if nearest.is_some_and(|question| question.is_conditional) {
        let message = "The nearest question above has a condition; name the step, such as `the answer of step-03`";
        return refuse_at(input, start, message);
    }
    match nearest.map(|question| question.step.clone()) {
        Some(step) => match Path::read(&format!("${step}.answer")) {
            Some(path) => Ok(path),
            None => refuse_at(
                input,
                start,
                "Write the name of the step, such as `the answer of step-03`",
            ),
        },
        None => refuse_at(
            input,
            start,
            "Before this line, no line asks a question; name the step, such as `the answer of step-03`",
        ),
    }
}

fn step_path(input: &mut Input<'_>) -> Parsed<String> {
    take_token(input, "a step such as `step-03`", |kind| match kind {
        TokenKind::Path(path) => path.strip_prefix('$').map(str::to_owned),
        TokenKind::Word(_)
        | TokenKind::Text(_)
        | TokenKind::Expression(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    })
}
