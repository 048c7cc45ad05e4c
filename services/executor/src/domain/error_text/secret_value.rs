//! Where the value of a named secret ends: quoted, in brackets, escaped within another text, or cut off.
//!
//! A regular expression cannot count the backslashes that tell a closing quote from an escaped one.

/// Prefixes of literals, as in `b'…'` or `br"…"`. After any other word a quote is an apostrophe, as in
/// `can't`, or ends the text around the value.
const PREFIXES: [&str; 9] = ["", "b", "r", "u", "f", "br", "rb", "fr", "rf"];

/// The text after the value that it begins with.
pub(super) fn skip(text: &str) -> &str {
    let mut rest = text;
    loop {
        let Some(next) = rest.chars().next() else {
            return rest;
        };
        let at = text.len() - rest.len();
        rest = match next {
            '\\' if quote_at(rest).is_none() => rest.trim_start_matches('\\'),
            '\\' | '"' | '\'' if is_prefix(text, at) || ends_quoted(text, at) => skip_quoted(rest),
            '(' | '[' | '{' => skip_brackets(rest),
            '\\' | '"' | '\'' | '`' | ',' | ';' | '&' | ')' | ']' | '}' => return rest,
            _ if next.is_whitespace() => return rest,
            _ => after(rest, next),
        };
    }
}

fn is_prefix(text: &str, at: usize) -> bool {
    text.get(..at)
        .is_some_and(|before| PREFIXES.iter().any(|one| before.eq_ignore_ascii_case(one)))
}

/// Whether a quoted text ends just before, as in the SQL text `'it''s'`.
fn ends_quoted(text: &str, at: usize) -> bool {
    text.get(..at)
        .is_some_and(|before| before.ends_with(['"', '\'']))
}

fn after(text: &str, next: char) -> &str {
    text.get(next.len_utf8()..).unwrap_or_default()
}

/// The quote that the text begins with, and the backslashes before it.
fn quote_at(text: &str) -> Option<(usize, char)> {
    let quote = text.trim_start_matches('\\');
    let escapes = text.len() - quote.len();
    let quote = quote.chars().next()?;
    matches!(quote, '"' | '\'').then_some((escapes, quote))
}

/// The text after the quoted text that it begins with; empty where that was cut off.
fn skip_quoted(text: &str) -> &str {
    let Some((escapes, quote)) = quote_at(text) else {
        return "";
    };
    let inside = text.get(escapes + 1..).unwrap_or_default();
    let triple: String = [quote, quote].iter().collect();
    if let Some(inside) = inside.strip_prefix(&triple).filter(|_| escapes == 0) {
        let end = inside.find(&format!("{quote}{triple}"));
        return end
            .and_then(|end| inside.get(end + 3..))
            .unwrap_or_default();
    }
    let mut before = 0;
    for (at, next) in inside.char_indices() {
        if next == '\\' {
            before += 1;
            continue;
        }
        // Each text within a text doubles the backslashes and adds one: 0, 1, 3, 7. Fewer belong to the
        // text around it, which ends here.
        let is_end = before < escapes || before % (2 * (escapes + 1)) == escapes;
        if next == quote && is_end {
            return inside.get(at + 1..).unwrap_or_default();
        }
        before = 0;
    }
    ""
}

/// The text after the bracket that matches the first one. Without a match it is the rest of the line, so
/// that a stray bracket hides no other line.
fn skip_brackets(text: &str) -> &str {
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some(next) = rest.chars().next() {
        rest = match next {
            '"' | '\'' => skip_quoted(rest),
            '\\' if quote_at(rest).is_some() => skip_quoted(rest),
            '\\' => rest.trim_start_matches('\\'),
            _ => after(rest, next),
        };
        match next {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest;
        }
    }
    text.find('\n')
        .and_then(|end| text.get(end..))
        .unwrap_or_default()
}
