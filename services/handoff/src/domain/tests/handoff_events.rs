//! Handoff events: the executor gets all of them in order, until it has acknowledged them.

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

/// The events of the newest handoff update.
fn alone(world: &World) -> Vec<Vec<HandoffEventKind>> {
    let handled = world.handoff_updates().into_iter();
    let kinds = handled.map(|one| {
        one.handoff_events
            .iter()
            .map(|handoff_event| handoff_event.kind)
            .collect()
    });
    kinds.collect()
}

/// The events that the newest close carries.
fn with_close(world: &World) -> Vec<HandoffEventKind> {
    let closed = world.closed();
    let handoff_events = &closed.last().unwrap().handoff_events;
    handoff_events
        .iter()
        .map(|handoff_event| handoff_event.kind)
        .collect()
}

/// S0-AC6: unacknowledged events are sent again with later ones, and precede a close.
#[test]
fn handoff_events_are_sent_in_order_until_they_are_acknowledged() {
    let mut world = handed(spec(HoldKind::Handoff));
    world.act("ada", RequestAction::Accept).unwrap();
    world.act("ada", reassign("@user.oscar")).unwrap();
    assert_eq!(alone(&world), [vec![Accepted], vec![Accepted, Reassigned]]);
    let given = world.handoff_updates()[1].handoff_events[1].clone();
    assert_eq!(
        (given.by.as_str(), given.to),
        ("ada", vec!["@user.oscar".to_owned()])
    );
    let first = world.handoff_updates()[0].rev;
    world
        .put(RequestInput::HandoffEventsAcked { rev: first })
        .unwrap();
    world.act("oscar", RequestAction::TakeOver).unwrap();
    assert_eq!(with_close(&world), [Reassigned, TakenOver]);
    world.act("oscar", reassign("@user.ada")).unwrap();
    assert_eq!(alone(&world).len(), 2, "it waits for the take-over's word");
    world.acknowledge_close(CloseReply::Applied);
    assert_eq!(alone(&world)[2], [Reassigned], "and follows it");
    let rev = world.handoff_updates()[2].rev;
    world.put(RequestInput::HandoffEventsAcked { rev }).unwrap();
    let before = world.request.clone();
    world.put(RequestInput::HandoffEventsAcked { rev }).unwrap();
    assert_eq!(world.request, before, "twice is once");
    world.decide_as("ada", complete()).unwrap();
    assert_eq!(with_close(&world), [], "it is known");
}

/// The executor acknowledged nothing, so the close carries all events.
#[test]
fn the_close_carries_unacknowledged_handoff_events() {
    let mut world = handed(spec(HoldKind::Handoff));
    world.act("ada", RequestAction::Accept).unwrap();
    world.act("ada", reassign("@user.oscar")).unwrap();
    world.act("oscar", RequestAction::TakeOver).unwrap();
    world.decide_as("oscar", complete()).unwrap();
    assert_eq!(
        world.closed().last().unwrap().outcome,
        HoldOutcome::Completed
    );
    assert_eq!(with_close(&world), [Accepted, Reassigned, TakenOver]);
}

/// The sweep and rungs reassign a handoff too.
#[test]
fn reassignments_by_services_are_handoff_events_too() {
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
    let handoff_events = &world.handoff_updates().last().unwrap().handoff_events;
    let events: Vec<_> = handoff_events
        .iter()
        .map(|it| (it.by.as_str(), it.to.len()))
        .collect();
    assert_eq!(events, [("service:scheduler", 1), ("service:handoff", 0)]);
}

/// Only handoffs of runs have events, and their number is bounded.
#[test]
fn only_handoffs_of_runs_have_events_and_the_oldest_is_dropped() {
    let mut world = handed(spec(HoldKind::Approval));
    world.act("ada", RequestAction::Accept).unwrap();
    assert!(world.handoff_updates().is_empty());
    let mut world = handed(spec(HoldKind::Handoff));
    for _ in 0..PENDING_EVENTS_MAX {
        world.act("olga", reassign("@user.oscar")).unwrap();
        world.act("olga", reassign("@user.ada")).unwrap();
    }
    assert_eq!(
        world.handoff_updates().last().unwrap().handoff_events.len(),
        PENDING_EVENTS_MAX
    );
}
