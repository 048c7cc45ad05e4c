//! The end of a run: who is notified, once each, in which words and by which ways (S0-T4).
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it looks for, and passes by or fails on anything else"
)]

use std::sync::Arc;

use holdpoint_contracts::notification::{PersonalChannel, RunEndRecorded, RunEnded, Watched};
use holdpoint_contracts::run::RunStatus;
use proptest::prelude::*;

use super::*;

fn run_ended(status: RunStatus) -> RunEnded {
    RunEnded {
        erased: false,
        run: request(HoldKind::Handoff).id.run,
        agent: "outreach".parse().unwrap(),
        status,
        message: "All 3 steps ended.".to_owned(),
        by: None,
        started_at: DateTime::UNIX_EPOCH,
        ended_at: "1970-01-03T04:00:07.250Z".parse().unwrap(),
        watch: 3,
        workspace_watch: 0,
    }
}

/// Who watches, in the order of names; the rest is as in the world.
fn lookup<'w>(world: &'w World, watching: &'w [String]) -> impl Fn(&Need) -> Lookup + 'w {
    move |need: &Need| match need {
        Need::Watchers {
            of, after, limit, ..
        } => {
            assert_eq!(of.len(), 2, "the run and its agent");
            let after = after.as_ref().map_or("", |name| name.as_str());
            let later = watching.iter().filter(|name| name.as_str() > after);
            let names = later.take(*limit).map(|name| name.parse().unwrap());
            Lookup::Found(Fact::Names(names.collect()))
        }
        Need::WatchCount(..)
        | Need::RequestLifecycle(..)
        | Need::Members { .. }
        | Need::Person(..)
        | Need::Webhooks(_)
        | Need::IsErased(..)
        | Need::LastErasure(..)
        | Need::ContactEvents { .. }
        | Need::Unread { .. } => found(world, need),
    }
}

fn given(
    state: Option<&Aggregate>,
    input: &Input,
    lookup: LookupFn<'_>,
) -> Result<Outcome, Undecided> {
    decide(state, input, lookup, DateTime::UNIX_EPOCH)
}

/// All effects of telling an end, page after page.
fn effects_of(end: &RunEnded, lookup: LookupFn<'_>) -> Vec<Effect> {
    let input = Input::RecordRunEnd {
        workspace: acme(),
        end: Box::new(end.clone()),
    };
    let Ok(Outcome::Decided(first)) = given(None, &input, lookup) else {
        panic!("not stored");
    };
    assert_eq!(first.reply, Reply::RunEndRecorded(RunEndRecorded::Told));
    let (mut state, mut effects) = (first.state, first.effects);
    let again = given(Some(&state), &input, lookup);
    assert_eq!(
        again,
        Ok(Outcome::Unchanged(Reply::RunEndRecorded(
            RunEndRecorded::Known
        ))),
        "twice is once"
    );
    let go_on = Input::ContinueFanOut(EventKey::of_run_end(&acme(), end));
    while let Ok(Outcome::Decided(change)) = given(Some(&state), &go_on, lookup) {
        effects.extend(change.effects);
        state = change.state;
    }
    effects
}

/// Who has an inbox entry, and who is notified outside, in order.
fn people(effects: &[Effect]) -> (Vec<String>, Vec<String>) {
    let (mut entries, mut outside) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::AddInboxEntries(NewInboxEntries { people, .. }) => {
                entries.extend(people.iter().map(ToString::to_string));
            }
            Effect::Deliver(NewDeliveries { to, .. }) => {
                let names = to.iter().filter_map(|planned| planned.to.name());
                outside.extend(names.map(ToString::to_string));
            }
            Effect::ContinueFanOut | Effect::StoreEvent(_) => {}
            other => panic!("{other:?}"),
        }
    }
    (entries, outside)
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// S0-T4: watchers are notified, except the person who cancelled the run and disabled users.
#[test]
fn watchers_are_notified_of_a_run_end() {
    let world = world(&[
        ("ada", &["member"]),
        ("bob", &["viewer"]),
        ("dan", &[]),
        ("olga", &["owner"]),
    ]);
    let watching = names(&["ada", "bob", "dan"]);
    let lookup = lookup(&world, &watching);
    let all = names(&["ada", "bob"]);
    for status in [RunStatus::Completed, RunStatus::Failed] {
        let effects = effects_of(&run_ended(status), &lookup);
        assert_eq!(people(&effects), (all.clone(), all.clone()));
    }
    let mut cancelled = run_ended(RunStatus::Cancelled);
    cancelled.by = Some("ada".to_owned());
    let effects = effects_of(&cancelled, &lookup);
    assert_eq!(people(&effects), (names(&["bob"]), names(&["bob"])));
}

