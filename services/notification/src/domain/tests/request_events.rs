//! Who is notified how a request ended, and in which words.

use holdpoint_contracts::hold::{HoldOutcome, OPERATOR_TAKEOVER};
use holdpoint_ids::HoldId;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::commands::record_request_events::record_request_event;

fn recipients_of(fact: &RequestEvent) -> Vec<Recipient> {
    request_recipients(fact)
}

pub(super) fn ended(kind: RequestEventKind, by: Option<&str>, asked_by: &[&str]) -> RequestEvent {
    let mut fact = fact(2, kind, &["@role.ops"]);
    fact.by = by.map(str::to_owned);
    fact.request.asked_by = asked_by.iter().map(ToString::to_string).collect();
    fact
}

fn users(names: &[&str]) -> Vec<Recipient> {
    let user = |name: &&str| Recipient::User(name.parse().unwrap());
    names.iter().map(user).collect()
}

/// People, Deliver 7: whoever asked, or started the run, is notified how it ended, by somebody else or by
/// time; not of what they ended themselves, and not that it went with its run.
#[test]
fn the_asker_is_notified_of_the_end() {
    use RequestEventKind::{Decided, Expired, Withdrawn};
    for (kind, by, asked_by, notified) in [
        (Decided, Some("ada"), &["cleo"][..], &["cleo"][..]),
        (Decided, Some("cleo"), &["cleo"], &[]),
        (
            Decided,
            Some("ada"),
            &["service:executor", "cleo"],
            &["cleo"],
        ),
        (Decided, Some("cleo"), &["bob", "cleo"], &["bob"]),
        (Expired, None, &["cleo"], &["cleo"]),
        (Expired, Some("service:scheduler"), &["cleo"], &["cleo"]),
        (Withdrawn, Some("ada"), &["cleo"], &["cleo"]),
        (Withdrawn, None, &["cleo"], &[]),
        (Withdrawn, Some("service:executor"), &["cleo"], &[]),
        (Decided, Some("ada"), &[], &[]),
    ] {
        let fact = ended(kind, by, asked_by);
        assert_eq!(recipients_of(&fact), users(notified), "{kind:?} by {by:?}");
    }
}

/// Nobody stands in for whoever asked: there is nothing to do, so no owner is notified in their place; and it
/// stays in the application.
#[test]
fn how_it_ended_is_no_owners_news_and_leaves_nothing() {
    let fact = ended(RequestEventKind::Decided, Some("ada"), &["gone", "cleo"]);
    let world = world(&[("gone", &[]), ("olga", &["owner"]), ("cleo", &["member"])]);
    let lookup = |need: &Need| match need {
        Need::RequestLifecycle(..) => Lookup::Found(Fact::RequestLifecycle(RequestLifecycle {
            opened: Some(1),
            ended: Some(2),
            taken: None,
            notified_by: None,
        })),
        Need::Members { .. }
        | Need::Person(..)
        | Need::Webhooks(_)
        | Need::Watchers { .. }
        | Need::WatchCount(..)
        | Need::IsErased(..)
        | Need::LastErasure(..)
        | Need::ContactEvents { .. }
        | Need::Unread { .. } => found(&world, need),
    };
    let notify = |names: &[&str]| {
        let mut note = noted(fact.clone(), false);
        note.fan_out = FanOutProgress::Recipients {
            left: users(names),
            after: None,
        };
        let Ok(Outcome::Decided(change)) = continue_fan_out(&note, &lookup, DateTime::UNIX_EPOCH)
        else {
            panic!("nothing happened");
        };
        change
    };
    let change = notify(&["gone"]);
    let Aggregate::Event(note) = &change.state else {
        panic!("no note");
    };
    assert_eq!(note.fan_out, FanOutProgress::Done);
    let change = notify(&["gone", "cleo"]);
    assert!(
        !change
            .effects
            .iter()
            .any(|one| matches!(one, Effect::Deliver(_)))
    );
    let is_unread = |one: &Effect| matches!(one, Effect::AddInboxEntries(NewInboxEntries { read_at: None, people, .. }) if people.len() == 1);
    assert!(change.effects.iter().any(is_unread), "{:?}", change.effects);
}

/// Whoever takes a run over knows it.
#[test]
fn the_person_who_takes_over_is_not_notified() {
    let mut fact = fact(1, RequestEventKind::Opened, &["@user.nina"]);
    assert_eq!(recipients_of(&fact), users(&["nina"]));
    fact.request.reason = Some(OPERATOR_TAKEOVER.to_owned());
    assert_eq!(recipients_of(&fact), []);
    fact.kind = RequestEventKind::Assigned;
    assert_eq!(recipients_of(&fact), users(&["nina"]), "given to her later");
}

