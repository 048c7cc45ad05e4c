//! The context for a person who takes a run over (S0-T2).
//!
//! Turns the facts about the run's steps and its contact into one JSON of at most 128 KiB for all channels.
//! The JSON says what it left out. This module must never load anything.

use std::sync::Arc;

use holdpoint_contracts::size::json_bytes;
use serde_json::{Map, Value, json};

use crate::domain::text::cut;

/// Largest context, in bytes of JSON.
pub const CONTEXT_BYTES_MAX: usize = 128 * 1024;

/// Most entries of one list; the newest are kept.
const ENTRIES_MAX: usize = 50;

/// Largest arguments or result of a search, in bytes of JSON. Larger ones are shown as their size.
const SEARCH_BYTES_MAX: usize = 32 * 1024;

/// Longest text of an entry, in characters.
const TEXT_CHARS_MAX: usize = 2_000;

/// Lists in the order in which they are cut when the whole is too large.
const CUT_ORDER: [&str; 7] = [
    "actions",
    "searches",
    "conditions",
    "findings",
    "emails",
    "activities",
    "deals",
];

/// The facts when a handoff is opened.
#[derive(Debug, Default)]
pub struct HandoffFacts {
    /// The current contact; null: the run has none.
    pub contact: Value,
    /// Its last activities, oldest first.
    pub activities: Vec<Value>,
    /// Activities before those: they are counted only.
    pub older_activities: u64,
    /// The steps before, in the order of the plan.
    pub steps: Vec<StepSummary>,
    /// Steps before those, without what went in and came out: they are counted only.
    pub older_steps: Vec<StepSummary>,
    /// What the agent says is to be done.
    pub recommended: String,
}

#[derive(Debug, Clone, Default)]
pub struct StepSummary {
    pub step: String,
    /// `tool`, `wait`, `ask`, `handoff`.
    pub kind: &'static str,
    pub status: &'static str,
    pub tool: Option<String>,
    pub request: Arc<Value>,
    pub result: Arc<Value>,
    /// Its condition `{expression, values, outcome}`; null: it has none, or it was not evaluated yet.
    pub condition: Arc<Value>,
}

/// `{contact, activities, deals, emails, searches, conditions, actions, findings, recommended_action,
/// omitted}`. `omitted` counts the entries that are left out of each list, and the `steps` that were not
/// loaded.
#[must_use]
pub fn build(facts: &HandoffFacts) -> Value {
    let steps = || facts.steps.iter();
    let done = || steps().filter(|step| step.status == "completed");
    let conditions = steps().filter(|step| !step.condition.is_null());
    let mut omitted = not_looked_at(facts);
    // Only the entries that are shown are copied: a step may have read much.
    let searches: Vec<_> = done().filter_map(searching_tool).collect();
    let over = searches.len().saturating_sub(ENTRIES_MAX);
    omit(&mut omitted, "searches", count(over));
    let searches = searches.into_iter().skip(over);
    let searches = searches.map(|(step, tool)| search(step, tool));
    let lists = [
        ("activities", facts.activities.clone()),
        ("deals", deals(&facts.contact)),
        ("emails", done().filter_map(email).collect()),
        ("searches", searches.collect()),
        (
            "conditions",
            conditions
                .map(|step| with_step(step, &step.condition))
                .collect(),
        ),
        ("actions", steps().filter_map(action).collect()),
        ("findings", done().flat_map(findings).collect()),
    ];
    let mut context = Map::new();
    context.insert("contact".to_owned(), shortened(facts.contact.clone()));
    for (name, mut entries) in lists {
        let over = entries.len().saturating_sub(ENTRIES_MAX);
        entries.drain(..over);
        omit(&mut omitted, name, count(over));
        let entries = entries.into_iter().map(shortened).collect();
        context.insert(name.to_owned(), Value::Array(entries));
    }
    context.insert(
        "recommended_action".to_owned(),
        shortened(Value::from(facts.recommended.as_str())),
    );
    fit(context, omitted)
}

/// Counts what was left out before the lists were cut.
fn not_looked_at(facts: &HandoffFacts) -> Map<String, Value> {
    let older = || facts.older_steps.iter();
    let done = || older().filter(|step| step.status == "completed");
    let mut omitted = Map::new();
    for (name, over) in [
        ("activities", facts.older_activities),
        ("emails", count(done().filter_map(email).count())),
        ("searches", count(done().filter_map(searching_tool).count())),
        (
            "conditions",
            count(older().filter(|step| !step.condition.is_null()).count()),
        ),
        ("actions", count(older().filter_map(action).count())),
        ("steps", count(older().count())),
    ] {
        omit(&mut omitted, name, over);
    }
    omitted
}

fn count(entries: usize) -> u64 {
    u64::try_from(entries).unwrap_or(u64::MAX)
}