/// S0-T4: what it says; what failed is more urgent than what completed.
#[test]
fn an_end_says_what_how_and_how_long() {
    let world = world(&[("ada", &["member"])]);
    let watching = names(&["ada"]);
    let lookup = lookup(&world, &watching);
    let shown = |status| {
        let effects = effects_of(&run_ended(status), &lookup);
        assert_eq!(people(&effects).0, ["ada"]);
        let subject = Subject::RunEnd(Box::new(run_ended(status)));
        let entry = InboxEntry {
            workspace: acme(),
            person: "ada".parse().unwrap(),
            event: Box::new(NotificationEvent::new(
                &acme(),
                subject,
                FanOutProgress::Done,
            )),
            request_end: None,
            watching: false,
            read_at: None,
        };
        view(&entry).unwrap()
    };
    let completed = shown(RunStatus::Completed);
    let run = run_ended(RunStatus::Completed).run;
    assert_eq!(completed.kind, NotificationType::WorkflowComplete);
    assert_eq!(completed.title, "Run of outreach completed");
    assert_eq!(
        completed.message,
        "All 3 steps ended. It took 2 days 4 hours."
    );
    assert_eq!(completed.link, format!("/runs/{run}"));
    assert_eq!((completed.run, completed.request), (Some(run), None));
    let end = completed.ended.unwrap();
    assert_eq!(
        (end.status, end.took_ms),
        (RunStatus::Completed, 187_207_250)
    );
    let (cancelled, failed) = (shown(RunStatus::Cancelled), shown(RunStatus::Failed));
    assert_eq!(cancelled.title, "Run of outreach was cancelled");
    assert!(completed.priority < cancelled.priority && cancelled.priority < failed.priority);
}

/// S0-T4: nothing is kept of an end that nobody watches, and the executor hears of that.
#[test]
fn an_end_that_nobody_watches_is_forgotten() {
    let world = world(&[("ada", &["member"])]);
    let input = Input::RecordRunEnd {
        workspace: acme(),
        end: Box::new(run_ended(RunStatus::Failed)),
    };
    let nobody = RunEndRecorded::Nobody {
        agent: "outreach".parse().unwrap(),
        watch: 3,
        workspace_watch: 0,
    };
    assert_eq!(
        given(None, &input, &lookup(&world, &[])),
        Ok(Outcome::Unchanged(Reply::RunEndRecorded(nobody)))
    );
}

/// S0-T4: a person who watches an ended run is notified at once, and the watch ends.
#[test]
fn a_late_watcher_is_notified_at_once() {
    let world = world(&[("ada", &["member"])]);
    let lookup = lookup(&world, &[]);
    let end = run_ended(RunStatus::Failed);
    let watch = Watch {
        workspace: acme(),
        person: "ada".parse().unwrap(),
        of: Watched::Run(end.run),
        since: Some(DateTime::UNIX_EPOCH),
        version: 5,
    };
    let input = Input::RunEndedBefore {
        workspace: acme(),
        person: watch.person.clone(),
        end: Box::new(end),
    };
    let state = Aggregate::Watch(Box::new(watch));
    let Ok(Outcome::Decided(change)) = given(Some(&state), &input, &lookup) else {
        panic!("not notified");
    };
    assert_eq!(people(&change.effects), (names(&["ada"]), names(&["ada"])));
    let Aggregate::Watch(after) = &change.state else {
        panic!("no watch");
    };
    assert_eq!((after.since, after.version), (None, 6));
    let again = given(Some(&change.state), &input, &lookup);
    assert_eq!(again, Ok(Outcome::Unchanged(Reply::Done)));
    assert_eq!(
        given(None, &input, &lookup),
        Ok(Outcome::Unchanged(Reply::Done))
    );
}

