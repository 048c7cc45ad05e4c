//! Recipients of questions, handoffs and approvals: `@user.nina`, `@role.sales`, or a placeholder.

use holdpoint_holds::Recipient;
use holdpoint_holds::limits::RECIPIENTS_MAX;
use serde_json::Value;
use winnow::Parser as _;
use winnow::combinator::{alt, separated};

use crate::line_parser::{
    Input, Parsed, comma, is_same_word, phrase, refuse_at, take_token, take_word, tokens_left,
};
use crate::tokens::TokenKind;

const RECIPIENT: &str = "a recipient such as `@user.nina` or `@role.sales`";

/// One recipient, or several with `and`. One is a text, and several are a list.
pub(crate) fn recipients(input: &mut Input<'_>) -> Parsed<Value> {
    let separator = alt((phrase(&["and", "or"]), comma));
    let found: Vec<String> =
        separated(1..=RECIPIENTS_MAX, recipient, separator).parse_next(input)?;
    match found.as_slice() {
        [one] => Ok(Value::String(one.clone())),
        _ => Ok(Value::Array(found.into_iter().map(Value::String).collect())),
    }
}

/// People of whom one decides: `@role.manager or @user.ada`. `and` could mean that each of them must agree.
pub(crate) fn approvers(input: &mut Input<'_>) -> Parsed<Value> {
    let start = tokens_left(input);
    let found = recipients(input)?;
    let taken = input.input.previous_tokens();
    let taken = taken.take(start - tokens_left(input));
    let has_and = taken
        .into_iter()
        .any(|token| matches!(&token.kind, TokenKind::Word(word) if is_same_word(word, "and")));
    if has_and {
        let message = "It is not clear whether each of them must agree; write `or` if one is enough, or `steps` with `need: 2`";
        return refuse_at(input, start, message);
    }
    Ok(found)
}

/// One recipient.
pub(crate) fn recipient(input: &mut Input<'_>) -> Parsed<String> {
    take_token(input, RECIPIENT, |kind| match kind {
        TokenKind::Word(word) => Recipient::is_valid(word).then(|| (*word).to_owned()),
        TokenKind::Path(text) | TokenKind::Expression(text) => Some((*text).to_owned()),
        TokenKind::Text(_) | TokenKind::Punctuation(_) | TokenKind::Unclosed(_) => None,
    })
}

/// The words of recipients. `None`: a value that is not one.
pub(crate) fn write_recipients(value: &Value) -> Option<String> {
    match value {
        Value::String(one) => Some(one.clone()),
        Value::Array(many) => {
            let many: Option<Vec<&str>> = many.iter().map(Value::as_str).collect();
            // `or` has one meaning after `by`, and is the same list elsewhere.
            Some(many?.join(" or "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// An address of a mail: `ada@x.example`.
pub(crate) fn address(input: &mut Input<'_>) -> Parsed<String> {
    take_word(input, "an address such as `ada@x.example`", |word| {
        is_address(word).then(|| word.to_owned())
    })
}

/// Whether a text looks like an address of a mail.
pub(crate) fn is_address(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(user, host)| {
        let is_host = host.contains('.') && !host.contains('@') && !host.starts_with('.');
        !user.is_empty() && is_host && !text.contains(char::is_whitespace)
    })
}
