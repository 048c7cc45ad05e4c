//! Changes of a contact of which users are notified (S0-T4): it is created, or a deal of it is won or lost.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, EVENT_NAME_CHARS_MAX};
use holdpoint_ids::UserName;
use serde_json::{Map, Value};

use crate::domain::effect::Effect;
use crate::domain::model::contact::Contact;

/// Deals of one change that are counted in its event.
const DEALS_MAX: usize = 100;

/// Longest stage that is compared, in bytes.
const STAGE_BYTES_MAX: usize = 40;

/// Stages of a deal that is won or lost, in lower case and with `_` for blanks and hyphens.
const WON: [&str; 2] = ["won", "closed_won"];
const LOST: [&str; 2] = ["lost", "closed_lost"];

/// The events of one change. `known` is the contact before it, and `next` after it. A created contact is one event,
/// whatever the stages of its deals are: an import is not a success.
pub(crate) fn contact_events(
    known: Option<&Contact>,
    next: &Contact,
    now: DateTime<Utc>,
) -> Vec<Effect> {
    let event = |kind, deals: &[Option<String>]| Effect::ContactEvent {
        workspace: next.workspace.clone(),
        event: Box::new(ContactEvent {
            contact: next.id.clone(),
            version: next.version,
            kind,
            at: now,
            name: text_of(&next.fields, "name"),
            deal: deals.first().cloned().flatten(),
            more_deals: u64::try_from(deals.len().saturating_sub(1)).unwrap_or(u64::MAX),
            to: owner_of(&next.fields).into_iter().collect(),
        }),
    };
    let Some(known) = known else {
        return vec![event(ContactEventKind::NewLead, &[])];
    };
    let ends = [
        (ContactEventKind::DealWon, WON),
        (ContactEventKind::DealLost, LOST),
    ];
    let changed = ends.map(|(kind, stages)| (kind, deals_reaching(stages, known, next)));
    let changed = changed.iter().filter(|(_, deals)| !deals.is_empty());
    changed.map(|(kind, deals)| event(*kind, deals)).collect()
}

/// The names of the deals that are at one of these stages now and were not before.
fn deals_reaching(stages: [&str; 2], known: &Contact, next: &Contact) -> Vec<Option<String>> {
    let mut before: BTreeMap<String, usize> = BTreeMap::new();
    for deal in deals_at(stages, &known.fields) {
        let [key, ..] = deal.keys();
        *before.entry(key).or_default() += 1;
    }
    let is_new = |deal: &Deal<'_>| {
        let known = deal.keys().into_iter().find(|key| before.contains_key(key));
        let count = known.and_then(|key| before.get_mut(&key));
        match count {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            Some(_) | None => true,
        }
    };
    let reaching = deals_at(stages, &next.fields).filter(is_new);
    let names = reaching.map(|deal| text_of(deal.fields, "name"));
    names.take(DEALS_MAX).collect()
}

/// A deal of a contact.
struct Deal<'f> {
    /// It is the field `deal`, and not one of the list `deals`.
    is_only: bool,
    fields: &'f Map<String, Value>,
}

impl Deal<'_> {
    /// What it is known by, the best first. The field `deal` is known by its id, or else by its place. A deal of the list
    /// is known by its id, or else by its name. One that gets an id is still known by the second key.
    fn keys(&self) -> [String; 2] {
        let field = |name| self.fields.get(name).and_then(key_of);
        let without_id = if self.is_only {
            "deal".to_owned()
        } else {
            format!("name {}", field("name").unwrap_or_default())
        };
        let id = field("id").map(|id| format!("id {id}"));
        [id.unwrap_or_else(|| without_id.clone()), without_id]
    }
}

/// `7` and `"7"` are the same key.
fn key_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

/// The deals of `deal` and `deals` that are at one of these stages.
fn deals_at<'f>(
    stages: [&'f str; 2],
    fields: &'f Map<String, Value>,
) -> impl Iterator<Item = Deal<'f>> {
    let listed = fields.get("deals").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().map(|deal| (false, deal));
    let only = fields.get("deal").map(|deal| (true, deal));
    let deals = only.into_iter().chain(listed);
    let deals = deals.filter_map(|(is_only, deal)| {
        let fields = deal.as_object()?;
        Some(Deal { is_only, fields })
    });
    deals.filter(move |deal| {
        let stage = deal.fields.get("stage").and_then(Value::as_str);
        stage.is_some_and(|stage| is_at(stages, stage.trim()))
    })
}

fn is_at(stages: [&str; 2], stage: &str) -> bool {
    // Longer ones are no stage, and take no time.
    if stage.len() > STAGE_BYTES_MAX {
        return false;
    }
    let stage = stage.to_lowercase().replace([' ', '-'], "_");
    stages.contains(&stage.as_str())
}

/// A text on one line, and cut. Any program may have written it.
fn text_of(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let text = fields.get(name).and_then(Value::as_str)?;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(EVENT_NAME_CHARS_MAX).collect();
    Some(line).filter(|line| !line.is_empty())
}

/// The field `owner`: `sam` or `@user.sam`.
fn owner_of(fields: &Map<String, Value>) -> Option<String> {
    let owner = fields.get("owner").and_then(Value::as_str)?.trim();
    let name = owner.strip_prefix("@user.").unwrap_or(owner);
    let name: UserName = name.parse().ok()?;
    Some(format!("@user.{name}"))
}
