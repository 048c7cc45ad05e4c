//! Changes of the context of a run (API `PATCH /runs/{run}/context`).

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{ResumeMode, RunStatus};
use serde_json::{Value, json};

use super::world::{Heard, World, done, owner};
use crate::domain::{Refusal, Reply, RunInput};

const STEPS: &str = "  - id: first
    tool: log
    args: { message: $input.customer }
  - id: pay
    tool: send_email
    args: { to: ada@x.example, order: $input.customer }
    approval: {}
";

fn patch(world: &mut World, patch: &Value) -> Heard {
    let patch = patch.as_object().unwrap().clone();
    world.give(RunInput::PatchContext { by: owner(), patch })
}

fn refused(heard: Heard) -> Refusal {
    match heard {
        Heard::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// API: later steps see the change, and a step that has begun keeps what it has. The history names the fields only.
#[test]
fn later_steps_see_the_change() {
    let mut world = World::of(STEPS);
    world.start();
    let before = world.handed[0].args.clone();
    let heard = patch(
        &mut world,
        &json!({ "customer": "B-2", "address": { "zip": "secret-zip", "gone": null } }),
    );
    assert!(matches!(heard, Heard::Decided(Reply::Changed(run)) if run.changed));
    assert_eq!(world.handed[0].args, before);
    world.report("first", done(json!({})));
    let asked = world.event(EventType::RunAwaitingApproval);
    assert_eq!(asked.data["items"][0]["args"]["order"], "B-2");
    assert_eq!(
        world.values["$input"]["address"],
        json!({ "zip": "secret-zip" })
    );
    let event = world.event(EventType::RunContextChanged);
    assert_eq!(event.data["by"], "owner");
    assert!(
        !json!(event).to_string().contains("secret-zip"),
        "{event:?}"
    );
    assert!(
        event.message.contains("customer, address"),
        "{}",
        event.message
    );
    // The same change again changes nothing.
    let heard = patch(&mut world, &json!({ "customer": "B-2", "gone": null }));
    assert!(matches!(heard, Heard::Unchanged(_)));
    assert!(matches!(patch(&mut world, &json!({})), Heard::Unchanged(_)));
    // S2-R3: other arguments are another call.
    patch(&mut world, &json!({ "customer": "C-3" }));
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(hold, HoldOutcome::Approved, Value::Null);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(
        world.event(EventType::RunAwaitingApproval).data["items"][0]["args"]["order"],
        "C-3"
    );
}

/// API: 1 MiB, the form of the agent, and no ended run.
#[test]
fn a_change_has_limits() {
    let mut world = World::of(STEPS);
    world.start();
    let large = refused(patch(&mut world, &json!({ "a": "x".repeat(1024 * 1024) })));
    let problem = large.problem();
    assert_eq!((problem.status, problem.code.as_str()), (413, "too_large"));
    assert!(problem.detail.contains("1048576"), "{}", problem.detail);
    let many = json!({ "a": vec![0; 100_001] });
    assert_eq!(refused(patch(&mut world, &many)).problem().status, 422);
    world.pause();
    let heard = patch(&mut world, &json!({ "a": 1 }));
    assert!(matches!(heard, Heard::Decided(_)), "also during a pause");
    world.resume(ResumeMode::Continue);
    world.cancel();
    let problem = refused(patch(&mut world, &json!({ "a": 2 }))).problem();
    assert_eq!((problem.status, problem.code.as_str()), (409, "run_final"));
}
