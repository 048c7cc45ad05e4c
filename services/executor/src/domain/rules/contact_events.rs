//! Which changes of a contact users are notified of (S0-T4): it is created, or a deal of it is won or lost.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, EVENT_NAME_CHARS_MAX};
use holdpoint_ids::UserName;
use serde_json::{Map, Value};

use crate::domain::effect::Effect;
use crate::domain::model::contact::Contact;

/// Deals of one contact that are read. Later ones notify no user.
const DEALS_MAX: usize = 100;

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
        *before.entry(key_of(deal)).or_default() += 1;
    }
    let is_new = |deal: &&Map<String, Value>| match before.get_mut(&key_of(deal)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => true,
    };
    let reaching = deals_at(stages, &next.fields).filter(is_new);
    reaching.map(|deal| text_of(deal, "name")).collect()
}

/// The deals of `deal` and `deals` that are at one of these stages.
fn deals_at<'f>(
    stages: [&'f str; 2],
    fields: &'f Map<String, Value>,
) -> impl Iterator<Item = &'f Map<String, Value>> {
    let listed = fields.get("deals").and_then(Value::as_array);
    let all = fields
        .get("deal")
        .into_iter()
        .chain(listed.into_iter().flatten());
    let deals = all.take(DEALS_MAX).filter_map(Value::as_object);
    deals.filter(move |deal| {
        let stage = deal.get("stage").and_then(Value::as_str);
        stage.is_some_and(|stage| {
            let stage = stage.trim().to_lowercase().replace([' ', '-'], "_");
            stages.contains(&stage.as_str())
        })
    })
}

/// What a deal is known by, whatever its place in the list: its id, else its name. Deals with neither are counted.
fn key_of(deal: &Map<String, Value>) -> String {
    let key = deal.get("id").or_else(|| deal.get("name"));
    key.map(ToString::to_string).unwrap_or_default()
}

/// A text on one line, and cut. It may come from anybody.
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