#[test]
fn it_says_how_it_ended() {
    let mut fact = ended(RequestEventKind::Decided, Some("ada"), &["cleo"]);
    fact.request.title = Some("Deploy 4.2?".to_owned());
    fact.request.outcome = Some(HoldOutcome::Rejected);
    fact.request.response = Some(json!("Not before Monday"));
    let view = |fact: &RequestEvent| {
        let entry = InboxEntry {
            workspace: acme(),
            person: "cleo".parse().unwrap(),
            event: Box::new(noted(fact.clone(), false)),
            request_end: None,
            watching: false,
            read_at: None,
        };
        view(&entry).unwrap()
    };
    let shown = view(&fact);
    assert_eq!(shown.title, "Rejected: Deploy 4.2?");
    assert_eq!(shown.message, "Rejected by ada: Not before Monday");
    fact.request.outcome = Some(HoldOutcome::Approved);
    fact.request.response = None;
    assert_eq!(view(&fact).message, "Approved by ada.");
    (fact.kind, fact.by) = (RequestEventKind::Expired, None);
    assert_eq!(view(&fact).title, "Time was up: Deploy 4.2?");
    assert_eq!(view(&fact).message, "Time was up without a decision.");
}

/// Gate: the calls of a fan-out share one notification, as long as a person can still act on it.
#[test]
fn the_calls_of_a_fan_out_share_a_notification() {
    use RequestEventKind::{Assigned, Escalated, Opened};
    let world = world(&[("olga", &["owner"])]);
    let other: HoldId = "hold_01920000000070008000000000000001-7".parse().unwrap();
    let lifecycle = |opened, ended| RequestLifecycle {
        opened,
        ended,
        taken: None,
        notified_by: None,
    };
    for (kind, of_other, is_notified) in [
        (Opened, lifecycle(Some(1), None), false),
        // The ladder of the other one may go to other users.
        (Escalated, lifecycle(Some(1), None), true),
        (Assigned, lifecycle(Some(1), None), true),
        (Opened, lifecycle(Some(1), Some(2)), true),
        (Escalated, lifecycle(Some(1), Some(2)), true),
        // A standing approval decided it, or its event comes later.
        (Opened, lifecycle(None, Some(1)), true),
        (Opened, lifecycle(None, None), true),
    ] {
        let mut event = fact(1, kind, &["@role.owner"]);
        let item = json!({ "id": "pay-1", "tool": "pay", "args": {}, "digest": "8f43",
            "parent": "pay", "notified_with": other });
        event.request.kind = HoldKind::Approval;
        event.request.items = vec![serde_json::from_value(item).unwrap()];
        let input = Input::RecordRequestEvent {
            workspace: acme(),
            event: Box::new(event),
        };
        let lookup = |need: &Need| match need {
            Need::RequestLifecycle(_, hold) if *hold == other => {
                Lookup::Found(Fact::RequestLifecycle(of_other))
            }
            Need::RequestLifecycle(..)
            | Need::Members { .. }
            | Need::Person(..)
            | Need::Webhooks(_)
            | Need::IsErased(..)
            | Need::LastErasure(..)
            | Need::ContactEvents { .. }
            | Need::Watchers { .. }
            | Need::WatchCount(..)
            | Need::Unread { .. } => found(&world, need),
        };
        let Ok(Outcome::Decided(change)) = asked(None, &input, &lookup) else {
            panic!("not stored");
        };
        let Aggregate::Event(stored) = &change.state else {
            panic!("no event");
        };
        assert_eq!(
            stored.fan_out.is_pending(),
            is_notified,
            "{kind:?} {of_other:?}"
        );
    }
}

/// Gate: events overtake each other in any order, and the calls of a fan-out notify people once.
#[test]
fn the_first_event_of_a_fan_out_notifies_for_all() {
    let world = world(&[("olga", &["owner"])]);
    let ids: Vec<HoldId> = (1..=3)
        .map(|number| format!("hold_01920000000070008000000000000001-{number}"))
        .map(|id| id.parse().unwrap())
        .collect();
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut stored: Vec<(Need, Fact)> = Vec::new();
        let mut notified = 0;
        for number in order {
            let mut event = fact(1, RequestEventKind::Opened, &["@role.owner"]);
            let mut item = json!({ "id": "pay-1", "tool": "pay", "args": {}, "digest": "8f43", "parent": "pay" });
            if number > 0 {
                item["notified_with"] = json!(ids[0]);
            }
            event.id = ids[number];
            event.request.kind = HoldKind::Approval;
            event.request.items = vec![serde_json::from_value(item).unwrap()];
            let input = Input::RecordRequestEvent {
                workspace: acme(),
                event: Box::new(event),
            };
            let lookup = |need: &Need| {
                let newest = stored.iter().rev().find(|(of, _)| of == need);
                newest.map_or_else(
                    || found(&world, need),
                    |(_, fact)| Lookup::Found(fact.clone()),
                )
            };
            let Ok(Outcome::Decided(change)) = asked(None, &input, &lookup) else {
                panic!("not stored");
            };
            let Aggregate::Event(event) = &change.state else {
                panic!("no event");
            };
            notified += usize::from(event.fan_out.is_pending());
            stored.extend(change.facts.iter().cloned());
        }
        assert_eq!(notified, 1, "{order:?}");
    }
}

