//! S2-R4: a person sends arguments back, and the step that made them runs again.

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState};
use holdpoint_contracts::run::{ApprovalState, RunStatus};
use serde_json::{Value, json};

use super::world::{World, broken, done};
use crate::domain::rules::revisions::REVISIONS_MAX;
use crate::domain::run::StepPhase;

const DRAFT_THEN_SEND: &str = "
  - id: facts
    tool: crm.find
    args: { customer: c-1 }
  - id: draft
    tool: llm.write
    args: { about: $facts.name }
  - id: note
    tool: log
    args: { message: drafted }
  - id: send
    tool: mail.send
    args: { text: $draft.text }
    approval: {}
";

/// The run asks about a draft.
fn drafted() -> World {
    let mut world = World::started(DRAFT_THEN_SEND);
    world.report("facts", done(json!({ "name": "Zoe" })));
    world.report("draft", done(json!({ "text": "Dear Zoe" })));
    world.report("note", done(json!({})));
    world
}

fn spec(world: &World) -> HoldSpec {
    let hold = world.step("send").approval.as_ref().unwrap().hold;
    match &world.holds[&hold].1 {
        HoldState::Open { spec, .. } => (**spec).clone(),
        other => panic!("{other:?}"),
    }
}

fn decide(world: &mut World, outcome: HoldOutcome, data: Value) {
    let hold = world.step("send").approval.as_ref().unwrap().hold;
    world.close_as(hold, outcome, data);
}

/// The last step whose result is in the arguments runs again with the feedback. Other results are kept.
#[test]
fn the_source_runs_again_with_the_feedback() {
    let mut world = drafted();
    assert_eq!(spec(&world).revises.as_deref(), Some("draft"));
    let key = world.handed[1].idempotency_key();
    decide(&mut world, HoldOutcome::Revised, json!("Be shorter."));
    let again = world.handed.last().unwrap().clone();
    assert_eq!((again.step.as_str(), again.dispatch), ("draft", 3));
    let feedback = json!({ "instructions": "Be shorter.", "by": "ada", "revision": 1 });
    assert_eq!(json!(again.feedback), feedback);
    assert_eq!(
        *again.args_with_feedback(),
        json!({ "about": "Zoe", "feedback": feedback })
    );
    assert_ne!(
        again.idempotency_key(),
        key,
        "it must not return its earlier result"
    );
    assert_eq!(
        world.event(EventType::StepRevised).message,
        "ada sent send back: Be shorter. draft runs again (revision 1 of 5)."
    );
    // The step between them keeps its result, and does not unblock the gated step.
    assert!(matches!(world.phase("note"), StepPhase::Completed { .. }));
    assert!(matches!(world.phase("send"), StepPhase::Planned));
    let approval = world.step("send").approval.clone().unwrap();
    assert_eq!(approval.state, ApprovalState::Revised);

    world.report("draft", done(json!({ "text": "Hi Zoe" })));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(spec(&world).items[0].args, json!({ "text": "Hi Zoe" }));
    assert_eq!(
        spec(&world).question,
        "Agent outreach wants to call mail.send (send). ada sent the earlier call back."
    );
    decide(&mut world, HoldOutcome::Approved, json!("fine"));
    let sent = world.handed.last().unwrap();
    assert_eq!(
        (sent.step.as_str(), &sent.args),
        ("send", &json!({ "text": "Hi Zoe" }))
    );
    world.report("send", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// Each source is sent back at most five times.
#[test]
fn revisions_are_bounded() {
    let mut world = drafted();
    for revision in 1..=REVISIONS_MAX {
        assert!(spec(&world).revises.is_some(), "{revision}");
        decide(&mut world, HoldOutcome::Revised, json!("Again."));
        world.report("draft", done(json!({ "text": format!("{revision}") })));
    }
    assert_eq!(spec(&world).revises, None);
    // An owner that has not heard of it changes nothing: the request is asked again.
    let handed = world.handed.len();
    decide(&mut world, HoldOutcome::Revised, json!("Once more."));
    assert_eq!(world.handed.len(), handed);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// Without a tool whose result is in the arguments, nothing can be sent back.
#[test]
fn arguments_without_a_source_are_not_sent_back() {
    for steps in [
        // Literal arguments.
        "  - id: send\n    tool: mail.send\n    args: { text: hi }\n    approval: {}\n",
        // A built-in tool takes no feedback.
        "
  - id: look
    tool: log
    args: { message: hi }
  - id: send
    tool: mail.send
    args: { text: $look.message }
    approval: {}
",
    ] {
        let mut world = World::started(steps);
        if world.status() == RunStatus::Running {
            world.report("look", done(json!({ "message": "hi" })));
        }
        assert_eq!(spec(&world).revises, None);
    }
}

/// A source that fails its revision fails the run, and a retry of the run keeps the feedback.
#[test]
fn a_failed_revision_is_retried_with_its_feedback() {
    let mut world = drafted();
    decide(&mut world, HoldOutcome::Revised, json!("Be shorter."));
    world.report("draft", broken());
    assert_eq!(world.status(), RunStatus::Failed);
    let retry = crate::domain::RunInput::Retry {
        by: super::world::owner(),
        from: None,
    };
    world.give(retry);
    let again = world.handed.last().unwrap();
    assert_eq!(again.step, "draft");
    assert_eq!(again.feedback.as_ref().unwrap().revision, 1);
}

/// A pause keeps the decision until the run is resumed.
#[test]
fn a_revision_waits_for_the_end_of_a_pause() {
    let mut world = drafted();
    world.pause();
    let handed = world.handed.len();
    decide(&mut world, HoldOutcome::Revised, json!("Be shorter."));
    assert_eq!(world.handed.len(), handed);
    world.resume(holdpoint_contracts::run::ResumeMode::Continue);
    assert_eq!(world.handed.last().unwrap().step, "draft");
}
