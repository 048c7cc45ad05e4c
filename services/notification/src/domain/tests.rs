//! The core by examples: the people that an event reaches, page by page.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{NotificationType, RequestEvent, RequestEventKind};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{NotificationId, WebhookId};

use super::decide::decide;
use super::rules::fan_out::continue_fan_out;
use super::rules::notification_view::{action_url, type_of};
use super::rules::recipients::request_recipients;
use super::testing::{acme, delivery, request, request_event as fact, stored as noted, webhook};
use super::*;

mod contact_events;
mod deliveries;
mod preferences;
mod request_events;
mod run_ends;
mod watches;
mod webhooks;

/// Users by name, with their roles. A user without roles is disabled.
type World = BTreeMap<String, Vec<&'static str>>;

fn found(world: &World, need: &Need) -> Lookup {
    match need {
        Need::Members {
            role, after, limit, ..
        } => {
            let after = after.as_ref().map_or("", |name| name.as_str());
            let names = world
                .iter()
                .filter(|(name, roles)| name.as_str() > after && roles.contains(&role.as_str()));
            let names = names.take(*limit).map(|(name, _)| name.parse().unwrap());
            Lookup::Found(Fact::Names(names.collect()))
        }
        Need::Person(_, name) => match world.get(name.as_str()) {
            Some(roles) => Lookup::Found(Fact::Person(Person {
                name: name.clone(),
                active: !roles.is_empty(),
                has_mail: true,
                may_look: true,
                rules: DeliveryRules::default(),
            })),
            None => Lookup::Missing,
        },
        Need::RequestLifecycle(..)
        | Need::Webhooks(_)
        | Need::Watchers { .. }
        | Need::WatchCount(..)
        | Need::IsErased(..)
        | Need::LastErasure(..)
        | Need::ContactEvents { .. }
        | Need::Unread { .. } => Lookup::Missing,
    }
}

/// How often the kernel brings what a decision lacks, less one.
const ROUNDS_MAX: usize = 3;

/// Asks as the kernel does: nothing is known until it was asked for, and rounds are few.
fn asked(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    let mut known = BTreeSet::new();
    for _ in 0..=ROUNDS_MAX {
        let lookup = |need: &Need| match known.contains(need) {
            true => lookup(need),
            false => Lookup::NotLoaded,
        };
        match decide(state, input, &lookup, DateTime::UNIX_EPOCH) {
            Err(Undecided::NeedsMore(more)) => known.extend(more),
            decided => return decided,
        }
    }
    panic!("{input:?} asks for more again and again: {known:?}");
}

/// Who is notified of a fact, in order, and in how many commits.
fn reached(world: &World, to: &[&str]) -> (Vec<String>, u32) {
    let input = Input::RecordRequestEvent {
        workspace: acme(),
        event: Box::new(fact(1, RequestEventKind::Opened, to)),
    };
    let lookup = |need: &Need| found(world, need);
    let Ok(Outcome::Decided(first)) = asked(None, &input, &lookup) else {
        panic!("not stored");
    };
    let (mut state, mut names, mut pages) = (first.state, Vec::new(), 0);
    loop {
        let Aggregate::Event(note) = &state else {
            panic!("no note");
        };
        let go_on = Input::ContinueFanOut(note.key());
        let Ok(Outcome::Decided(change)) = asked(Some(&state), &go_on, &lookup) else {
            return (names, pages);
        };
        pages += 1;
        for effect in change.effects {
            if let Effect::AddInboxEntries(NewInboxEntries { people, .. }) = effect {
                names.extend(people.iter().map(ToString::to_string));
            }
        }
        state = change.state;
    }
}

