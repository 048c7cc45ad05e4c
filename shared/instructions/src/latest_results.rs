//! The name of a repeated step in later lines. It means the result of the last time that gave one.
//!
//! Owns how such a name is written out in CEL. It must never change a text that is not a placeholder.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::conditions::CEL_CHARS_MAX;
use crate::quotes::quote;
use crate::tokens::{TokenKind, expression_bytes, read_tokens};

/// Words that CEL does not have as keys.
const CEL_KEYWORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The names of repeated steps, and the CEL of their last results.
#[derive(Debug, Default)]
pub(crate) struct LatestResults {
    by_name: BTreeMap<String, String>,
}

impl LatestResults {
    /// Adds a step by the ids of its times. The first one is its name.
    pub(crate) fn add(&mut self, ids: &[String]) {
        let Some((name, others)) = ids.split_first() else {
            return;
        };
        let later = others.iter().rev();
        let later: String = later
            .map(|id| format!("${id} != null ? ${id} : "))
            .collect();
        self.by_name
            .insert(name.clone(), format!("({later}${name})"));
    }

    /// The first of the steps that a text names, as a path or in an expression.
    pub(crate) fn find_name(&self, text: &str) -> Option<&str> {
        text.split('$')
            .skip(1)
            .find_map(|after| self.split_name(after))
            .map(|(name, _, _)| name)
    }

    /// Writes all names out in the fields of a step. `room` is the number of bytes that may be added.
    ///
    /// # Errors
    /// Why a name cannot be written out.
    pub(crate) fn write_out(
        &self,
        fields: &mut Map<String, Value>,
        room: &mut usize,
    ) -> Result<(), String> {
        if self.by_name.is_empty() {
            return Ok(());
        }
        for (field, value) in fields {
            let is_condition = field == "when";
            if let (true, Value::String(when)) = (is_condition, &mut *value) {
                if let Some(cel) = self.expression(when, room)? {
                    *when = cel;
                }
            } else {
                self.value(value, room)?;
            }
        }
        Ok(())
    }

    fn value(&self, value: &mut Value, room: &mut usize) -> Result<(), String> {
        match value {
            Value::String(text) => {
                if let Some(written) = self.text(text, room)? {
                    *text = written;
                }
                Ok(())
            }
            Value::Array(items) => items.iter_mut().try_for_each(|it| self.value(it, room)),
            Value::Object(fields) => fields.values_mut().try_for_each(|it| self.value(it, room)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// A path as a whole, or the expressions of a text. `None`: nothing changes.
    fn text(&self, text: &str, room: &mut usize) -> Result<Option<String>, String> {
        if let [token] = read_tokens(text).as_slice()
            && token.kind == TokenKind::Path(text)
        {
            return self.path(text, room);
        }
        let mut written = String::new();
        let mut rest = text;
        let mut is_changed = false;
        while let Some((before, opened)) = rest.find("{{").and_then(|at| rest.split_at_checked(at))
        {
            let Some((braces, after)) =
                expression_bytes(opened).and_then(|length| opened.split_at_checked(length))
            else {
                break;
            };
            written.push_str(before);
            let cel = self.expression(braces, room)?;
            is_changed |= cel.is_some();
            written.push_str(cel.as_deref().unwrap_or(braces));
            rest = after;
        }
        written.push_str(rest);
        Ok(is_changed.then_some(written))
    }

    fn path(&self, path: &str, room: &mut usize) -> Result<Option<String>, String> {
        let found = path.strip_prefix('$').and_then(|it| self.split_name(it));
        let Some((name, _, rest)) = found else {
            return Ok(None);
        };
        // A quoted key may hold a dot.
        let rest = if rest.contains('"') {
            rest.to_owned()
        } else {
            rest.split('.').map(cel_segment).collect()
        };
        let cel = self.expression(&format!("${name}{rest}"), room)?;
        Ok(cel.map(|cel| format!("{{{{ {cel} }}}}")))
    }

    /// An expression with all names written out. `None`: it names no repeated step.
    fn expression(&self, cel: &str, room: &mut usize) -> Result<Option<String>, String> {
        let Some(name) = self.find_name(cel) else {
            return Ok(None);
        };
        let refuse = |reason: &str| {
            Err(format!(
                "The step `{name}` is repeated, and {reason}; name one time, such as `${name}-2`"
            ))
        };
        let mut written = String::new();
        let mut rest = cel;
        while let Some(c) = rest.chars().next() {
            if is_raw_literal(&written, rest) {
                return refuse("this expression has a raw text");
            }
            let width = literal_bytes(rest).unwrap_or(c.len_utf8());
            let (part, after) = rest.split_at_checked(width).unwrap_or((rest, ""));
            match part.strip_prefix('$').and_then(|_| self.split_name(after)) {
                Some((_, latest, after)) => {
                    written.push_str(latest);
                    rest = after;
                    *room = room.saturating_sub(latest.len());
                }
                None => {
                    written.push_str(part);
                    rest = after;
                }
            }
            if *room == 0 || written.len() > cel.len() + 2 * CEL_CHARS_MAX {
                return refuse("the results of all its times make this expression too long");
            }
        }
        if written.chars().count() > CEL_CHARS_MAX {
            return refuse("the results of all its times make this expression too long");
        }
        Ok(Some(written))
    }

    /// The name at the start of a text, its last result, and the rest of the text.
    fn split_name<'s, 't>(&'s self, text: &'t str) -> Option<(&'s str, &'s str, &'t str)> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
        let word = text.get(..end)?;
        let ends = word.match_indices('.').map(|(dot, _)| dot).chain([end]);
        let mut found = ends.filter_map(|end| {
            let (name, latest) = self.by_name.get_key_value(word.get(..end)?)?;
            Some((name.as_str(), latest.as_str(), text.get(end..)?))
        });
        found.next()
    }
}

/// A key of a path, perhaps with an index. A key that is not a name of CEL is in brackets.
fn cel_segment(segment: &str) -> String {
    let (key, index) = segment.split_at(segment.find('[').unwrap_or(segment.len()));
    let begins = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_name = begins && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match key {
        "" => index.to_owned(),
        _ if is_name && !CEL_KEYWORDS.contains(&key) => format!(".{key}{index}"),
        _ => format!("[{}]{index}", quote(key)),
    }
}

/// Whether a text in CEL begins that has no escapes, or three quotes.
fn is_raw_literal(before: &str, rest: &str) -> bool {
    let is_quote = rest.starts_with(['"', '\'']);
    is_quote
        && (before.ends_with(['r', 'R']) || rest.starts_with("\"\"\"") || rest.starts_with("'''"))
}

/// Bytes of the text in quotes at the start of CEL.
fn literal_bytes(cel: &str) -> Option<usize> {
    let quote = cel.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut characters = cel.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == quote {
            return Some(at + 1);
        }
        if c == '\\' {
            characters.next();
        }
    }
    Some(cel.len())
}