/// S0-T4: somebody who is so new that the copy does not know them yet is notified all the same, once, where no
/// address is needed; whoever is disabled is not.
#[test]
fn a_new_user_who_watches_too_late_is_notified_in_the_application() {
    let world = world(&[("dan", &[])]);
    let lookup = lookup(&world, &[]);
    let end = run_ended(RunStatus::Failed);
    for (person, entries) in [("zoe", &["zoe"][..]), ("dan", &[])] {
        let watch = Watch {
            workspace: acme(),
            person: person.parse().unwrap(),
            of: Watched::Run(end.run),
            since: Some(DateTime::UNIX_EPOCH),
            version: 1,
        };
        let input = Input::RunEndedBefore {
            workspace: acme(),
            person: watch.person.clone(),
            end: Box::new(end.clone()),
        };
        let state = Aggregate::Watch(Box::new(watch));
        let Ok(Outcome::Decided(change)) = given(Some(&state), &input, &lookup) else {
            panic!("not decided");
        };
        assert_eq!(people(&change.effects), (names(entries), names(&[])));
    }
}

/// S0-T4: a run and an agent are followed at the executor, a request is not.
#[test]
fn the_executor_hears_what_is_watched() {
    let world = World::new();
    let lookup = lookup(&world, &[]);
    let run = Watched::Run(request(HoldKind::Input).id.run);
    let agent = Watched::Agent("outreach".parse().unwrap());
    let request = Watched::Request(request(HoldKind::Input).id);
    for (of, is_told) in [(run, true), (agent, true), (request, false)] {
        let input = Input::Watch {
            workspace: acme(),
            person: "ada".parse().unwrap(),
            of: of.clone(),
        };
        let Ok(Outcome::Decided(change)) = given(None, &input, &lookup) else {
            panic!("{of} is not watched");
        };
        let effect = Effect::WatchRunEnds {
            workspace: acme(),
            by: EndsFor::Person("ada".parse().unwrap()),
            of: of.into(),
            rev: 1,
        };
        assert_eq!(change.effects.contains(&effect), is_told);
        let Ok(Outcome::Unchanged(_)) = given(Some(&change.state), &input, &lookup) else {
            panic!("again changes something");
        };
    }
}

