//! The erasure of a request: what goes, what stays, and that it stays erased.

use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState, SetHoldReply};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::world::{World, erased, gone, minute, open, respond, spec};
use crate::domain::{Effect, Phase};

const MARKER: &str = "zq7marker";

/// A question whose texts all name the person.
fn personal() -> HoldSpec {
    let mut all = serde_json::to_value(spec(HoldKind::Approval)).unwrap();
    let fields = json!({
        "question": MARKER, "options": [MARKER], "context": { "contact": MARKER }, "default": MARKER,
        "schema": { "title": MARKER }, "title": MARKER, "callback": format!("https://a.example/{MARKER}"),
        "link": { "url": format!("https://a.example/{MARKER}"), "label": MARKER },
        "task": { "id": "t", "title": MARKER, "description": MARKER, "tags": [] },
        "step": "step-02", "agent": "outreach",
        "items": [{ "id": "step-02", "tool": "payments.refund", "args": { "to": MARKER },
            "args_schema": { "title": MARKER }, "digest": "8f43" }],
    });
    let (all_fields, fields) = (all.as_object_mut().unwrap(), fields.as_object().unwrap());
    all_fields.extend(fields.clone());
    serde_json::from_value(all).unwrap()
}

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let spec = Box::new(spec);
    let deadline = Some(minute(60));
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn stored(world: &World) -> String {
    serde_json::to_string(world.request.as_ref().unwrap()).unwrap()
}

fn sends_an_erased_event(world: &World) -> bool {
    world
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::RequestEvent(_, event) if event.request.erased_at.is_some()))
}

#[test]
fn an_open_request_is_withdrawn_and_emptied() {
    let mut world = asked(personal());
    assert!(stored(&world).contains(MARKER));
    assert_eq!(world.desired_state(5, erased()), SetHoldReply::Set);
    assert!(!stored(&world).contains(MARKER), "{}", stored(&world));
    assert!(matches!(world.phase(), Phase::Withdrawn { .. }));
    let view = world.view();
    assert!(
        view.erased_at.is_some() && view.actions.is_empty(),
        "{view:?}"
    );
    assert_eq!(
        (view.step.as_deref(), view.question.as_str()),
        (Some("step-02"), "erased")
    );
    assert_eq!(view.items[0].digest, "8f43");
    assert!(sends_an_erased_event(&world));
}

/// The record of a decision keeps decision, time and actor, also of a late answer.
#[test]
fn a_decision_stays_without_its_words() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.decide_as("ada", respond("yes")).unwrap();
    let before = world.view();
    assert!(
        world.decide_as("oscar", respond("no")).is_err(),
        "a late answer"
    );
    world.desired_state(5, erased());
    let after = world.view();
    assert_eq!(after.outcome, Some(HoldOutcome::Answered));
    assert_eq!(after.decided_by.as_deref(), Some("ada"));
    assert_eq!(after.decided_at, before.decided_at);
    assert_eq!(after.response, Some(json!({ "erased": true })));
    let late: Vec<&Value> = after.late.iter().map(|answer| &answer.data).collect();
    assert!(
        late.iter().all(|data| **data == json!({ "erased": true })),
        "{late:?}"
    );
    assert!(
        after.history.iter().all(|entry| entry.note.is_none()),
        "{after:?}"
    );
    // An open tab may send an answer later.
    let before = stored(&world);
    assert!(world.decide_as("oscar", respond(MARKER)).is_err());
    assert_eq!(stored(&world), before);
}

/// Messages may be repeated, late, or overtake each other.
#[test]
fn nothing_brings_it_back() {
    let mut world = asked(personal());
    world.desired_state(5, erased());
    let once = stored(&world);
    assert_eq!(world.desired_state(5, erased()), SetHoldReply::Stale);
    assert_eq!(world.desired_state(7, erased()), SetHoldReply::Stale);
    let spec = Box::new(personal());
    let deadline = None;
    world.desired_state(3, HoldState::Open { spec, deadline });
    world.desired_state(4, gone());
    assert_eq!(stored(&world), once);
}

#[test]
fn an_unknown_hold_of_a_run_cannot_be_opened_later() {
    let mut world = World::new();
    assert_eq!(world.desired_state(5, erased()), SetHoldReply::Set);
    let spec = Box::new(personal());
    let deadline = None;
    world.desired_state(2, HoldState::Open { spec, deadline });
    assert!(!stored(&world).contains(MARKER));
    assert!(!sends_an_erased_event(&world), "no user was notified");
}

#[test]
fn an_unknown_task_stays_unknown() {
    let mut world = World::alone();
    world.id = HoldId::task_of("key");
    assert_eq!(world.desired_state(5, erased()), SetHoldReply::Set);
    assert!(world.request.is_none());
}
