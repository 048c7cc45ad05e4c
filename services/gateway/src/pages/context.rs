//! The context of a request in readable form: known sections under their names, other data as lists and
//! pairs, and JSON only for data that is nested too deeply.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::sanitize::{clean, humanize, one_line};

/// Known sections in reading order.
const SECTIONS: [(&str, &str); 10] = [
    ("recommended_action", "Recommended action"),
    ("contact", "Contact"),
    ("findings", "Agent findings"),
    ("deals", "Deals"),
    ("activities", "Activities"),
    ("emails", "Emails"),
    ("searches", "Searches"),
    ("conditions", "Conditions"),
    ("actions", "Earlier steps"),
    ("omitted", "Omitted"),
];
/// Nesting of lists and pairs; deeper data is shown as JSON.
const DEPTH_MAX: usize = 3;
/// Shown entries of one list; the others are counted.
const ENTRIES_MAX: usize = 50;
/// Longest text that is shown at once, in characters; a longer one opens by a click.
const TEXT_MAX: usize = 1_200;

pub(super) fn sections(context: &Value) -> Markup {
    let Value::Object(fields) = context else {
        return if context.is_null() {
            html! {}
        } else {
            html! { section.context { (value(context, 0)) } }
        };
    };
    if fields.len() == 1 && fields.get("omitted") == Some(&Value::Bool(true)) {
        return html! { p.muted { "The context is too long for a list. Open the request to see it." } };
    }
    let known = |name: &str| SECTIONS.iter().any(|(key, _)| *key == name);
    let is_short = |value: &Value| value.as_str().is_none_or(|text| text.len() <= 120);
    // Short values are shown as pairs.
    let (others, rest): (Vec<_>, Vec<_>) = fields
        .iter()
        .filter(|(name, value)| !known(name) && !is_empty(value))
        .partition(|(_, value)| !is_nested(value) && is_short(value));
    html! {
        @for (key, heading) in SECTIONS {
            @let found = fields.get(key).map(|found| without_repetition(key, found, fields));
            @if let Some(found) = found.filter(|found| !is_empty(found)) {
                section.context { h3 { (heading) } (section(key, &found)) }
            }
        }
        @if !others.is_empty() {
            section.context { (pairs(others.into_iter(), 0)) }
        }
        @for (name, found) in rest {
            section.context { h3 { (humanize(name)) } (value(found, 0)) }
        }
    }
}

/// Removes what another section shows: deals of the contact, and emails among the activities.
fn without_repetition<'v>(key: &str, found: &'v Value, all: &Map<String, Value>) -> Cow<'v, Value> {
    let list = |name: &str| all.get(name).and_then(Value::as_array);
    match (key, found) {
        ("contact", Value::Object(fields)) => {
            let is_shown = |name: &str| list(name).is_some_and(|list| !list.is_empty());
            let kept = fields.iter().filter(|(name, _)| !is_shown(name));
            let kept = kept.map(|(name, field)| (name.clone(), field.clone()));
            Cow::Owned(Value::Object(kept.collect()))
        }
        ("emails", Value::Array(mails)) => {
            let activities = list("activities").map(Vec::as_slice).unwrap_or_default();
            let subject = |one: &Value| one.get("subject").cloned().filter(Value::is_string);
            let is_shown = |mail: &&Value| {
                let wanted = subject(mail);
                wanted.is_some() && activities.iter().any(|one| subject(one) == wanted)
            };
            let kept = mails.iter().filter(|mail| !is_shown(mail));
            Cow::Owned(kept.cloned().collect())
        }
        _ => Cow::Borrowed(found),
    }
}

fn section(key: &str, found: &Value) -> Markup {
    match (key, found) {
        ("recommended_action", Value::String(text)) => html! { p.advice { (long(text)) } },
        ("contact", Value::Object(fields)) => contact(fields),
        ("conditions", Value::Array(all)) => list(all, condition),
        ("findings", Value::Array(all)) => list(all, finding),
        ("actions", Value::Array(all)) => earlier(all),
        ("emails" | "activities" | "deals" | "searches", Value::Array(all)) => list(all, entry),
        _ => value(found, 0),
    }
}

fn contact(fields: &Map<String, Value>) -> Markup {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let name = text("name").or_else(|| text("id"));
    let rest = fields.iter().filter(|(key, value)| {
        // The name replaces the id.
        !matches!(key.as_str(), "name" | "email" | "id") && !is_empty(value)
    });
    html! {
        @if let Some(name) = name { p.lead { (one_line(name, 200)) } }
        @if let Some(email) = text("email") { p.muted { (one_line(email, 320)) } }
        (pairs(rest, 0))
    }
}