/// Mend C-10: a webhook hears of the ends of all runs, by name. As long as it wants any, the executor tells
/// them all.
#[test]
fn a_webhook_hears_of_ends_that_nobody_watches() {
    let hook = |events: &[&str], active| Subscription {
        webhook: Arc::new(Webhook {
            events: names(events),
            state: match active {
                true => webhook().state,
                false => WebhookState::Disabled {
                    since: DateTime::UNIX_EPOCH,
                },
            },
            ..webhook()
        }),
        pending: 0,
    };
    let input = Input::RecordRunEnd {
        workspace: acme(),
        end: Box::new(run_ended(RunStatus::Failed)),
    };
    let nobody = RunEndRecorded::Nobody {
        agent: "outreach".parse().unwrap(),
        watch: 3,
        workspace_watch: 0,
    };
    for (hook, calls, noted) in [
        (hook(&["run.failed"], true), true, RunEndRecorded::Told),
        (hook(&["run.completed"], true), false, RunEndRecorded::Told),
        (hook(&["run.failed"], false), false, nobody.clone()),
        (hook(&["approval.*"], true), false, nobody),
    ] {
        let lookup = |need: &Need| match need {
            Need::Webhooks(_) => Lookup::Found(Fact::Webhooks(vec![hook.clone()])),
            _ => Lookup::Missing,
        };
        match given(None, &input, &lookup) {
            Ok(Outcome::Decided(change)) => {
                assert!(calls, "{hook:?}");
                let delivers = |effect: &Effect| matches!(effect, Effect::Deliver(_));
                assert!(change.effects.iter().any(delivers));
                assert!(
                    !change.effects.contains(&Effect::ContinueFanOut),
                    "nobody watches"
                );
                assert_eq!(change.reply, Reply::RunEndRecorded(noted));
            }
            Ok(Outcome::Unchanged(answer)) => {
                assert!(!calls, "{hook:?}");
                assert_eq!(answer, Reply::RunEndRecorded(noted));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// S0-T4: webhooks hear of ends by name, as far as somebody watches; whoever lost their roles does not.
#[test]
fn webhooks_and_rights_are_looked_at() {
    let id: WebhookId = "wh_01920000000070008000000000000007".parse().unwrap();
    let end = run_ended(RunStatus::Failed);
    for (events, wants) in [
        (&["run.failed"][..], true),
        (&["run.*"], true),
        (&["*"], true),
        (&["run.completed", "input.*"], false),
    ] {
        let lookup = |need: &Need| match need {
            Need::Webhooks(_) => Lookup::Found(Fact::Webhooks(vec![Subscription {
                webhook: Arc::new(Webhook {
                    id,
                    events: names(events),
                    ..webhook()
                }),
                pending: 0,
            }])),
            Need::Watchers { after, .. } => Lookup::Found(Fact::Names(match after {
                None => vec!["ada".parse().unwrap()],
                Some(_) => Vec::new(),
            })),
            Need::Person(_, name) => Lookup::Found(Fact::Person(Person {
                name: name.clone(),
                active: true,
                has_mail: true,
                may_look: false,
                rules: DeliveryRules::default(),
            })),
            Need::WatchCount(..)
            | Need::RequestLifecycle(..)
            | Need::Members { .. }
            | Need::IsErased(..)
            | Need::LastErasure(..)
            | Need::ContactEvents { .. }
            | Need::Unread { .. } => Lookup::Missing,
        };
        let effects = effects_of(&end, &lookup);
        assert_eq!(people(&effects).0, names(&[]), "she may not look any more");
        let calls: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Deliver(NewDeliveries { to, .. }) => Some(to[0].to.clone()),
                _ => None,
            })
            .collect();
        let wanted = wants.then_some(DeliveryTarget::Webhook(id));
        assert_eq!(calls, wanted.into_iter().collect::<Vec<_>>(), "{events:?}");
    }
}

/// What is asked of one way is asked of the first that a person wants.
#[test]
fn an_end_goes_by_the_way_that_a_person_wants() {
    let world = world(&[("ada", &["member"])]);
    let watching = names(&["ada"]);
    let base = lookup(&world, &watching);
    let mut said = holdpoint_contracts::notification::Preferences::default();
    said.channels.email.from = Priority::High;
    let rules = DeliveryRules::read(&said).unwrap();
    let lookup = |need: &Need| match (need, base(need)) {
        (Need::Person(..), Lookup::Found(Fact::Person(person))) => {
            Lookup::Found(Fact::Person(Person {
                rules: rules.clone(),
                ..person
            }))
        }
        (_, found) => found,
    };
    for (status, mailed) in [(RunStatus::Completed, false), (RunStatus::Failed, true)] {
        let effects = effects_of(&run_ended(status), &lookup);
        let outside = effects.iter().find_map(|effect| match effect {
            Effect::Deliver(NewDeliveries { to, .. }) => to[0].to.person(),
            _ => None,
        });
        assert_eq!(
            outside.map(|(_, way)| way),
            mailed.then_some(PersonalChannel::Email)
        );
        assert_eq!(
            people(&effects).0,
            names(&["ada"]),
            "in the application always"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// S0-T4: however many watch, each is notified once, in commits of a bounded size.
    #[test]
    fn every_watcher_is_notified_once(count in 1_usize..2_500) {
        let watching: Vec<String> = (0..count).map(|n| format!("p{n:05}")).collect();
        let world: World = watching
            .iter()
            .map(|name| (name.clone(), vec!["member"]))
            .collect();
        let effects = effects_of(&run_ended(RunStatus::Failed), &lookup(&world, &watching));
        let (entries, outside) = people(&effects);
        prop_assert_eq!(&entries, &watching);
        prop_assert_eq!(&outside, &watching);
        for effect in &effects {
            if let Effect::AddInboxEntries(NewInboxEntries { people, .. }) = effect {
                prop_assert!(people.len() <= PAGE);
            }
        }
    }
}
