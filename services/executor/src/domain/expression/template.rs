//! How a text in the arguments is read: one placeholder, a template, or plain.
//!
//! Owns the path notation (`$step-01.orders[0].id`) and the cutting of `{{ }}`. It must never
//! evaluate anything but a path.

use std::fmt;

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde_json::Value;

use super::diagnostic::diagnostic;
use super::scope::Scope;
use super::syntax::{self, Known};
use crate::domain::text::cut;

/// How a whole text is to be understood.
pub(super) enum Text<'t> {
    /// One `$` placeholder and nothing else.
    Path(Path),
    /// Starts as a placeholder and goes on as something else.
    Malformed,
    /// Text with any number of `{{ }}`, including none.
    Template(&'t str),
    /// As `Template`, without the `$` that escaped another.
    Escaped(&'t str),
}

pub(super) enum Piece<'t> {
    Literal(&'t str),
    /// CEL between `{{` and `}}`, trimmed.
    Expression(&'t str),
}

/// A way from a root into its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// `input`, `contact`, `run`, `item` or a step id.
    pub root: String,
    /// The keys and indexes to follow.
    pub segments: Vec<Segment>,
}

/// One move along a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathError {
    /// The name or index is not there.
    Absent(String),
    /// What holds it is no object or list, for example `null`.
    NoContainer,
}

pub(super) fn read<'t>(text: &'t str, known: Known<'_>) -> Text<'t> {
    let Some(after) = text.strip_prefix('$') else {
        return Text::Template(text);
    };
    let escaped = after.strip_prefix('$');
    if escaped.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Text::Escaped(after);
    }
    match syntax::split_name(after, known) {
        Some((name, rest)) if syntax::is_root(name, known) => match segments(rest) {
            Some(segments) => Text::Path(Path {
                root: name.to_owned(),
                segments,
            }),
            None => Text::Malformed,
        },
        Some(_) | None => Text::Template(text),
    }
}

/// The known names that a text which is no placeholder may have meant, if it has the form of one.
pub(super) fn misspelt<'n>(
    text: &str,
    steps: impl Iterator<Item = &'n String>,
) -> Option<Vec<String>> {
    let after = text.strip_prefix('$')?;
    let (name, rest) = syntax::split_name(after, &|_| false)?;
    segments(rest).filter(|path| !path.is_empty())?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let near = nearest(
        name,
        syntax::ROOTS.into_iter().chain(steps.map(String::as_str)),
    );
    let near: Vec<String> = near.into_iter().map(|found| format!("${found}")).collect();
    (!near.is_empty()).then_some(near)
}

/// Cuts a template at its `{{ }}`.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Box<FieldError>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once("{{") {
        let unclosed = || {
            let text = cut(&format!("{{{{{after}"), 80);
            Box::new(diagnostic(&text, "A `{{` is not closed by `}}`."))
        };
        let end = syntax::closing(after).ok_or_else(unclosed)?;
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        pieces.push(Piece::Expression(
            after.get(..end).unwrap_or_default().trim(),
        ));
        rest = after.get(end + 2..).unwrap_or_default();
    }
    if !rest.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

/// Reads `.key`, `[0]` and `["key"]` to the end of the text.
fn segments(text: &str) -> Option<Vec<Segment>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (segment, after) = match rest.strip_prefix('.') {
            Some(key) => key_segment(key)?,
            None => bracket_segment(rest.strip_prefix('[')?)?,
        };
        found.push(segment);
        rest = after;
    }
    Some(found)
}

fn key_segment(text: &str) -> Option<(Segment, &str)> {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
        .unwrap_or(text.len());
    let (key, rest) = text.split_at_checked(end)?;
    (!key.is_empty()).then(|| (Segment::Key(key.to_owned()), rest))
}

fn bracket_segment(text: &str) -> Option<(Segment, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (key, rest) = quoted.split_once(quote)?;
            return Some((Segment::Key(key.to_owned()), rest.strip_prefix(']')?));
        }
    }
    let (index, rest) = text.split_once(']')?;
    let digits = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
    let index = digits.then(|| index.parse().ok()).flatten()?;
    Some((Segment::Index(index), rest))
}

impl Path {
    /// Whether it is the other path, or leads to what holds its value.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.root == other.root && other.segments.starts_with(&self.segments)
    }

    /// The value at the end of the path.
    pub(super) fn find<'s>(&self, scope: &'s Scope<'_>) -> Result<&'s Value, PathError> {
        let absent = || PathError::Absent(self.root.clone());
        let mut at = scope.root(&self.root).ok_or_else(absent)?;
        if scope.has_no_result(&self.root) {
            return Ok(at);
        }
        for segment in &self.segments {
            let next = match (segment, at) {
                (Segment::Key(key), Value::Object(fields)) => fields.get(key),
                (Segment::Index(index), Value::Array(items)) => items.get(*index),
                (Segment::Key(_) | Segment::Index(_), _) => return Err(PathError::NoContainer),
            };
            at = next.ok_or_else(|| PathError::Absent(segment.name()))?;
        }
        Ok(at)
    }
}

impl Segment {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Key(key) => key.clone(),
            Self::Index(index) => index.to_string(),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_root = syntax::ROOTS.contains(&self.root.as_str()) || self.root == "item";
        let sign = if is_root { "" } else { "$" };
        write!(f, "{sign}{}", self.root)?;
        for segment in &self.segments {
            match segment {
                Segment::Key(key) if key.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    write!(f, ".{key}")?;
                }
                Segment::Key(key) => write!(f, "[\"{key}\"]")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
