//! The names of the fields that contacts have, for the warnings of agents. They are counted, so that no warning reads the
//! contacts.

use std::collections::BTreeSet;

use crate::domain::effect::Effect;
use crate::domain::model::contact::Contact;

/// Most names of one contact that are counted, in their order.
const NAMES_MAX: usize = 200;

/// Longest name that is counted, in characters.
const NAME_CHARS_MAX: usize = 100;

/// The names that a contact gets or loses. `known` is the contact before the change.
pub(crate) fn contact_fields(known: Option<&Contact>, next: &Contact) -> Option<Effect> {
    let before = known.map(counted_names).unwrap_or_default();
    let after = counted_names(next);
    let names = |all: &BTreeSet<&str>, other: &BTreeSet<&str>| -> Vec<String> {
        let only = all.difference(other);
        only.map(|name| (*name).to_owned()).collect()
    };
    let (added, removed) = (names(&after, &before), names(&before, &after));
    let is_changed = !added.is_empty() || !removed.is_empty();
    is_changed.then(|| Effect::ContactFields {
        workspace: next.workspace.clone(),
        added,
        removed,
    })
}

fn counted_names(contact: &Contact) -> BTreeSet<&str> {
    let is_counted = |name: &&String| {
        // Postgres has no text with a NUL.
        !name.contains('\0') && name.chars().count() <= NAME_CHARS_MAX
    };
    let names: BTreeSet<&str> = contact
        .fields
        .keys()
        .filter(is_counted)
        .map(String::as_str)
        .collect();
    names.into_iter().take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn contact(fields: &Value) -> Contact {
        Contact {
            workspace: "acme".parse().unwrap(),
            id: "ada".parse().unwrap(),
            version: 1,
            fields: fields.as_object().cloned().unwrap_or_else(Map::new),
            deleted: false,
            erasure: None,
        }
    }

    fn change(before: Option<&Value>, after: &Value) -> Option<(Vec<String>, Vec<String>)> {
        let before = before.map(contact);
        let effect = contact_fields(before.as_ref(), &contact(after))?;
        let Effect::ContactFields { added, removed, .. } = effect else {
            panic!("{effect:?}");
        };
        Some((added, removed))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_new_and_lost_names_are_counted() {
        let fields = json!({ "email": "a@x.example", "city": "Lisbon" });
        let created = (names(&["city", "email"]), Vec::new());
        assert_eq!(change(None, &fields), Some(created));
        let other = json!({ "email": "b@x.example", "stage": null });
        let changed = (names(&["stage"]), names(&["city"]));
        assert_eq!(change(Some(&fields), &other), Some(changed));
        assert_eq!(change(Some(&other), &other), None);
        let erased = (Vec::new(), names(&["email", "stage"]));
        assert_eq!(change(Some(&other), &json!({})), Some(erased));
    }

    /// A hostile contact writes few rows, and none that Postgres refuses.
    #[test]
    fn the_names_of_one_contact_are_bounded() {
        let many: Map<String, Value> = (0..1_000)
            .map(|number| (format!("f{number:04}"), json!(1)))
            .collect();
        let (added, _) = change(None, &Value::Object(many)).unwrap();
        assert_eq!((added.len(), &*added[199]), (200, "f0199"));
        let odd = json!({ "a\0b": 1, "x".repeat(101): 1, "ä".repeat(100): 1 });
        let (added, _) = change(None, &odd).unwrap();
        assert_eq!(added, ["ä".repeat(100)]);
    }
}
