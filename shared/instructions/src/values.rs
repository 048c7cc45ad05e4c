//! Values of arguments: quoted texts, numbers, placeholders and inline JSON.

use holdpoint_ids::ToolName;
use serde_json::{Map, Number, Value};
use winnow::Parser as _;
use winnow::combinator::{alt, opt, separated};

use crate::line_parser::{
    Input, Parsed, comma, filled_text, is_same_word, mark, miss, next_kind, refuse, take_token,
    take_word,
};
use crate::quotes::quote;
use crate::tokens::{TokenKind, read_tokens};

/// Deepest nesting of inline JSON.
const DEPTH_MAX: usize = 16;

const VALUE: &str = "a value: a text in quotes, a number, `true`, `false`, `null` or a placeholder such as `$input.x`";

/// Reads a value.
pub(crate) fn value(input: &mut Input<'_>) -> Parsed<Value> {
    nested_value(input, 0)
}

/// Reads an object in braces.
pub(crate) fn object(input: &mut Input<'_>) -> Parsed<Map<String, Value>> {
    nested_object(input, 0)
}

/// Reads a text in quotes, or a placeholder.
pub(crate) fn text_value(input: &mut Input<'_>) -> Parsed<String> {
    take_token(input, "a text in quotes", read_text)
}

/// As [`text_value`]; a text in quotes is not blank.
pub(crate) fn filled_value(input: &mut Input<'_>) -> Parsed<String> {
    alt((placeholder, filled_text)).parse_next(input)
}

/// A text, or a placeholder as its text.
fn read_text(kind: &TokenKind<'_>) -> Option<String> {
    match kind {
        TokenKind::Text(text) => Some(text.clone()),
        TokenKind::Path(text) | TokenKind::Expression(text) => Some((*text).to_owned()),
        TokenKind::Word(_) | TokenKind::Punctuation(_) | TokenKind::Unclosed(_) => None,
    }
}

/// A placeholder: `$find.order` or `{{ CEL }}`.
pub(crate) fn placeholder(input: &mut Input<'_>) -> Parsed<String> {
    take_token(
        input,
        "a placeholder such as `$input.x`",
        |kind| match kind {
            TokenKind::Path(text) | TokenKind::Expression(text) => Some((*text).to_owned()),
            TokenKind::Text(_)
            | TokenKind::Word(_)
            | TokenKind::Punctuation(_)
            | TokenKind::Unclosed(_) => None,
        },
    )
}

/// Reads a number, `true`, `false` or `null`.
pub(crate) fn literal(word: &str) -> Option<Value> {
    let named = [
        ("true", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("null", Value::Null),
    ];
    let found = named.into_iter().find(|(name, _)| is_same_word(word, name));
    found
        .map(|(_, value)| value)
        .or_else(|| read_number(word).map(Value::Number))
}

/// Reads a number as JSON writes it.
pub(crate) fn read_number(word: &str) -> Option<Number> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_begun = digits.starts_with(|c: char| c.is_ascii_digit());
    let is_padded = digits.len() > 1
        && digits.starts_with('0')
        && digits.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let is_number = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_begun || is_padded || !is_number || word.ends_with('.') {
        return None;
    }
    if word.bytes().any(|byte| b".eE".contains(&byte)) {
        return word.parse().ok().and_then(Number::from_f64);
    }
    let signed = word.parse::<i64>().ok().map(Number::from);
    signed.or_else(|| word.parse::<u64>().ok().map(Number::from))
}