fn finding(one: &Value) -> Markup {
    let Some(found) = one.get("finding") else {
        return value(one, 1);
    };
    let step = one.get("step").and_then(Value::as_str);
    html! {
        (value(found, 1))
        @if let Some(step) = step { span.muted { " · " (one_line(step, 100)) } }
    }
}

/// One line per step; the page of the run shows more.
fn earlier(all: &[Value]) -> Markup {
    let words = |one: &Value| {
        let text = |name: &str| one.get(name).and_then(Value::as_str);
        let what = text("tool").or_else(|| text("kind"));
        let words = [text("step"), what, text("status")].into_iter().flatten();
        one_line(&words.collect::<Vec<_>>().join(" · "), 200)
    };
    html! {
        details {
            summary { (all.len()) @if all.len() == 1 { " step" } @else { " steps" } }
            (list(all, |one| html! { (words(one)) }))
        }
    }
}

fn condition(one: &Value) -> Markup {
    let Some(expression) = one.get("expression").and_then(Value::as_str) else {
        return entry(one);
    };
    html! {
        code { (one_line(expression, 400)) }
        @if let Some(outcome) = one.get("outcome") { " → " strong { (scalar(outcome)) } }
        @if let Some(Value::Object(seen)) = one.get("values") { (pairs(seen.iter(), 1)) }
    }
}

/// An email, call or deal: its name, then the other fields on one line.
fn entry(one: &Value) -> Markup {
    let Value::Object(fields) = one else {
        return value(one, 1);
    };
    let mut leads = ["subject", "name", "title", "query", "kind"].into_iter();
    let Some(key) = leads.find(|key| fields.get(*key).is_some_and(Value::is_string)) else {
        return value(one, 1);
    };
    let (short, long): (Vec<_>, Vec<_>) = fields
        .iter()
        .filter(|(name, value)| name.as_str() != key && !is_empty(value))
        .partition(|(name, value)| !is_nested(value) && !matches!(name.as_str(), "text" | "body"));
    html! {
        strong { (scalar(fields.get(key).unwrap_or(&Value::Null))) }
        @if !short.is_empty() {
            span.muted {
                @for (name, value) in short { " · " (humanize(name)) " " (scalar(value)) }
            }
        }
        @for (_, value) in long { div { (self::value(value, 2)) } }
    }
}

fn list(all: &[Value], item: impl Fn(&Value) -> Markup) -> Markup {
    let more = all.len().saturating_sub(ENTRIES_MAX);
    html! {
        ul {
            @for one in all.iter().take(ENTRIES_MAX) { li { (item(one)) } }
            @if more > 0 { li.muted { "and " (more) " more" } }
        }
    }
}

/// Any value, as readable as its shape allows.
pub(super) fn value(found: &Value, depth: usize) -> Markup {
    match found {
        Value::String(text) => html! { span.text { (long(text)) } },
        Value::Array(all) if depth < DEPTH_MAX => list(all, |one| value(one, depth + 1)),
        Value::Object(fields) if depth < DEPTH_MAX => pairs(fields.iter(), depth),
        Value::Array(_) | Value::Object(_) => json(found),
        Value::Null | Value::Bool(_) | Value::Number(_) => html! { (scalar(found)) },
    }
}

fn pairs<'a>(fields: impl Iterator<Item = (&'a String, &'a Value)>, depth: usize) -> Markup {
    let mut fields: Vec<_> = fields.collect();
    let more = fields.len().saturating_sub(ENTRIES_MAX);
    fields.truncate(ENTRIES_MAX);
    html! {
        @if !fields.is_empty() {
            dl {
                @for (name, found) in fields {
                    dt { (humanize(name)) }
                    dd { (value(found, depth + 1)) }
                }
                @if more > 0 { dt { "and" } dd.muted { (more) " more" } }
            }
        }
    }
}

pub(super) fn json(found: &Value) -> Markup {
    let text = serde_json::to_string_pretty(found).unwrap_or_default();
    html! { details { summary { "Details as JSON" } pre { (clean(&text)) } } }
}

fn long(text: &str) -> Markup {
    let shown = clean(text);
    if shown.chars().count() <= TEXT_MAX {
        return html! { (shown) };
    }
    html! { details { summary { (one_line(&shown, 160)) } (shown) } }
}

fn scalar(found: &Value) -> String {
    match found {
        Value::String(text) => one_line(text, 400),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "–".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Object(_) => one_line(&found.to_string(), 400),
    }
}

const fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
