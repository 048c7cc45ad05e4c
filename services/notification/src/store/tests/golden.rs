//! Golden files of the states that tables store as JSON, which contain every variant.

use std::collections::BTreeSet;

use holdpoint_contracts::notification::Preferences;
use holdpoint_testkit::stored_states;

use crate::domain::{FanOutProgress, NotificationEvent, Recipient, Subject};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// The names of the variants that an event contains.
fn variants(event: &NotificationEvent) -> Vec<&'static str> {
    let subject = match &event.subject {
        Subject::Request { event, reopened } => {
            let is_reopened = if *reopened {
                "reopened"
            } else {
                "opened first"
            };
            vec![is_reopened, event.kind.as_str()]
        }
        Subject::RunEnd(_) => vec!["run end"],
        Subject::Contact { .. } => vec!["contact"],
        Subject::System(_) => vec!["system"],
    };
    let fan_out = match &event.fan_out {
        FanOutProgress::NotStarted => vec!["not started"],
        FanOutProgress::Recipients { left, after } => {
            let name = |recipient: &Recipient| match recipient {
                Recipient::User(_) => "user",
                Recipient::Role(_) => "role",
            };
            let after = if after.is_some() {
                "after a member"
            } else {
                "from the first member"
            };
            left.iter().map(name).chain([after]).collect()
        }
        FanOutProgress::Watchers { after: Some(_) } => vec!["after a watcher"],
        FanOutProgress::Watchers { after: None } => vec!["from the first watcher"],
        FanOutProgress::Done => vec!["done"],
    };
    subject.into_iter().chain(fan_out).collect()
}

#[test]
fn golden_events_have_every_variant() {
    let events: Vec<NotificationEvent> = stored_states(CRATE, "notification_events");
    let found: BTreeSet<_> = events.iter().flat_map(variants).collect();
    let all = [
        "after a member",
        "after a watcher",
        "assigned",
        "contact",
        "decided",
        "done",
        "escalated",
        "expired",
        "from the first member",
        "from the first watcher",
        "mentioned",
        "not started",
        "opened",
        "opened first",
        "reopened",
        "role",
        "run end",
        "system",
        "taken_over",
        "user",
        "withdrawn",
    ];
    assert_eq!(found, BTreeSet::from(all));
}

/// The column `said` of the table `preferences`.
#[test]
fn golden_preferences_have_every_part() {
    let all: Vec<Preferences> = stored_states(CRATE, "preferences");
    assert!(all.contains(&Preferences::default()));
    let is_whole = |one: &Preferences| {
        let chat = one.channels.chat.as_ref();
        let has_chat = chat.is_some_and(|chat| chat.url.is_some() && chat.secret.is_some());
        has_chat && one.quiet_hours.is_some() && one.digest.is_some()
    };
    assert!(all.iter().any(is_whole));
}
