//! Races on one request: answers, time, pauses, cancelling, reassigning, taking over, votes,
//! snoozing, acknowledging, asking again.

use std::collections::BTreeMap;

use holdpoint_contracts::handoff::{
    AskAgain, Completion, Decision, Disposition, OutcomeType, RequestAction, RequestView,
};
use holdpoint_contracts::hold::{CloseReply, HoldSpec, HoldState, Policy};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use proptest::prelude::*;

use super::ask_again::{ask_again_after, opened};
use super::world::{World, gone, minute, respond, spec};
use crate::domain::{Effect, Phase, Recipient, RequestInput};

#[derive(Debug, Clone)]
enum Event {
    Decide(&'static str, bool),
    Act(&'static str, RequestAction),
    Fire,
    FireOld(u64),
    Freeze,
    Open(i64),
    Withdrawn,
    CloseAcked(CloseReply),
    Disable(&'static str),
}

fn who() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("ada"), Just("oscar"), Just("bob"), Just("olga")]
}

fn action() -> impl Strategy<Value = RequestAction> {
    let to = prop_oneof![Just("@user.ada"), Just("@user.bob"), Just("@role.ops")];
    let reassign = to.prop_map(|to| RequestAction::Reassign { to: to.to_owned() });
    prop_oneof![
        2 => Just(RequestAction::TakeOver),
        1 => Just(RequestAction::Accept),
        2 => reassign,
        1 => Just(RequestAction::Delegate { to: "@user.bob".to_owned() }),
        1 => Just(RequestAction::Acknowledge),
        1 => Just(RequestAction::Snooze { for_ms: 600_000 }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let close_reply = prop_oneof![
        Just(CloseReply::Applied),
        Just(CloseReply::OnResume),
        Just(CloseReply::RunEnded)
    ];
    prop_oneof![
        5 => (who(), any::<bool>()).prop_map(|(who, yes)| Event::Decide(who, yes)),
        5 => (who(), action()).prop_map(|(who, action)| Event::Act(who, action)),
        3 => Just(Event::Fire),
        1 => (0..5_u64).prop_map(Event::FireOld),
        2 => Just(Event::Freeze),
        2 => (0..500_i64).prop_map(Event::Open),
        1 => Just(Event::Withdrawn),
        2 => close_reply.prop_map(Event::CloseAcked),
        1 => prop_oneof![Just("ada"), Just("oscar")].prop_map(Event::Disable),
    ]
}

fn asked(kind: HoldKind) -> HoldSpec {
    HoldSpec {
        policy: Policy {
            need: if kind == HoldKind::Approval { 2 } else { 1 },
            not_requester: false,
        },
        ..spec(kind)
    }
}

fn decision(kind: HoldKind, yes: bool) -> Decision {
    match kind {
        HoldKind::Approval if yes => Decision::approve(None),
        HoldKind::Approval => Decision::Reject {
            reason: "no".to_owned(),
        },
        HoldKind::Handoff => Decision::Complete(Completion {
            notes: format!("{yes}"),
            outcome_type: OutcomeType::Resolved,
            disposition: Disposition::Finish,
        }),
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => {
            respond(if yes { "yes" } else { "no" })
        }
    }
}

fn apply(world: &mut World, kind: HoldKind, rev: u64, event: &Event) {
    let spec = || Box::new(asked(kind));
    match event {
        Event::Decide(who, yes) => drop(world.decide_as(who, decision(kind, *yes))),
        Event::Act(who, action) => drop(world.act(who, action.clone())),
        Event::Fire => drop(world.fire()),
        Event::FireOld(rev) => drop(world.fire_rev(*rev)),
        Event::Freeze => {
            let (spec, since) = (spec(), world.now);
            let remaining_ms = Some(60_000);
            world.desired_state(
                rev,
                HoldState::Frozen {
                    spec,
                    since,
                    remaining_ms,
                },
            );
        }
        Event::Open(more) => {
            let deadline = Some(world.now + chrono::TimeDelta::minutes(*more));
            world.desired_state(
                rev,
                HoldState::Open {
                    spec: spec(),
                    deadline,
                },
            );
        }
        Event::Withdrawn => drop(world.desired_state(rev, gone())),
        Event::CloseAcked(_) if world.closed().is_empty() => {}
        Event::CloseAcked(answer) => world.acknowledge_close(*answer),
        Event::Disable(who) => {
            world.users.get_mut(*who).unwrap().active = false;
            let recipient = Recipient::User(who.parse().unwrap());
            drop(world.put(RequestInput::RecipientLost { recipient }));
        }
    }
}

/// The executor and the users got the same end last, whichever way the request ended.
fn all_are_notified_of_the_same_end(world: &World) -> Result<(), TestCaseError> {
    let request = world.request.as_ref().unwrap();
    let (end, shown) = (request.end(), request.view().unwrap());
    let mut newest = world.effects.iter().rev();
    let (_, event) = newest.find_map(Effect::try_as_request_event_ref).unwrap();
    let people = |view: &RequestView| (view.outcome, view.decided_by.clone());
    prop_assert_eq!(
        people(&event.request),
        people(&shown),
        "people: {:?}",
        event
    );
    if let Some(end) = &end {
        let decided = (shown.outcome, shown.decided_by.as_ref());
        prop_assert_eq!(decided, (Some(end.outcome), Some(&end.by)));
    } else {
        prop_assert_eq!(shown.outcome, None, "it stands");
    }
    // In all other cases the request is open, or the executor withdrew it.
    let has_closed = matches!(
        request.phase,
        Phase::Decided { .. } | Phase::TimedOut { .. }
    );
    if let Some(end) = end.filter(|_| has_closed) {
        let closed = world.closed().pop().unwrap();
        prop_assert_eq!(
            (closed.outcome, &closed.data, &closed.by, closed.at),
            (end.outcome, &end.data, &end.by, end.at)
        );
    }
    Ok(())
}

/// Events of a standalone request, or of the new request that asks it again.
#[derive(Debug, Clone)]
enum Alone {
    Any(Event),
    Withdraw(&'static str),
    /// The caller, and the new recipient.
    AskAgain(&'static str, Option<&'static str>),
}

fn alone() -> impl Strategy<Value = Alone> {
    let act = (who(), action()).prop_map(|(who, action)| Event::Act(who, action));
    let decide = (who(), any::<bool>()).prop_map(|(who, yes)| Event::Decide(who, yes));
    let to = prop_oneof![3 => Just(None), 1 => Just(Some("@user.ada"))];
    prop_oneof![
        3 => act.prop_map(Alone::Any),
        1 => decide.prop_map(Alone::Any),
        4 => Just(Alone::Any(Event::Fire)),
        2 => who().prop_map(Alone::Withdraw),
        6 => (who(), to).prop_map(|(who, to)| Alone::AskAgain(who, to)),
    ]
}

/// Asks an ended request again, or finds the new request of an earlier caller.
fn ask_again(
    old: &World,
    next: Option<World>,
    who: &str,
    to: Option<&str>,
) -> Result<Option<World>, TestCaseError> {
    let of = |wanted: &mut AskAgain| wanted.to = to.map(|to| vec![to.to_owned()]);
    match ask_again_after(old, next.as_ref(), who, of) {
        Ok(asked) => {
            prop_assert!(
                old.view().outcome.is_some(),
                "an open request is not asked twice"
            );
            if let Some(next) = &next {
                prop_assert_eq!(&asked.request, &next.request, "one is opened, by the first");
                return Ok(Some(next.clone()));
            }
            Ok(Some(asked))
        }
        Err(problem) => {
            prop_assert!([403, 409].contains(&problem.status), "{}", problem);
            Ok(next)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Issue 4, ask again: however often callers ask again, one new request is opened, and the end of the old one
    /// does not change.
    #[test]
    fn an_ended_request_is_asked_again_once(
        events in proptest::collection::vec((any::<bool>(), alone()), 1..24),
    ) {
        let mut old = opened(spec(HoldKind::Input));
        old.user("bob", &["operator"]);
        let mut next: Option<World> = None;
        let mut end: Option<Phase> = None;
        for (is_old, event) in events {
            old.now += chrono::TimeDelta::minutes(17);
            if let Some(next) = &mut next {
                next.now = old.now;
            }
            match &event {
                Alone::AskAgain(who, to) => next = ask_again(&old, next, who, *to)?,
                Alone::Any(event) => {
                    let world = next.as_mut().filter(|_| !is_old).unwrap_or(&mut old);
                    apply(world, HoldKind::Input, 0, event);
                }
                Alone::Withdraw(who) => {
                    let world = next.as_mut().filter(|_| !is_old).unwrap_or(&mut old);
                    let caller = world.caller(who);
                    drop(world.withdraw_as(caller, None));
                }
            }
            if let Some(end) = &end {
                prop_assert_eq!(end, old.phase(), "how it ended stands");
            }
            if next.is_some() {
                end = Some(old.phase().clone());
            }
        }
    }
}

/// A timeout of an owned run is undone. The users who were notified of it are notified again.
#[test]
fn an_owned_request_that_the_run_opens_again_is_notified_again() {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(asked(HoldKind::Handoff)), Some(minute(60)));
    world.desired_state(1, HoldState::Open { spec, deadline });
    let events = [
        Event::Act("olga", RequestAction::TakeOver),
        Event::CloseAcked(CloseReply::OnResume),
        Event::Withdrawn,
        Event::Open(0),
    ];
    for (rev, event) in (2..).zip(&events) {
        apply(&mut world, HoldKind::Handoff, rev, event);
        all_are_notified_of_the_same_end(&world).unwrap();
    }
    assert_eq!(
        world.request_events().pop().unwrap().0,
        RequestEventKind::Opened
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// People, Must: 1,000 random races have one outcome, and all users are notified of it.
    #[test]
    fn a_race_has_one_outcome_and_one_notification(
        kind in prop_oneof![Just(HoldKind::Approval), Just(HoldKind::Input), Just(HoldKind::Handoff)],
        events in proptest::collection::vec(event(), 1..24),
    ) {
        let mut world = World::new();
        let (spec, deadline) = (Box::new(asked(kind)), Some(minute(60)));
        world.desired_state(1, HoldState::Open { spec, deadline });
        let mut decided: Option<Phase> = None;
        let mut owner: Option<String> = None;
        for (place, event) in events.iter().enumerate() {
            world.now += chrono::TimeDelta::minutes(7);
            let version = world.request.as_ref().unwrap().version;
            let had_it = world.request.as_ref().unwrap().progress.assignee.clone();
            apply(&mut world, kind, u64::try_from(place).unwrap() + 2, event);
            let request = world.request.clone().unwrap();
            // `World::put` has checked: a timer is set or the owners know.
            if let Some(decided) = &decided {
                prop_assert_eq!(decided, &request.phase, "a recorded decision never changes");
            }
            if matches!(request.phase, Phase::Decided { .. }) {
                decided = Some(request.phase.clone());
            }
            if let Some(mark) = &request.progress.taken_over {
                // A reassigned request belongs to its new assignee, or to all recipients until one accepts it.
                let is_given = matches!(event, Event::Act(_, RequestAction::Reassign { .. }));
                if is_given || had_it.is_none() {
                    owner = Some(mark.by.clone());
                }
                prop_assert_eq!(owner.get_or_insert(mark.by.clone()), &mark.by);
                let has_deadline = matches!(request.phase, Phase::Open { deadline: Some(_) });
                prop_assert!(!has_deadline, "its timer has stopped");
            }
            all_are_notified_of_the_same_end(&world)?;
            let is_given = matches!(event, Event::Act(_, RequestAction::Reassign { .. }));
            if is_given && request.version > version {
                // If several users must agree, only the new ones are notified.
                let audience = request.audience();
                let (kind, to) = world.request_events().pop().unwrap();
                prop_assert_eq!(kind, RequestEventKind::Assigned);
                prop_assert!(!to.is_empty() && to.iter().all(|one| audience.contains(one)));
            }
        }
        let mut revs = BTreeMap::new();
        for effect in &world.effects {
            if let Effect::RequestEvent(_, fact) = effect {
                prop_assert!(revs.insert(fact.rev, fact.kind).is_none(), "one fact a version");
            }
        }
        let votes = &world.request.as_ref().unwrap().progress.votes;
        let mut voters: Vec<_> = votes.iter().map(|vote| &vote.by).collect();
        voters.sort_unstable();
        voters.dedup();
        prop_assert_eq!(voters.len(), votes.len(), "the same person counts once");
    }
}