pub(super) fn kinds() -> impl Strategy<Value = RequestEventKind> {
    prop::sample::select(vec![
        RequestEventKind::Opened,
        RequestEventKind::Assigned,
        RequestEventKind::Escalated,
        RequestEventKind::TakenOver,
        RequestEventKind::Decided,
        RequestEventKind::Expired,
        RequestEventKind::Withdrawn,
    ])
}

proptest! {
    /// Of an end nobody is notified who brought it about, nobody but those who asked, and each once in the
    /// order in which they are named.
    #[test]
    fn nobody_is_notified_of_an_end_of_their_own(
        kind in kinds(),
        by in prop::option::of("[a-d]"),
        asked_by in prop::collection::btree_set("[a-d]", 0..4),
    ) {
        let names: Vec<_> = asked_by.iter().map(String::as_str).collect();
        let fact = ended(kind, by.as_deref(), &names);
        let notified = recipients_of(&fact);
        if kind.is_end() {
            for one in &notified {
                let Recipient::User(name) = one else { panic!("{one:?} is no person") };
                prop_assert!(asked_by.contains(name.as_str()));
                prop_assert_ne!(Some(name.as_str()), by.as_deref());
            }
            let others = names.iter().filter(|name| Some(**name) != by.as_deref()).count();
            let is_silent = kind == RequestEventKind::Withdrawn && by.is_none();
            prop_assert_eq!(notified.len(), if is_silent { 0 } else { others });
        } else if kind == RequestEventKind::TakenOver {
            prop_assert!(notified.is_empty());
        } else {
            prop_assert_eq!(notified, Recipient::parse_all(&fact.to));
        }
    }
}

/// Issue 17: an event of a request whose contact is erased is stored empty, and those before it are emptied.
#[test]
fn an_erased_request_is_emptied() {
    let mut fact = ended(
        RequestEventKind::Withdrawn,
        Some("service:executor"),
        &["cleo"],
    );
    fact.request.erased_at = Some(DateTime::UNIX_EPOCH);
    let Ok(Outcome::Decided(change)) =
        record_request_event(&acme(), &fact, &|_| Lookup::NotLoaded, DateTime::UNIX_EPOCH)
    else {
        panic!("it needs nothing");
    };
    assert!(
        matches!(change.effects.as_slice(), [Effect::EraseHold { .. }]),
        "{change:?}"
    );
    let mut opened = noted(
        super::fact(1, RequestEventKind::Opened, &["@user.nina"]),
        false,
    );
    opened.erase(DateTime::UNIX_EPOCH);
    let stored = serde_json::to_string(&opened).unwrap();
    assert!(!stored.contains("Ann"), "{stored}");
    assert!(opened.is_erased() && !opened.fan_out.is_pending());
}

/// Events may overtake each other: one that comes after the erasure is stored without its texts.
#[test]
fn a_late_event_of_an_erased_request_is_stored_empty() {
    let fact = fact(1, RequestEventKind::Opened, &["@user.nina"]);
    let lookup = |is_erased: bool| {
        move |need: &Need| match need {
            Need::RequestLifecycle(..) => Lookup::Found(Fact::RequestLifecycle(RequestLifecycle {
                opened: None,
                ended: Some(2),
                taken: None,
                notified_by: None,
            })),
            Need::IsErased(..) => Lookup::Found(Fact::IsErased(is_erased)),
            Need::Members { .. }
            | Need::Person(..)
            | Need::Webhooks(_)
            | Need::Watchers { .. }
            | Need::WatchCount(..)
            | Need::LastErasure(..)
            | Need::ContactEvents { .. }
            | Need::Unread { .. } => Lookup::Missing,
        }
    };
    let stored = |is_erased| {
        let decision =
            record_request_event(&acme(), &fact, &lookup(is_erased), DateTime::UNIX_EPOCH);
        let Ok(Outcome::Decided(change)) = decision else {
            panic!("{decision:?}");
        };
        serde_json::to_string(change.state.as_event().unwrap()).unwrap()
    };
    assert!(stored(false).contains("Ann") && !stored(true).contains("Ann"));
}
