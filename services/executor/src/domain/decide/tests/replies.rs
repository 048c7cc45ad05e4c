//! Waits for a reply of the contact (Words 1, 5).

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::RunStatus;
use serde_json::json;

use super::world::{Heard, World};
use crate::domain::{RunInput, awaited_reply};

const STEPS: &str = r#"
  - { id: reply, wait_for: { signal: contact.reply, timeout: 5 days, on_timeout: skip } }
  - { id: next, tool: log, args: { message: "{{ $reply }}" } }
"#;

fn replied() -> serde_json::Value {
    json!({ "id": "ada", "email": "ada@x.example", "replied": true, "sentiment": "positive" })
}

#[test]
fn a_reply_ends_the_wait() {
    let mut world = World::started(STEPS);
    assert_eq!(
        world.view().message,
        "reply: waiting for a reply of the contact, at most 5 days more."
    );
    assert_eq!(
        awaited_reply(world.run())
            .map(ToString::to_string)
            .as_deref(),
        Some("ada")
    );
    world.pass(TimeDelta::days(2));
    // The run reads its contact, which has not replied.
    assert!(matches!(
        world.give(RunInput::ContactReplied),
        Heard::Unchanged(_)
    ));
    world.contact = Some(replied());
    assert!(matches!(
        world.give(RunInput::ContactReplied),
        Heard::Decided(_)
    ));
    assert_eq!(
        world.event(EventType::SignalReceived).message,
        "The contact has replied."
    );
    assert_eq!(
        *world.values["reply"],
        json!({ "replied": true, "sentiment": "positive" })
    );
    assert_eq!(awaited_reply(world.run()), None);
    assert_eq!(world.handed.len(), 1);
    // Twice is once.
    assert!(matches!(
        world.give(RunInput::ContactReplied),
        Heard::Unchanged(_)
    ));
    assert_eq!(world.handed.len(), 1);
}

#[test]
fn without_a_reply_the_run_goes_on_at_the_deadline() {
    let mut world = World::started(STEPS);
    world.fire_next();
    let skipped = world.event(EventType::StepSkipped).message.clone();
    assert_eq!(
        skipped,
        "Skipped: a reply of the contact did not arrive within 5 days."
    );
    assert_eq!(world.handed.len(), 1);
}

#[test]
fn a_contact_that_has_replied_is_not_waited_for() {
    let mut world = World::of(STEPS);
    world.contact = Some(replied());
    world.start();
    assert_eq!(world.handed.len(), 1);
    assert_eq!(world.status(), RunStatus::Running);
}

/// S0-AC4: a pause keeps the run, and the reply that comes meanwhile counts on resume.
#[test]
fn a_reply_during_a_pause_counts_on_resume() {
    let mut world = World::started(STEPS);
    world.pause();
    world.contact = Some(replied());
    world.give(RunInput::ContactReplied);
    assert!(world.handed.is_empty());
    world.resume(holdpoint_contracts::run::ResumeMode::default());
    assert_eq!(world.handed.len(), 1);
}

/// The signal can be sent by hand, for example after a call by phone.
#[test]
fn an_operator_can_send_the_signal() {
    let mut world = World::started(STEPS);
    world.give(RunInput::Signal {
        by: super::world::owner(),
        signal: crate::domain::run::Signal {
            name: "contact.reply".to_owned(),
            data: json!({ "by": "phone" }),
            key: None,
        },
    });
    assert_eq!(*world.values["reply"], json!({ "by": "phone" }));
}

#[test]
fn a_run_without_a_contact_waits_until_the_deadline() {
    let mut world = World::of(STEPS);
    let RunInput::Start {
        agent,
        input,
        labels,
        by,
        ..
    } = super::world::start_input()
    else {
        panic!("a start");
    };
    world.give(RunInput::Start {
        agent,
        input,
        labels,
        by,
        contact: None,
    });
    assert_eq!(awaited_reply(world.run()), None);
    assert!(matches!(
        world.give(RunInput::ContactReplied),
        Heard::Unchanged(_)
    ));
    world.fire_next();
    assert_eq!(world.handed.len(), 1);
}

/// One reply ends all waits for it.
#[test]
fn a_reply_ends_the_waits_of_steps_side_by_side() {
    let mut world = World::started(
        r"
  - { id: one, wait_for: { signal: contact.reply } }
  - { id: two, needs: [], wait_for: { signal: contact.reply, timeout: 30 days } }
",
    );
    world.contact = Some(replied());
    world.give(RunInput::ContactReplied);
    assert_eq!(world.status(), RunStatus::Completed);
}
