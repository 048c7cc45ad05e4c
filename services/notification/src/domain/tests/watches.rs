//! Who is notified of a fact because they watch: each once, and in which words.

use holdpoint_contracts::notification::Watched;
use proptest::prelude::*;

use super::request_events::{ended, kinds};
use super::*;

/// Who watches what a fact is of; each need is answered as the tables do.
fn lookup<'w>(world: &'w World, watching: &'w [&'w str]) -> impl Fn(&Need) -> Lookup + 'w {
    move |need: &Need| match need {
        Need::Watchers {
            of, after, limit, ..
        } => {
            assert!(!of.is_empty());
            let after = after.as_ref().map_or("", |name| name.as_str());
            let later = watching.iter().filter(|name| **name > after);
            let names = later.take(*limit).map(|name| name.parse().unwrap());
            Lookup::Found(Fact::Names(names.collect()))
        }
        Need::WatchCount(..) => Lookup::Found(Fact::Count(0)),
        Need::RequestLifecycle(..)
        | Need::Members { .. }
        | Need::Person(..)
        | Need::Webhooks(_)
        | Need::IsErased(..)
        | Need::LastErasure(..)
        | Need::ContactEvents { .. }
        | Need::Unread { .. } => found(world, need),
    }
}

/// All entries that an event adds, in order: the person, and whether they only watch. Nothing leaves the
/// application for who watches.
fn entries(fact: &RequestEvent, lookup: LookupFn<'_>) -> Vec<(String, bool)> {
    let input = Input::RecordRequestEvent {
        workspace: acme(),
        event: Box::new(fact.clone()),
    };
    let Ok(Outcome::Decided(first)) = asked(None, &input, lookup) else {
        panic!("not stored");
    };
    let (mut state, mut all) = (first.state, Vec::new());
    loop {
        let Aggregate::Event(note) = &state else {
            panic!("no note");
        };
        let go_on = Input::ContinueFanOut(note.key());
        let Ok(Outcome::Decided(change)) = asked(Some(&state), &go_on, lookup) else {
            return all;
        };
        let mut concerned = Vec::new();
        for effect in &change.effects {
            if let Effect::AddInboxEntries(NewInboxEntries {
                people, watching, ..
            }) = effect
            {
                all.extend(people.iter().map(|name| (name.to_string(), *watching)));
                concerned.extend(people.iter().filter(|_| !watching));
            } else if let Effect::Deliver(NewDeliveries { to, .. }) = effect {
                assert!(to.len() <= PAGE);
            } else {
                panic!("{effect:?}");
            }
        }
        for effect in &change.effects {
            if let Effect::Deliver(NewDeliveries { to, .. }) = effect {
                assert!(
                    to.len() <= concerned.len(),
                    "nothing leaves for who watches"
                );
            }
        }
        state = change.state;
    }
}

/// The people who have an entry after all writes. An entry that exists stays.
fn notified(fact: &RequestEvent, lookup: LookupFn<'_>) -> BTreeMap<String, bool> {
    let mut notified = BTreeMap::new();
    for (name, watching) in entries(fact, lookup) {
        notified.entry(name).or_insert(watching);
    }
    notified
}

fn everybody() -> World {
    world(&[
        ("ada", &["ops"]),
        ("bob", &["member"]),
        ("cleo", &["member"]),
        ("dan", &[]),
        ("olga", &["owner"]),
    ])
}

