//! How single tags of a contact come and go.
//!
//! The change is decided here and not by its sender, so that it loses no other change of the same contact.

use std::collections::BTreeSet;

use holdpoint_contracts::contact::{TAG_CHARS_MAX, TAGS_MAX, TagChange};
use serde_json::{Map, Value};

use crate::domain::refusal::Refusal;

/// The field with the tags: a list of unique texts.
const TAGS: &str = "tags";

/// The fields after the change. A tag that is there is not added again, and one that is missing is not removed.
///
/// # Errors
/// [`Refusal::InvalidTags`]
pub(crate) fn change_tags(
    mut fields: Map<String, Value>,
    change: &TagChange,
) -> Result<Map<String, Value>, Refusal> {
    if *change == TagChange::default() {
        return Ok(fields);
    }
    let (add, remove) = (read_tags(&change.add)?, read_tags(&change.remove)?);
    let mut tags = known_tags(fields.get(TAGS))?;
    let before = tags.len();
    tags.retain(|tag| !remove.contains(&tag.as_str()));
    for tag in add {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    // A list that was put too long can still become shorter.
    if tags.len() > TAGS_MAX.max(before) {
        let text = format!(
            "the contact would have {} tags; at most {TAGS_MAX} are allowed",
            tags.len()
        );
        return Err(Refusal::InvalidTags(text));
    }
    if !tags.is_empty() || fields.contains_key(TAGS) {
        fields.insert(TAGS.to_owned(), Value::from(tags));
    }
    Ok(fields)
}

/// Whether the contact has the tag.
pub(crate) fn has_tag(fields: &Map<String, Value>, tag: &str) -> bool {
    let tags = fields.get(TAGS).and_then(Value::as_array);
    tags.is_some_and(|tags| tags.iter().any(|known| known == tag))
}

/// The tags of a change, without blanks around them.
fn read_tags(tags: &[String]) -> Result<Vec<&str>, Refusal> {
    if tags.len() > TAGS_MAX {
        let text = format!(
            "{} tags are named; at most {TAGS_MAX} are allowed",
            tags.len()
        );
        return Err(Refusal::InvalidTags(text));
    }
    let read = |tag: &String| {
        let chars = tag.trim().chars();
        (1..=TAG_CHARS_MAX).contains(&chars.clone().count()) && !chars.clone().any(is_invisible)
    };
    if tags.iter().all(read) {
        return Ok(tags.iter().map(|tag| tag.trim()).collect());
    }
    let text = format!(
        "invalid tag; expected 1 to {TAG_CHARS_MAX} characters without line breaks and invisible characters"
    );
    Err(Refusal::InvalidTags(text))
}

/// Control characters, line and paragraph separators, and characters that change the direction of a text or have no
/// width.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

/// The tags that the contact has. A field that is not a list of texts is not replaced.
fn known_tags(field: Option<&Value>) -> Result<Vec<String>, Refusal> {
    let texts = match field {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(value) => value.as_array().and_then(|tags| {
            let texts = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        }),
    };
    let Some(mut tags) = texts else {
        let text = "`tags` of the contact is not a list of texts; set it to such a list first";
        return Err(Refusal::InvalidTags(text.to_owned()));
    };
    let mut seen = BTreeSet::new();
    tags.retain(|tag| seen.insert(tag.clone()));
    Ok(tags)
}