fn world(people: &[(&str, &[&'static str])]) -> World {
    let person = |(name, roles): &(&str, &[&'static str])| ((*name).to_owned(), roles.to_vec());
    people.iter().map(person).collect()
}

/// M-5: by user, by role, and nobody named means the owners.
#[test]
fn a_fact_reaches_those_that_it_names() {
    let world = world(&[
        ("ada", &["member", "ops"]),
        ("bob", &["ops"]),
        ("olga", &["owner"]),
        ("zoe", &["member"]),
    ]);
    for (to, names) in [
        (&["@user.zoe"][..], &["zoe"][..]),
        (&["@role.ops"], &["ada", "bob"]),
        (
            &["@user.ada", "@role.ops", "@user.zoe"],
            &["ada", "bob", "zoe"],
        ),
        (&[], &["olga"]),
        (&["nonsense"], &["olga"]),
    ] {
        assert_eq!(reached(&world, to).0, names, "{to:?}");
    }
}

/// People, "Must": an emptied role, a user disabled while assigned. Somebody is notified all the same.
#[test]
fn owners_are_notified_if_nobody_is_left() {
    let world = world(&[("gone", &[]), ("olga", &["owner"])]);
    for to in [["@role.ops"], ["@user.gone"], ["@user.nobody"]] {
        assert_eq!(reached(&world, &to).0, ["olga"], "{to:?}");
    }
    assert_eq!(reached(&World::new(), &["@role.ops"]).0, [""; 0]);
}

/// M-5: a role of any size is notified in pages, each person once.
#[test]
fn a_large_role_is_notified_in_pages_and_each_person_once() {
    for count in [PAGE - 1, PAGE, PAGE + 1, 2 * PAGE + 7] {
        let many: World = (0..count)
            .map(|n| (format!("user{n:05}"), vec!["ops", "all"]))
            .collect();
        let (mut names, pages) = reached(&many, &["@role.ops"]);
        assert_eq!(names.len(), count);
        names.dedup();
        assert_eq!(names.len(), count, "each once");
        assert!(pages as usize <= count / PAGE + 1, "{pages} pages");
    }
}

/// S0-T4: types, and where to act; the first id is known by the request alone.
#[test]
fn a_notification_says_what_it_is_and_where_to_act() {
    for (kind, of, wanted) in [
        (
            RequestEventKind::Opened,
            HoldKind::Handoff,
            Some(NotificationType::AgentHandoff),
        ),
        (
            RequestEventKind::Opened,
            HoldKind::Approval,
            Some(NotificationType::ApprovalRequested),
        ),
        (
            RequestEventKind::Opened,
            HoldKind::Input,
            Some(NotificationType::InputRequested),
        ),
        (RequestEventKind::Opened, HoldKind::Timer, None),
        (
            RequestEventKind::Assigned,
            HoldKind::Input,
            Some(NotificationType::TaskAssigned),
        ),
        (
            RequestEventKind::Escalated,
            HoldKind::Approval,
            Some(NotificationType::Escalation),
        ),
        (
            RequestEventKind::Decided,
            HoldKind::Approval,
            Some(NotificationType::Custom),
        ),
        (RequestEventKind::TakenOver, HoldKind::Approval, None),
        (RequestEventKind::Decided, HoldKind::Timer, None),
    ] {
        let mut fact = fact(7, kind, &[]);
        fact.request.kind = of;
        assert_eq!(type_of(&fact), wanted, "{kind:?} {of:?}");
    }
    let opened = fact(7, RequestEventKind::Opened, &[]);
    let id = noted(opened.clone(), false).id();
    assert_eq!(id, NotificationId::opened(opened.id));
    assert_ne!(noted(opened.clone(), true).id(), id, "asked again");
    let task = opened.id;
    assert_eq!(
        action_url(&opened.request),
        format!("/tasks/{task}?action=handoff")
    );
    let escalated = fact(8, RequestEventKind::Escalated, &[]);
    assert_ne!(noted(escalated, false).id(), id);
}

/// Mend C-14, S0-T4: a task whose time is up is due; before that, nobody has acted yet.
#[test]
fn a_task_is_due_when_its_time_is_up() {
    let mut fact = fact(8, RequestEventKind::Escalated, &[]);
    fact.request.kind = HoldKind::Handoff;
    fact.request.run = None;
    fact.request.task =
        serde_json::from_value(serde_json::json!({ "id": "t", "title": "CallOutcome" })).ok();
    let kinds = [
        (TimeDelta::zero(), NotificationType::TaskDue, "Due: "),
        (
            TimeDelta::minutes(1),
            NotificationType::Escalation,
            "Still without a decision: ",
        ),
    ];
    for (left, kind, begin) in kinds {
        fact.request.deadline = Some(fact.at + left);
        assert_eq!(type_of(&fact), Some(kind));
        assert!(request_title(&fact).starts_with(begin));
        assert!(asks_a_person(kind), "it leaves the application");
    }
}

/// An end counts until the request is asked again, in whatever order the facts come.
#[test]
fn what_is_asked_again_is_not_over() {
    let mut facts = [
        (RequestEventKind::Opened, 1),
        (RequestEventKind::Expired, 2),
        (RequestEventKind::Opened, 3),
        (RequestEventKind::Escalated, 4),
    ];
    for _ in 0..facts.len() {
        facts.rotate_left(1);
        let mut course = RequestLifecycle::default();
        for (kind, rev) in facts {
            course.record(kind, rev);
        }
        assert!(!course.has_ended(), "{facts:?}");
        course.record(RequestEventKind::Decided, 5);
        assert!(course.has_ended());
    }
}

/// S0-T4: who is mailed of what.
#[test]
fn recipients_are_mailed() {
    let world = World::from([
        ("ada".to_owned(), vec!["ops"]),
        ("bob".to_owned(), vec!["ops"]),
    ]);
    let lookup = |need: &Need| found(&world, need);
    let mailed = |fact: &RequestEvent| {
        let mut note = noted(fact.clone(), false);
        note.fan_out = FanOutProgress::Recipients {
            left: Recipient::parse_all(&fact.to),
            after: None,
        };
        let Ok(Outcome::Decided(change)) = continue_fan_out(&note, &lookup, DateTime::UNIX_EPOCH)
        else {
            panic!("nobody was notified");
        };
        let count = |effect: &Effect| {
            if let Effect::Deliver(NewDeliveries { to, .. }) = effect {
                to.len()
            } else {
                0
            }
        };
        change.effects.iter().map(count).sum::<usize>()
    };
    assert_eq!(
        mailed(&fact(1, RequestEventKind::Opened, &["@role.ops"])),
        2
    );
    let mut own = fact(1, RequestEventKind::Opened, &["@user.ada"]);
    own.by = Some("ada".to_owned());
    assert_eq!(mailed(&own), 1, "perhaps a script of theirs asks");
    own.kind = RequestEventKind::Assigned;
    assert_eq!(mailed(&own), 0, "they have taken it themselves");
}