/// People, Deliver 7: who watches is notified what is asked, who has it now and how it ended; not of what
/// they did themselves, and not where they are disabled.
#[test]
fn watchers_are_notified_beside_recipients() {
    let world = everybody();
    let watching = ["ada", "bob", "cleo", "dan"];
    let lookup = lookup(&world, &watching);
    let of = |fact: &RequestEvent| notified(fact, &lookup).into_iter().collect::<Vec<_>>();
    let notified_as = |name: &str, watching| (name.to_owned(), watching);
    let mut opened = fact(1, RequestEventKind::Opened, &["@role.ops"]);
    opened.by = Some("bob".to_owned());
    assert_eq!(
        of(&opened),
        [notified_as("ada", false), notified_as("cleo", true)]
    );
    let decided = ended(RequestEventKind::Decided, Some("ada"), &["cleo"]);
    assert_eq!(
        of(&decided),
        [notified_as("bob", true), notified_as("cleo", false)]
    );
    let silent = ended(RequestEventKind::Expired, None, &[]);
    assert_eq!(
        of(&silent),
        [
            notified_as("ada", true),
            notified_as("bob", true),
            notified_as("cleo", true)
        ]
    );
    let escalated = fact(3, RequestEventKind::Escalated, &["@user.olga"]);
    assert_eq!(of(&escalated), [notified_as("olga", false)]);
    let mut timer = fact(4, RequestEventKind::Opened, &["@role.ops"]);
    timer.request.kind = HoldKind::Timer;
    assert_eq!(of(&timer), []);
}

/// Where nobody watches, and it concerns nobody, nothing more is to be done.
#[test]
fn what_nobody_watches_costs_no_page() {
    let world = everybody();
    let input = Input::RecordRequestEvent {
        workspace: acme(),
        event: Box::new(ended(RequestEventKind::Expired, None, &[])),
    };
    for (watching, fan) in [
        (&[][..], FanOutProgress::Done),
        (&["bob"], FanOutProgress::Watchers { after: None }),
    ] {
        let lookup = lookup(&world, watching);
        let Ok(Outcome::Decided(change)) = decide(None, &input, &lookup, DateTime::UNIX_EPOCH)
        else {
            panic!("not stored");
        };
        assert_eq!(
            change.effects.contains(&Effect::ContinueFanOut),
            fan != FanOutProgress::Done
        );
        let Aggregate::Event(note) = change.state else {
            panic!("no note");
        };
        assert_eq!(note.fan_out, fan);
    }
}

/// More than fit into one commit are notified in two.
#[test]
fn many_watchers_are_notified_page_by_page() {
    let names: Vec<_> = (0..=PAGE).map(|number| format!("u{number:05}")).collect();
    let world: World = names
        .iter()
        .map(|name| (name.clone(), vec!["member"]))
        .collect();
    let watching: Vec<_> = names.iter().map(String::as_str).collect();
    let fact = ended(RequestEventKind::Decided, Some("u00000"), &["u00001"]);
    let entries = entries(&fact, &lookup(&world, &watching));
    let notified: Vec<_> = entries.iter().filter(|(_, watching)| *watching).collect();
    assert_eq!(notified.len(), PAGE, "all but who did it");
    assert_eq!(entries.len(), PAGE + 1);
}

/// Issue 4, "redacted per viewer": what was said is for those whom it concerns.
#[test]
fn a_watcher_reads_how_it_ended_and_not_what_was_said() {
    let mut fact = ended(RequestEventKind::Decided, Some("ada"), &["cleo"]);
    fact.request.title = Some("Deploy 4.2?".to_owned());
    fact.request.outcome = Some(holdpoint_contracts::hold::HoldOutcome::Rejected);
    fact.request.response = Some("Not before Monday".into());
    let shown_to = |fact: &RequestEvent, watching| {
        let entry = InboxEntry {
            workspace: acme(),
            person: "bob".parse().unwrap(),
            event: Box::new(noted(fact.clone(), false)),
            request_end: None,
            read_at: None,
            watching,
        };
        view(&entry)
    };
    let shown = shown_to(&fact, true).unwrap();
    assert_eq!(shown.title, "Rejected: Deploy 4.2?");
    assert_eq!(shown.message, "Rejected by ada.");
    assert_eq!(shown.priority, Priority::Normal);
    assert_eq!(shown.action_url, shown.link);
    let concerned = shown_to(&fact, false).unwrap();
    assert_eq!(concerned.message, "Rejected by ada: Not before Monday");
    fact.kind = RequestEventKind::Opened;
    let shown = shown_to(&fact, true).unwrap();
    assert_eq!(shown.title, "Asked: Deploy 4.2?");
    assert_eq!(
        shown.kind,
        NotificationType::Custom,
        "it asks nothing of them"
    );
    (fact.kind, fact.request.assignee) = (RequestEventKind::Assigned, Some("nina".to_owned()));
    let shown = shown_to(&fact, true).unwrap();
    assert_eq!(shown.title, "With nina now: Deploy 4.2?");
}

