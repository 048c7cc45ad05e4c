//! The lexical part of expressions: string literals, nesting, and `$name`.
//!
//! Owns how `$step-01` is told from text and how it is spelt for CEL, which has no `$` and no
//! hyphen in names. It must never know values.

/// Names that every run knows beside its steps.
pub(super) const ROOTS: [&str; 3] = ["input", "contact", "run"];

/// Says whether a step id exists in the plan.
pub(super) type Known<'a> = &'a dyn Fn(&str) -> bool;

/// Whether `id` is written like a default step id (`step-01`): then it is meant as a step even
/// where the plan has none of that name.
pub(super) fn looks_like_step(id: &str) -> bool {
    id.strip_prefix("step-").is_some_and(|digits| {
        (2..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Whether `name` stands for something: a root, a step, or what is written like one.
pub(super) fn is_root(name: &str, known: Known<'_>) -> bool {
    ROOTS.contains(&name) || name == "item" || looks_like_step(name) || known(name)
}

/// Splits what follows a `$` into the name and the rest. Step ids may hold dots, so the longest
/// name that is known wins; without one it ends at the first dot.
pub(super) fn split_name<'t>(text: &'t str, known: Known<'_>) -> Option<(&'t str, &'t str)> {
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        .unwrap_or(text.len());
    let word = text.get(..end)?;
    let mut ends: Vec<usize> = word.match_indices('.').map(|(at, _)| at).collect();
    ends.push(word.len());
    let known_end = ends
        .iter()
        .rev()
        .copied()
        .find(|&at| word.get(..at).is_some_and(|name| is_root(name, known)));
    let at = known_end.or_else(|| ends.first().copied())?;
    Some((text.get(..at)?, text.get(at..)?))
}

/// The identifier that stands for a step in CEL. Different ids have different identifiers.
pub(super) fn identifier(id: &str) -> String {
    if ROOTS.contains(&id) || id == "item" {
        return id.to_owned();
    }
    let mut name = "s_".to_owned();
    for c in id.chars() {
        match c {
            '-' => name.push_str("_0"),
            '_' => name.push_str("_1"),
            '.' => name.push_str("_2"),
            other => name.push(other),
        }
    }
    name
}

/// The name behind an identifier: the opposite of [`identifier`].
pub(super) fn name_of(identifier: &str) -> String {
    let Some(spelt) = identifier.strip_prefix("s_") else {
        return identifier.to_owned();
    };
    let mut id = String::new();
    let mut chars = spelt.chars();
    while let Some(c) = chars.next() {
        if c != '_' {
            id.push(c);
            continue;
        }
        match chars.next() {
            Some('0') => id.push('-'),
            Some('1') => id.push('_'),
            Some('2') => id.push('.'),
            // No spelling of ours: the user's own name.
            Some(_) | None => return identifier.to_owned(),
        }
    }
    id
}

/// Spells every `$name` outside string literals as a CEL identifier.
pub(super) fn rewrite(expression: &str, known: Known<'_>) -> String {
    let mut out = String::with_capacity(expression.len() + 8);
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let width = string_width(expression, rest).unwrap_or(c.len_utf8());
        let (token, after) = rest.split_at_checked(width).unwrap_or((rest, ""));
        match token
            .strip_prefix('$')
            .and_then(|_| split_name(after, known))
        {
            Some((name, after)) => {
                out.push_str(&identifier(name));
                rest = after;
            }
            None => {
                out.push_str(token);
                rest = after;
            }
        }
    }
    out
}

/// Deepest nesting of brackets outside string literals.
pub(super) fn nesting(expression: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        let width = string_width(expression, rest).unwrap_or(c.len_utf8());
        rest = rest.get(width..).unwrap_or_default();
    }
    deepest
}

/// Where a `{{` that opened just before `text` is closed: the position of its `}}`.
pub(super) fn closing(text: &str) -> Option<usize> {
    let mut depth: usize = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if depth == 0 && rest.starts_with("}}") {
            return Some(text.len() - rest.len());
        }
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let width = string_width(text, rest).unwrap_or(c.len_utf8());
        rest = rest.get(width..).unwrap_or_default();
    }
    None
}

/// Bytes of the string literal that `rest`, the end of `whole`, starts with; to the end of the
/// text if it is never closed. A literal after `r` has no escapes.
fn string_width(whole: &str, rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let close = if rest.starts_with(&triple) {
        triple
    } else {
        quote.to_string()
    };
    let raw = is_raw(whole.get(..whole.len() - rest.len()).unwrap_or_default());
    let mut at = close.len();
    while let Some(c) = rest.get(at..).and_then(|tail| tail.chars().next()) {
        if rest.get(at..).is_some_and(|tail| tail.starts_with(&close)) {
            return Some(at + close.len());
        }
        let escaped = if c == '\\' && !raw {
            rest.get(at + 1..)?.chars().next()
        } else {
            None
        };
        at += c.len_utf8() + escaped.map_or(0, char::len_utf8);
    }
    Some(rest.len())
}

fn is_raw(before: &str) -> bool {
    let prefix_start = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| {
            at + before
                .get(at..)
                .and_then(|s| s.chars().next())
                .map_or(1, char::len_utf8)
        });
    let prefix = before.get(prefix_start..).unwrap_or_default();
    matches!(prefix.to_ascii_lowercase().as_str(), "r" | "br" | "rb")
}