/// The deals of the contact: its field `deal`, and its list `deals`.
fn deals(contact: &Value) -> Vec<Value> {
    let only = contact.get("deal").filter(|deal| deal.is_object());
    let listed = contact.get("deals").and_then(Value::as_array);
    let all = only.into_iter().chain(listed.into_iter().flatten());
    all.cloned().collect()
}

fn with_step(step: &StepSummary, value: &Value) -> Value {
    let mut entry = value.as_object().cloned().unwrap_or_default();
    entry.insert("step".to_owned(), Value::from(step.step.as_str()));
    Value::Object(entry)
}

fn email(step: &StepSummary) -> Option<Value> {
    (step.tool.as_deref() == Some("send_email")).then(|| {
        json!({
            "step": step.step,
            "to": step.request.get("to"),
            "subject": step.request.get("subject"),
        })
    })
}

/// A step whose tool has a name that says that it looks something up.
fn searching_tool(step: &StepSummary) -> Option<(&StepSummary, &str)> {
    let tool = step.tool.as_deref()?;
    let words = ["search", "find", "lookup", "query"];
    let is_search = tool
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| words.contains(&part.to_ascii_lowercase().as_str()));
    is_search.then_some((step, tool))
}

fn search(step: &StepSummary, tool: &str) -> Value {
    json!({
        "step": step.step, "tool": tool,
        "args": short_copy(&step.request), "result": short_copy(&step.result),
    })
}

/// A copy, or the size of a value that a context has no room for.
fn short_copy(value: &Value) -> Value {
    let bytes = json_bytes(value);
    if bytes <= SEARCH_BYTES_MAX {
        return value.clone();
    }
    json!({ "omitted": true, "bytes": bytes })
}

fn action(step: &StepSummary) -> Option<Value> {
    (step.status != "planned").then(|| {
        json!({ "step": step.step, "kind": step.kind, "tool": step.tool, "status": step.status })
    })
}

/// Findings: what tools return under these names, what the agent logged, and what people answered.
fn findings(step: &StepSummary) -> Vec<Value> {
    let mut found = Vec::new();
    for name in ["findings", "finding", "reasoning", "summary"] {
        match step.result.get(name) {
            Some(Value::Array(many)) => found.extend(many.iter().cloned()),
            Some(one @ (Value::String(_) | Value::Object(_))) => found.push(one.clone()),
            Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => {}
        }
    }
    if step.tool.as_deref() == Some("log") {
        found.extend(step.request.get("message").cloned());
    }
    if step.kind == "ask" {
        let question = step.request.get("question").cloned().unwrap_or_default();
        found.push(json!({ "question": question, "answer": step.result.get("answer") }));
    }
    found
        .into_iter()
        .map(|finding| json!({ "step": step.step, "finding": finding }))
        .collect()
}

fn omit(omitted: &mut Map<String, Value>, name: &str, count: u64) {
    if count == 0 {
        return;
    }
    let before = omitted.get(name).and_then(Value::as_u64).unwrap_or(0);
    omitted.insert(name.to_owned(), Value::from(before.saturating_add(count)));
}

/// Cuts long texts, however deep.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(&text, TEXT_CHARS_MAX)),
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, field)| (name, shortened(field)))
            .collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// Leaves out the oldest half of one list after the other until the whole fits.
fn fit(mut context: Map<String, Value>, mut omitted: Map<String, Value>) -> Value {
    while bytes(&context) + bytes(&omitted) + 64 > CONTEXT_BYTES_MAX {
        let longest = CUT_ORDER.iter().find(|name| {
            let list = context.get(**name).and_then(Value::as_array);
            list.is_some_and(|list| !list.is_empty())
        });
        let Some(name) = longest else {
            // Only the contact is left, and it alone is too large.
            let id = context.get("contact").and_then(|contact| contact.get("id"));
            let contact = json!({ "id": id, "omitted": true });
            context.insert("contact".to_owned(), contact);
            omit(&mut omitted, "contact", 1);
            break;
        };
        if let Some(Value::Array(list)) = context.get_mut(*name) {
            let half = list.len().div_ceil(2);
            list.drain(..half);
            omit(&mut omitted, name, count(half));
        }
    }
    context.insert("omitted".to_owned(), Value::Object(omitted));
    Value::Object(context)
}

fn bytes(fields: &Map<String, Value>) -> usize {
    serde_json::to_string(fields).map_or(usize::MAX / 4, |text| text.len())
}

/// The name of a contact, else its address, else its id.
#[must_use]
pub fn called(contact: &Value, id: Option<&str>) -> String {
    let text = |name| contact.get(name).and_then(Value::as_str);
    let facts = [text("name"), text("email"), id];
    let mut facts = facts
        .into_iter()
        .flatten()
        .filter(|it| !it.trim().is_empty());
    let called = facts.next().unwrap_or("an unknown contact");
    called
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests;
