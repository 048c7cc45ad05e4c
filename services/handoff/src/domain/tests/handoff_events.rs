//! What the history of a run is told of its handoff: everything, in order, until the executor knows it.

use holdpoint_contracts::handoff::{Completion, Decision, Disposition, OutcomeType, RequestAction};
use holdpoint_contracts::hold::{
    CloseReply, HandoffEventKind, HoldOutcome, HoldSpec, HoldState, Rung, RungAct,
};
use holdpoint_contracts::run::HoldKind;

use super::world::{World, minute, spec};
use crate::domain::model::limits::PENDING_EVENTS_MAX;
use crate::domain::{RequestInput, UserInput};

use HandoffEventKind::{Accepted, Reassigned, TakenOver};

fn handed(spec: HoldSpec) -> World {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(spec), None);
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn reassign(to: &str) -> RequestAction {
    let to = to.to_owned();
    RequestAction::Reassign { to }
}

fn complete() -> Decision {
    Decision::Complete(Completion {
        notes: "done".to_owned(),
        outcome_type: OutcomeType::Resolved,
        disposition: Disposition::Finish,
    })
}

/// What is on its way beside closes.
fn alone(world: &World) -> Vec<Vec<HandoffEventKind>> {
    let handled = world.handled().into_iter();
    let kinds = handled.map(|one| {
        one.handoff_events
            .iter()
            .map(|handoff_event| handoff_event.kind)
            .collect()
    });
    kinds.collect()
}

/// What the newest close brings.
fn with_close(world: &World) -> Vec<HandoffEventKind> {
    let closed = world.closed();
    let handoff_events = &closed.last().unwrap().handoff_events;
    handoff_events
        .iter()
        .map(|handoff_event| handoff_event.kind)
        .collect()
}

/// S0-AC6: what has not been confirmed is told again with what follows, and goes before a close.
#[test]
fn what_was_done_is_told_until_it_is_confirmed_and_before_what_follows() {
    let mut world = handed(spec(HoldKind::Handoff));
    world.act("ada", RequestAction::Accept).unwrap();
    world.act("ada", reassign("@user.oscar")).unwrap();
    assert_eq!(alone(&world), [vec![Accepted], vec![Accepted, Reassigned]]);
    let given = world.handled()[1].handoff_events[1].clone();
    assert_eq!(
        (given.by.as_str(), given.to),
        ("ada", vec!["@user.oscar".to_owned()])
    );
    let first = world.handled()[0].rev;
    world
        .put(RequestInput::HandoffEventsAcked { rev: first })
        .unwrap();
    world.act("oscar", RequestAction::TakeOver).unwrap();
    assert_eq!(with_close(&world), [Reassigned, TakenOver]);
    world.act("oscar", reassign("@user.ada")).unwrap();
    assert_eq!(alone(&world).len(), 2, "it waits for the take-over's word");
    world.told(CloseReply::Applied);
    assert_eq!(alone(&world)[2], [Reassigned], "and follows it");
    let rev = world.handled()[2].rev;
    world.put(RequestInput::HandoffEventsAcked { rev }).unwrap();
    let before = world.request.clone();
    world.put(RequestInput::HandoffEventsAcked { rev }).unwrap();
    assert_eq!(world.request, before, "twice is once");
    world.say("ada", complete()).unwrap();
    assert_eq!(with_close(&world), [], "it is known");
}

/// The executor was away all the time: the end brings everything.
#[test]
fn the_end_brings_what_was_never_confirmed() {
    let mut world = handed(spec(HoldKind::Handoff));
    world.act("ada", RequestAction::Accept).unwrap();
    world.act("ada", reassign("@user.oscar")).unwrap();
    world.act("oscar", RequestAction::TakeOver).unwrap();
    world.say("oscar", complete()).unwrap();
    assert_eq!(
        world.closed().last().unwrap().outcome,
        HoldOutcome::Completed
    );
    assert_eq!(with_close(&world), [Accepted, Reassigned, TakenOver]);
}

/// Whoever is not there gives it back, and a rung may give it to others.
#[test]
fn what_nobody_did_by_hand_is_told_too() {
    let mut world = handed(HoldSpec {
        to: vec!["@user.ada".to_owned()],
        ladder: vec![Rung {
            after_ms: 60_000,
            act: RungAct::Reassign,
            to: vec!["@user.oscar".to_owned()],
        }],
        ..spec(HoldKind::Handoff)
    });
    world.now = minute(1);
    world.fire();
    let olga = world.caller("olga");
    world
        .user_input("oscar", &olga, UserInput::Disable)
        .unwrap();
    let recipient = crate::domain::Recipient::User("oscar".parse().unwrap());
    world
        .put(RequestInput::RecipientLost { recipient })
        .unwrap();
    let handoff_events = &world.handled().last().unwrap().handoff_events;
    let told: Vec<_> = handoff_events
        .iter()
        .map(|it| (it.by.as_str(), it.to.len()))
        .collect();
    assert_eq!(told, [("service:scheduler", 1), ("service:handoff", 0)]);
}

/// Only handoffs of runs have it in a history, and the row is bounded.
#[test]
fn nothing_is_told_of_others_and_the_oldest_is_left_out() {
    let mut world = handed(spec(HoldKind::Approval));
    world.act("ada", RequestAction::Accept).unwrap();
    assert!(world.handled().is_empty());
    let mut world = handed(spec(HoldKind::Handoff));
    for _ in 0..PENDING_EVENTS_MAX {
        world.act("olga", reassign("@user.oscar")).unwrap();
        world.act("olga", reassign("@user.ada")).unwrap();
    }
    assert_eq!(
        world.handled().last().unwrap().handoff_events.len(),
        PENDING_EVENTS_MAX
    );
}