/// One watches a thing once, no more once one does not, and not more things than there is room for.
#[test]
fn a_thing_is_watched_once() {
    let agent = Watched::Agent("outreach".parse().unwrap());
    let (workspace, person) = (acme(), "bob".parse().unwrap());
    let watch = Input::Watch {
        workspace,
        person,
        of: agent.clone(),
    };
    let Key::Watch(workspace, person, _) = watch.key() else {
        panic!("another key");
    };
    let unwatch = Input::Unwatch {
        workspace,
        person,
        of: agent.clone(),
    };
    assert_eq!(watch.key(), unwatch.key());
    let count = |count| move |_: &Need| Lookup::Found(Fact::Count(count));
    let decide = |state: Option<&Aggregate>, input, watched| {
        decide(state, input, &count(watched), DateTime::UNIX_EPOCH)
    };
    let changed = |step| match step {
        Ok(Outcome::Decided(change)) => (change.state, change.reply),
        other => panic!("{other:?}"),
    };
    let full = decide(None, &watch, WATCHES_MAX);
    assert_eq!(full, Err(Refusal::TooManyWatches.into()));
    assert_eq!(Refusal::TooManyWatches.problem().status, 409);
    let (state, answer) = changed(decide(None, &watch, WATCHES_MAX - 1));
    assert!(matches!(answer, Reply::WatchAdded(added) if added.new));
    let again = decide(Some(&state), &watch, WATCHES_MAX);
    assert!(matches!(again, Ok(Outcome::Unchanged(Reply::WatchAdded(known))) if !known.new));
    let (state, _) = changed(decide(Some(&state), &unwatch, 0));
    let gone = decide(Some(&state), &unwatch, 0);
    assert_eq!(gone, Err(Refusal::NoWatch(agent).into()));
    let (state, _) = changed(decide(Some(&state), &watch, 0));
    let Aggregate::Watch(watch) = state else {
        panic!("no watch");
    };
    assert_eq!((watch.version, watch.since.is_some()), (3, true));
}

proptest! {
    /// Each watcher is notified of every event once, except the actor and disabled users;
    /// and whom it concerns is notified as if nobody watched.
    #[test]
    fn each_watcher_is_notified_once(
        kind in kinds(),
        by in prop::option::of(prop::sample::select(vec!["ada", "bob", "cleo", "olga"])),
        asked_by in prop::sample::subsequence(vec!["ada", "bob", "cleo"], 0..=3),
        watching in prop::sample::subsequence(vec!["ada", "bob", "cleo", "dan", "olga"], 0..=5),
    ) {
        let world = everybody();
        let fact = ended(kind, by, &asked_by);
        let without = notified(&fact, &lookup(&world, &[]));
        let lookup = lookup(&world, &watching);
        let notified = notified(&fact, &lookup);
        let concerned: BTreeMap<_, _> = notified.iter().filter(|(_, watching)| !**watching).collect();
        prop_assert_eq!(concerned, without.iter().collect::<BTreeMap<_, _>>());
        let is_news = !matches!(kind, RequestEventKind::Escalated | RequestEventKind::TakenOver);
        for name in ["ada", "bob", "cleo", "dan", "olga"] {
            let expected = is_news
                && watching.contains(&name)
                && by != Some(name)
                && name != "dan"
                && !without.contains_key(name);
            prop_assert_eq!(notified.get(name) == Some(&true), expected, "{}", name);
        }
        let mut seen = entries(&fact, &lookup);
        seen.retain(|(_, watching)| *watching);
        let count = seen.len();
        seen.sort();
        seen.dedup();
        prop_assert_eq!(seen.len(), count, "no watcher twice");
    }
}
