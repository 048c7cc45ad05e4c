//! What happens to contacts, and mentions: who is notified, in which words, and how often (S0-T4).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it looks for, and passes by anything else"
)]

use holdpoint_contracts::notification::{ContactEvent, ContactEventKind, EventRecorded};

use holdpoint_ids::HoldId;

use super::*;
use crate::domain::commands::record_contact_events::NOTIFIED_PER_HOUR;

fn event(version: u64, kind: ContactEventKind) -> ContactEvent {
    ContactEvent {
        contact: "zoe".parse().unwrap(),
        version,
        kind,
        at: DateTime::UNIX_EPOCH,
        name: Some("Zoe\u{202e} Zimmer".to_owned()),
        deal: None,
        more_deals: 0,
        to: vec!["@user.sam".to_owned()],
    }
}

fn input(event: &ContactEvent) -> Input {
    Input::RecordContactEvent {
        workspace: acme(),
        event: Box::new(event.clone()),
    }
}

/// The stored event, and those who get an entry and a delivery.
fn notified(world: &World, event: &ContactEvent) -> (NotificationEvent, Vec<String>, Vec<String>) {
    let lookup = |need: &Need| found(world, need);
    let Ok(Outcome::Decided(first)) = asked(None, &input(event), &lookup) else {
        panic!("not stored");
    };
    assert_eq!(first.reply, Reply::EventRecorded(EventRecorded::Stored));
    let known = Ok(Outcome::Unchanged(Reply::EventRecorded(
        EventRecorded::Known,
    )));
    assert_eq!(
        asked(Some(&first.state), &input(event), &lookup),
        known,
        "twice is once"
    );
    let go_on = Input::ContinueFanOut(EventKey::of_contact(&acme(), event));
    let (mut state, mut entries, mut outside) = (first.state, Vec::new(), Vec::new());
    while let Ok(Outcome::Decided(change)) = asked(Some(&state), &go_on, &lookup) {
        for effect in change.effects {
            match effect {
                Effect::AddInboxEntries(new) => {
                    entries.extend(new.people.iter().map(ToString::to_string));
                }
                Effect::Deliver(new) => {
                    let names = new.to.iter().filter_map(|one| one.to.name());
                    outside.extend(names.map(ToString::to_string));
                }
                _ => {}
            }
        }
        state = change.state;
    }
    let stored = state.as_event().unwrap().clone();
    (stored, entries, outside)
}

/// The owner of the contact, else the owners of the workspace, who are not notified outside of the application.
#[test]
fn the_owner_of_a_contact_is_notified() {
    let world = world(&[("olga", &["owner"]), ("sam", &["member"]), ("gone", &[])]);
    let lead = event(1, ContactEventKind::NewLead);
    let (_, entries, outside) = notified(&world, &lead);
    assert_eq!(
        (entries, outside),
        (vec!["sam".to_owned()], vec!["sam".to_owned()])
    );
    for to in [
        vec![],
        vec!["@user.gone".to_owned()],
        vec!["@user.nobody".to_owned()],
    ] {
        let lead = ContactEvent { to, ..lead.clone() };
        let (_, entries, outside) = notified(&world, &lead);
        assert_eq!((entries, outside), (vec!["olga".to_owned()], vec![]));
    }
}

fn shown(event: NotificationEvent) -> holdpoint_contracts::notification::NotificationView {
    let entry = InboxEntry {
        workspace: acme(),
        person: "sam".parse().unwrap(),
        event: Box::new(event),
        request_end: None,
        watching: false,
        read_at: None,
    };
    view(&entry).unwrap()
}

#[test]
fn a_contact_event_says_what_happened() {
    let world = world(&[("sam", &["member"])]);
    let pilot = |kind| ContactEvent {
        deal: Some("Pilot".to_owned()),
        more_deals: 2,
        ..event(7, kind)
    };
    let nameless = ContactEvent {
        name: None,
        ..event(1, ContactEventKind::DealLost)
    };
    for (event, kind, title, message) in [
        (
            event(1, ContactEventKind::NewLead),
            NotificationType::NewLead,
            "New lead: Zoe Zimmer",
            "Zoe Zimmer is a new contact.",
        ),
        (
            pilot(ContactEventKind::DealWon),
            NotificationType::DealWon,
            "Deal won: Pilot (Zoe Zimmer)",
            "The deal Pilot of Zoe Zimmer is won. 2 more deals of the contact are too.",
        ),
        (
            nameless,
            NotificationType::DealLost,
            "Deal lost: zoe",
            "A deal of zoe is lost.",
        ),
    ] {
        let (stored, ..) = notified(&world, &event);
        let view = shown(stored);
        assert_eq!(
            (view.kind, &*view.title, &*view.message),
            (kind, title, message)
        );
        assert_eq!(view.contact, Some(event.contact.clone()));
        assert_eq!(view.id.rev, Some(event.number()));
        assert_eq!(view.link, format!("/notifications#{}", view.id));
    }
    let kinds = [ContactEventKind::DealWon, ContactEventKind::DealLost];
    let ids = kinds.map(|kind| notified(&world, &event(7, kind)).0.id());
    assert_ne!(ids[0], ids[1], "one change may have both");
}

