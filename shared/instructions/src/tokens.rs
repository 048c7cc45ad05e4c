//! The tokens of a line: words, quoted texts, placeholders and marks.
//!
//! Every text has tokens. A quote or placeholder that does not end is a token too, so that its place can be shown.

use winnow::ModalResult;
use winnow::Parser as _;
use winnow::combinator::{alt, preceded, repeat};
use winnow::error::EmptyError;
use winnow::token::{any, rest, take, take_while};

use crate::quotes::{Characters, quoted};

/// A part of a line and the bytes at which it begins and ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'l> {
    pub(crate) kind: TokenKind<'l>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind<'l> {
    /// A word, number, address, time, or name such as `orders.find` and `@user.nina`.
    Word(&'l str),
    /// A quoted text without its quotes.
    Text(String),
    /// `{{ … }}` with its braces.
    Expression(&'l str),
    /// `$step-01.orders[0]` with its dollar sign.
    Path(&'l str),
    /// Punctuation and operators.
    Punctuation(&'l str),
    /// A quote or `{{` that does not end; the text says what is wrong.
    Unclosed(&'static str),
}

/// Cuts a text into tokens. The last token of a broken text is [`TokenKind::Unclosed`].
pub(crate) fn read_tokens(text: &str) -> Vec<Token<'_>> {
    let mut input = Characters::new(text);
    let tokens: ModalResult<Vec<Token<'_>>, EmptyError> = repeat(0.., token).parse_next(&mut input);
    // Every character is part of a token, so only white space is left.
    tokens.unwrap_or_default()
}

fn token<'l>(input: &mut Characters<'l>) -> ModalResult<Token<'l>, EmptyError> {
    let kind = alt((
        text,
        path.map(TokenKind::Path),
        word.map(TokenKind::Word),
        mark.map(TokenKind::Punctuation),
    ));
    let spaces = take_while(0.., char::is_whitespace);
    preceded(spaces, kind.with_span())
        .map(|(kind, span)| Token {
            kind,
            start: span.start,
            end: span.end,
        })
        .parse_next(input)
}

fn text<'l>(input: &mut Characters<'l>) -> ModalResult<TokenKind<'l>, EmptyError> {
    let unclosed_quote = preceded(alt(("\"", "“")), rest).value(TokenKind::Unclosed(
        "This quoted text has no closing quote, or a backslash before another character than `\"`, `\\` or `n`",
    ));
    let unclosed_braces = ("{{", rest).value(TokenKind::Unclosed("This `{{` has no closing `}}`"));
    alt((
        quoted.map(TokenKind::Text),
        unclosed_quote,
        expression.map(TokenKind::Expression),
        unclosed_braces,
    ))
    .parse_next(input)
}

fn expression<'l>(input: &mut Characters<'l>) -> ModalResult<&'l str, EmptyError> {
    let length =
        expression_bytes(input.as_ref()).ok_or(winnow::error::ErrMode::Backtrack(EmptyError))?;
    take_bytes(length, input)
}

/// Bytes of `{{ CEL }}` at the start of a text. Braces and quotes inside of CEL do not end it.
pub(crate) fn expression_bytes(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("{{")?;
    let mut open_braces = 0_usize;
    let mut quote = None;
    let mut characters = inside.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => open_braces += 1,
            (None, '}') if open_braces > 0 => open_braces -= 1,
            (None, '}') if characters.peek().is_some_and(|(_, next)| *next == '}') => {
                return Some(at + 4);
            }
            (None, _) => {}
        }
    }
    None
}

/// A dollar sign, a name, and segments such as `.key`, `[0]` and `["key"]`.
fn path<'l>(input: &mut Characters<'l>) -> ModalResult<&'l str, EmptyError> {
    let name = |input: &mut Characters<'l>| {
        let length = word_bytes(input.as_ref(), is_name_character);
        take_bytes(length, input)
    };
    let index = take_while(1.., |c: char| c.is_ascii_digit()).void();
    let segment = alt((
        ('[', alt((index, quoted.void())), ']').void(),
        ('.', name).void(),
    ));
    let segments = repeat::<_, _, (), _, _>(0.., segment);
    ('$', name, segments).take().parse_next(input)
}

fn word<'l>(input: &mut Characters<'l>) -> ModalResult<&'l str, EmptyError> {
    let length = word_bytes(input.as_ref(), is_word_character);
    take_bytes(length, input)
}

/// Bytes of the word at the start of a text. A dot belongs to it before another character of a word, and a colon
/// between two digits.
fn word_bytes(text: &str, is_part: fn(char) -> bool) -> usize {
    let mut before = None;
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let after = characters.peek().map(|(_, after)| *after);
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let is_inside = match c {
            '.' => before.is_some() && after.is_some_and(is_part),
            ':' => is_digit(before) && is_digit(after),
            other => is_part(other),
        };
        if !is_inside {
            return at;
        }
        before = Some(c);
    }
    text.len()
}

/// At least one byte.
fn take_bytes<'l>(length: usize, input: &mut Characters<'l>) -> ModalResult<&'l str, EmptyError> {
    if length == 0 {
        return Err(winnow::error::ErrMode::Backtrack(EmptyError));
    }
    take(
        input
            .as_ref()
            .get(..length)
            .unwrap_or_default()
            .chars()
            .count(),
    )
    .parse_next(input)
}

fn mark<'l>(input: &mut Characters<'l>) -> ModalResult<&'l str, EmptyError> {
    alt(("==", "!=", "<=", ">=", any.take())).parse_next(input)
}

const fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_word_character(c: char) -> bool {
    let is_mark = matches!(
        c,
        '"' | '“'
            | '”'
            | '{'
            | '}'
            | '['
            | ']'
            | '('
            | ')'
            | '<'
            | '>'
            | '='
            | '!'
            | ','
            | ':'
            | ';'
            | '.'
            | '$'
            | '≥'
            | '≤'
    );
    !is_mark && !c.is_whitespace()
}
