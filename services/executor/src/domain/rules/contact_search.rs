//! Which contacts a search of a step finds.

use holdpoint_contracts::executor::{FOUND_MAX, SearchContacts};
use serde_json::{Map, Value};

use crate::domain::model::contact::{Contact, comparable_email};
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_tags::has_tag;

/// Most fields of one search.
const FIELDS_MAX: usize = 20;

/// Longest text of a search, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// Fields that a text is searched in.
const TEXT_FIELDS: [&str; 2] = ["name", "email"];

/// Checks the limits of a search.
///
/// # Errors
/// [`Refusal::InvalidSearch`]
pub fn check_search(search: &SearchContacts) -> Result<(), Refusal> {
    let refused = |text: String| Err(Refusal::InvalidSearch(text));
    if !(1..=FOUND_MAX).contains(&search.limit) {
        let limit = search.limit;
        return refused(format!(
            "invalid `limit` {limit}; expected 1 to {FOUND_MAX}"
        ));
    }
    if search.fields.is_empty() && search.tag.is_none() && search.text.is_none() {
        return refused("a search needs at least one of `fields`, `tag` and `text`".to_owned());
    }
    if search.fields.len() > FIELDS_MAX {
        let count = search.fields.len();
        return refused(format!(
            "`fields` has {count} fields; at most {FIELDS_MAX} are allowed"
        ));
    }
    let chars = search
        .text
        .as_deref()
        .map(|text| text.trim().chars().count());
    if chars.is_some_and(|chars| !(1..=TEXT_CHARS_MAX).contains(&chars)) {
        return refused(format!(
            "invalid `text`; expected 1 to {TEXT_CHARS_MAX} characters"
        ));
    }
    Ok(())
}

/// Whether a contact satisfies all that a search names.
#[must_use]
pub fn is_found(contact: &Contact, search: &SearchContacts) -> bool {
    let fields = &contact.fields;
    let has_text = |text: &str| contains_text(fields, &text.trim().to_lowercase());
    search
        .fields
        .iter()
        .all(|(name, value)| match name.as_str() {
            "id" => value == contact.id.as_str(),
            "email" => is_same_address(fields.get(name), value),
            _ => fields.get(name).unwrap_or(&Value::Null) == value,
        })
        && search
            .tag
            .as_deref()
            .is_none_or(|tag| has_tag(fields, tag.trim()))
        && search.text.as_deref().is_none_or(has_text)
}

/// `text` is in lower case.
fn contains_text(fields: &Map<String, Value>, text: &str) -> bool {
    let texts = TEXT_FIELDS
        .iter()
        .filter_map(|name| fields.get(*name)?.as_str());
    texts
        .into_iter()
        .any(|known| known.to_lowercase().contains(text))
}

fn is_same_address(known: Option<&Value>, wanted: &Value) -> bool {
    let known = known.unwrap_or(&Value::Null);
    match (known, wanted) {
        (Value::String(known), Value::String(wanted)) => {
            comparable_email(known) == comparable_email(wanted)
        }
        (known, wanted) => known == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn search(value: Value) -> SearchContacts {
        let Value::Object(mut fields) = value else {
            panic!("no object");
        };
        fields.insert("token".to_owned(), json!("hps_x"));
        fields.entry("limit").or_insert(json!(10));
        serde_json::from_value(Value::Object(fields)).unwrap()
    }

    fn contact(id: &str, fields: &Value) -> Contact {
        Contact {
            workspace: "acme".parse().unwrap(),
            id: id.parse().unwrap(),
            version: 1,
            fields: fields.as_object().cloned().unwrap(),
            deleted: false,
            erasure: None,
        }
    }

    /// Words 5: equality of fields, a tag, and a text in the name or the address.
    #[test]
    fn a_contact_satisfies_all_that_is_named() {
        let fields = json!({
            "name": "Ada Lindqvist", "email": "Ada@X.example", "stage": "won", "score": 5,
            "company": { "name": "X" }, "tags": ["vip", "eu"], "note": null,
        });
        let ada = contact("ada", &fields);
        for found in [
            json!({ "fields": { "stage": "won" } }),
            json!({ "fields": { "score": 5, "company": { "name": "X" } } }),
            json!({ "fields": { "email": " ada@x.EXAMPLE" } }),
            json!({ "fields": { "id": "ada" } }),
            json!({ "fields": { "note": null, "phone": null } }),
            json!({ "fields": { "tags": ["vip", "eu"] } }),
            json!({ "tag": "vip" }),
            json!({ "tag": " eu " }),
            json!({ "text": "LIND" }),
            json!({ "text": "@x.example" }),
            json!({ "fields": { "stage": "won" }, "tag": "vip", "text": "ada" }),
        ] {
            assert!(is_found(&ada, &search(found.clone())), "{found}");
        }
        for other in [
            json!({ "fields": { "stage": "Won" } }),
            json!({ "fields": { "score": "5" } }),
            json!({ "fields": { "phone": "1" } }),
            json!({ "fields": { "stage": null } }),
            json!({ "fields": { "email": null } }),
            json!({ "fields": { "company.name": "X" } }),
            json!({ "fields": { "id": "bob" } }),
            json!({ "tag": "vi" }),
            json!({ "tag": "VIP" }),
            json!({ "text": "won" }),
            json!({ "fields": { "stage": "won" }, "tag": "us" }),
            json!({ "tag": "vip", "text": "bob" }),
        ] {
            assert!(!is_found(&ada, &search(other.clone())), "{other}");
        }
        for tags in [json!("vip"), json!({ "vip": 1 }), json!([["vip"]])] {
            let odd = contact("odd", &json!({ "tags": tags, "name": 5 }));
            assert!(!is_found(&odd, &search(json!({ "tag": "vip" }))));
            assert!(!is_found(&odd, &search(json!({ "text": "5" }))));
        }
    }

    #[test]
    fn a_search_has_limits() {
        let many: Map<String, Value> = (0..=FIELDS_MAX)
            .map(|n| (n.to_string(), json!(n)))
            .collect();
        let long = "ü".repeat(TEXT_CHARS_MAX + 1);
        for (refused, message) in [
            (
                json!({}),
                "a search needs at least one of `fields`, `tag` and `text`",
            ),
            (
                json!({ "tag": "x", "limit": 0 }),
                "invalid `limit` 0; expected 1 to 100",
            ),
            (
                json!({ "tag": "x", "limit": 101 }),
                "invalid `limit` 101; expected 1 to 100",
            ),
            (
                json!({ "fields": many }),
                "`fields` has 21 fields; at most 20 are allowed",
            ),
            (
                json!({ "text": " " }),
                "invalid `text`; expected 1 to 200 characters",
            ),
            (
                json!({ "text": long }),
                "invalid `text`; expected 1 to 200 characters",
            ),
        ] {
            let refusal = check_search(&search(refused)).unwrap_err();
            assert_eq!(refusal.problem().detail, message);
            assert_eq!(refusal.problem().status, 422);
        }
        let text = search(json!({ "text": long.chars().skip(1).collect::<String>() }));
        assert_eq!(check_search(&text), Ok(()));
    }
}