/// Reads a name of 1 to 100 letters, digits, `.`, `_` and `-`.
pub(crate) fn name<'t>(need: &'static str) -> impl FnMut(&mut Input<'t>) -> Parsed<&'t str> {
    move |input| take_word(input, need, |word| is_name(word).then_some(word))
}

/// Whether a text has the form of a name, which is that of every name.
pub(crate) fn is_name(text: &str) -> bool {
    text.parse::<ToolName>().is_ok()
}

/// The words of a value. A placeholder is written without quotes.
pub(crate) fn write_value(value: &Value) -> String {
    match value {
        Value::String(text) => write_text(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(write_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => write_object(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// An object as inline JSON.
pub(crate) fn write_object(fields: &Map<String, Value>) -> String {
    let entry = |(key, value): (&String, &Value)| format!("{}: {}", quote(key), write_value(value));
    let entries: Vec<String> = fields.iter().map(entry).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A text in quotes, or as it is if it is one placeholder.
pub(crate) fn write_text(text: &str) -> String {
    if !text.starts_with(['$', '{']) {
        return quote(text);
    }
    match read_tokens(text).as_slice() {
        [token] if read_placeholder(&token.kind) == Some(text) => text.to_owned(),
        _ => quote(text),
    }
}

const fn read_placeholder<'t>(kind: &TokenKind<'t>) -> Option<&'t str> {
    match kind {
        TokenKind::Path(text) | TokenKind::Expression(text) => Some(text),
        TokenKind::Text(_)
        | TokenKind::Word(_)
        | TokenKind::Punctuation(_)
        | TokenKind::Unclosed(_) => None,
    }
}

fn nested_value(input: &mut Input<'_>, depth: usize) -> Parsed<Value> {
    let opening = next_kind(input);
    match opening {
        Some(TokenKind::Punctuation("{")) => nested_object(input, depth).map(Value::Object),
        Some(TokenKind::Punctuation("[")) => nested_list(input, depth).map(Value::Array),
        Some(TokenKind::Word(word)) if literal(word).is_none() => {
            refuse_bare_word(input)?;
            miss(input, VALUE)
        }
        Some(_) | None => take_token(input, VALUE, |kind| match kind {
            TokenKind::Word(word) => literal(word),
            TokenKind::Text(_)
            | TokenKind::Path(_)
            | TokenKind::Expression(_)
            | TokenKind::Punctuation(_)
            | TokenKind::Unclosed(_) => read_text(kind).map(Value::String),
        }),
    }
}

/// `yes` could be a text or `true`.
fn refuse_bare_word(input: &mut Input<'_>) -> Parsed<()> {
    let is_unclear = |word: &str| is_same_word(word, "yes") || is_same_word(word, "no");
    if let Some(TokenKind::Word(word)) = next_kind(input)
        && is_unclear(word)
    {
        return refuse(
            input,
            "Write `true` or `false`, or a text in quotes such as `\"yes\"`",
        );
    }
    Ok(())
}

fn nested_object(input: &mut Input<'_>, depth: usize) -> Parsed<Map<String, Value>> {
    check_depth(input, depth)?;
    let entry = |input: &mut Input<'_>| {
        let key = take_token(input, "a key in quotes", |kind| match kind {
            TokenKind::Text(text) => Some(text.clone()),
            TokenKind::Word(word) => is_name(word).then(|| (*word).to_owned()),
            TokenKind::Path(_)
            | TokenKind::Expression(_)
            | TokenKind::Punctuation(_)
            | TokenKind::Unclosed(_) => None,
        })?;
        mark(":")(input)?;
        Ok((key, nested_value(input, depth + 1)?))
    };
    mark("{")(input)?;
    let entries: Vec<(String, Value)> = separated(0.., entry, comma).parse_next(input)?;
    mark("}")(input)?;
    let count = entries.len();
    let fields: Map<String, Value> = entries.into_iter().collect();
    if fields.len() != count {
        return refuse(input, "An object has each key once");
    }
    Ok(fields)
}

fn nested_list(input: &mut Input<'_>, depth: usize) -> Parsed<Vec<Value>> {
    check_depth(input, depth)?;
    let item = |input: &mut Input<'_>| nested_value(input, depth + 1);
    mark("[")(input)?;
    let items = separated(0.., item, comma).parse_next(input)?;
    mark("]")(input)?;
    Ok(items)
}

fn check_depth(input: &mut Input<'_>, depth: usize) -> Parsed<()> {
    if depth < DEPTH_MAX {
        return Ok(());
    }
    let message = format!("Objects and lists are nested at most {DEPTH_MAX} deep");
    refuse(input, message)
}

/// A colon or an equals sign between a name and its value, if it is there.
pub(crate) fn optional_colon(input: &mut Input<'_>) -> Parsed<()> {
    let _colon = opt(alt((mark(":"), mark("=")))).parse_next(input)?;
    Ok(())
}