/// An import of thousands of contacts does not flood an inbox: the last notification of the hour says so.
#[test]
fn an_hour_has_a_bounded_number_of_notifications() {
    let world = world(&[("sam", &["member"])]);
    let lead = event(1, ContactEventKind::NewLead);
    let after = |count: u64| {
        let lookup = |need: &Need| match need {
            Need::ContactEvents { most, .. } => {
                assert_eq!(*most, NOTIFIED_PER_HOUR);
                Lookup::Found(Fact::Count(count))
            }
            other => found(&world, other),
        };
        match asked(None, &input(&lead), &lookup) {
            Ok(Outcome::Decided(change)) => change.state.as_event().unwrap().clone(),
            other => panic!("{other:?}"),
        }
    };
    let last = after(NOTIFIED_PER_HOUR - 1);
    assert!(last.fan_out.is_pending());
    assert!(
        shown(last)
            .message
            .ends_with("You are not notified of further new leads in this hour of the clock.")
    );
    let next = after(NOTIFIED_PER_HOUR);
    assert_eq!(next.fan_out, FanOutProgress::Done);
}

/// An erasure empties what is stored. An event that comes after it counts only if it happened after it.
#[test]
fn an_erased_contact_is_in_no_notification() {
    let world = world(&[("sam", &["member"])]);
    let erased = ContactEvent {
        name: None,
        to: Vec::new(),
        ..event(4, ContactEventKind::ContactErased)
    };
    let lookup = |need: &Need| found(&world, need);
    let Ok(Outcome::Decided(change)) = asked(None, &input(&erased), &lookup) else {
        panic!("not stored");
    };
    let hold = HoldId::of_contact(&erased.contact);
    let erase = Effect::EraseHold {
        workspace: acme(),
        hold,
    };
    assert_eq!(change.effects, [erase]);
    let need = Need::LastErasure(acme(), hold);
    assert_eq!(change.facts, [(need, Fact::Count(erased.number()))]);
    let stored = change.state.as_event().unwrap();
    assert!(stored.is_erased() && stored.fan_out == FanOutProgress::Done);

    let lookup = |need: &Need| match need {
        Need::LastErasure(..) => Lookup::Found(Fact::Count(erased.number())),
        other => found(&world, other),
    };
    let late = asked(None, &input(&event(3, ContactEventKind::NewLead)), &lookup);
    let known = Ok(Outcome::Unchanged(Reply::EventRecorded(
        EventRecorded::Known,
    )));
    assert_eq!(late, known);
    let again = asked(None, &input(&event(5, ContactEventKind::NewLead)), &lookup);
    assert!(
        matches!(again, Ok(Outcome::Decided(_))),
        "it is created again"
    );

    let (mut stored, ..) = notified(&world, &event(1, ContactEventKind::NewLead));
    stored.erase(DateTime::UNIX_EPOCH);
    let left = serde_json::to_string(&stored).unwrap();
    assert!(!left.contains("Zimmer") && !left.contains("sam"), "{left}");
}

/// A mention is for the named active users alone, and also if the request has ended.
#[test]
fn a_mention_reaches_the_named_users_alone() {
    let world = world(&[("bob", &["member"]), ("gone", &[]), ("olga", &["owner"])]);
    let lookup = |need: &Need| match need {
        Need::RequestLifecycle(..) => Lookup::Found(Fact::RequestLifecycle(RequestLifecycle {
            opened: Some(1),
            ended: Some(2),
            ..RequestLifecycle::default()
        })),
        other => found(&world, other),
    };
    for (to, wanted) in [
        (&["@user.bob", "@user.gone"][..], &["bob"][..]),
        (&["@user.nobody"], &[]),
    ] {
        let mut mention = fact(3, RequestEventKind::Mentioned, to);
        mention.by = Some("ada".to_owned());
        let input = Input::RecordRequestEvent {
            workspace: acme(),
            event: Box::new(mention.clone()),
        };
        let Ok(Outcome::Decided(first)) = asked(None, &input, &lookup) else {
            panic!("not stored");
        };
        let (mut state, mut read) = (first.state, Vec::new());
        let (mut entries, mut outside) = (Vec::<String>::new(), 0);
        let go_on = Input::ContinueFanOut(EventKey::of_request(&acme(), &mention));
        while let Ok(Outcome::Decided(change)) = asked(Some(&state), &go_on, &lookup) {
            for effect in change.effects {
                match effect {
                    Effect::AddInboxEntries(new) => {
                        entries.extend(new.people.iter().map(ToString::to_string));
                        read.push(new.read_at);
                    }
                    Effect::Deliver(new) => outside += new.to.len(),
                    _ => {}
                }
            }
            state = change.state;
        }
        assert_eq!(
            (entries, outside),
            (
                wanted.iter().map(ToString::to_string).collect(),
                wanted.len()
            ),
            "{to:?}"
        );
        assert!(read.iter().all(Option::is_none), "it is news");
        let view = shown(state.as_event().unwrap().clone());
        assert_eq!(view.kind, NotificationType::Mention);
        assert_eq!(view.title, "ada mentions you: Agent handoff: Ann");
        assert_eq!(view.action_url, format!("/requests/{}", mention.id));
    }
}
