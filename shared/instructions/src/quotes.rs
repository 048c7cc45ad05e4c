//! Quoted texts: `"…"` or `“…”` with the escapes of JSON.

use winnow::ModalResult;
use winnow::Parser as _;
use winnow::combinator::{alt, dispatch, empty, fail, preceded, repeat};
use winnow::error::EmptyError;
use winnow::stream::LocatingSlice;
use winnow::token::{any, take, take_till};

use crate::lines::is_hidden;

/// The characters of a line.
pub(crate) type Characters<'l> = LocatingSlice<&'l str>;

/// Reads a quoted text from its opening quote to its closing one.
pub(crate) fn quoted(input: &mut Characters<'_>) -> ModalResult<String, EmptyError> {
    let mut closing = dispatch! { any;
        '"' => empty.value('"'),
        '“' => empty.value('”'),
        _ => fail,
    }
    .parse_next(input)?;
    let plain = take_till(1.., move |c| c == closing || c == '\\').map(str::to_owned);
    let escaped = preceded('\\', escape).map(String::from);
    let pieces = repeat(0.., alt((plain, escaped)));
    let text = pieces
        .fold(String::new, |text, piece: String| text + &piece)
        .parse_next(input)?;
    closing.parse_next(input)?;
    Ok(text)
}

/// The quoted form of a text, which [`quoted`] and CEL read as the same text.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other if is_hidden(other) => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// What follows a backslash.
fn escape(input: &mut Characters<'_>) -> ModalResult<char, EmptyError> {
    dispatch! { any;
        c @ ('"' | '”' | '\\' | '/') => empty.value(c),
        'n' => empty.value('\n'),
        'r' => empty.value('\r'),
        't' => empty.value('\t'),
        'b' => empty.value('\u{8}'),
        'f' => empty.value('\u{c}'),
        'u' => take(4_usize).verify_map(character_of_code),
        _ => fail,
    }
    .parse_next(input)
}

fn character_of_code(hex: &str) -> Option<char> {
    let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
    char::from_u32(code)
}
