//! A step that may have happened: people say.

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldSpec, HoldState, OnTimeout};
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::world::{Heard, World, closing, done};
use crate::domain::run::Choice;
use crate::domain::{Refusal, RunInput};

const SEND: &str = "  - id: send\n    tool: send_email\n    args: { to: x@x.example }\n  - id: after\n    tool: log\n    args: { message: hi }\n";

/// A worker that died between effect and report.
fn lost() -> World {
    let mut world = World::started(SEND);
    world.ask("node-a", "send");
    world.pass(TimeDelta::seconds(30));
    world.lose("send");
    world
}

fn hold(world: &World) -> HoldId {
    world.run().questions().next().unwrap().1.hold
}

fn state(world: &World) -> &HoldState {
    let (_, (_, state)) = world.holds.iter().next().unwrap();
    state
}

fn spec(world: &World) -> &HoldSpec {
    match state(world) {
        HoldState::Open { spec, .. } | HoldState::Frozen { spec, .. } => spec,
        HoldState::Withdrawn { reason, .. } => panic!("gone: {reason}"),
        HoldState::Erased { .. } => panic!("erased"),
    }
}

/// Races, API "Uncertain step": a person decides, with the evidence.
#[test]
fn a_lost_step_that_must_not_be_done_twice_is_asked_about() {
    let mut world = lost();
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(world.rows["send"].status, StepStatus::Uncertain);
    assert_eq!(world.handed.len(), 1, "it is not done twice");
    let spec = spec(&world);
    assert_eq!(
        (spec.kind, spec.reason.as_deref(), spec.on_timeout),
        (HoldKind::Input, Some("uncertain"), OnTimeout::Escalate)
    );
    assert_eq!(spec.options, ["it_happened", "run_again", "give_up"]);
    assert!(spec.to.is_empty(), "the owners are asked");
    let claimed_at = holdpoint_contracts::instant::write(world.now - TimeDelta::seconds(30));
    assert_eq!(
        spec.context,
        json!({
            "step": "send", "tool": "send_email", "args": { "to": "x@x.example" },
            "node": "node-a", "dispatch": 1, "claimed_at": claimed_at,
        })
    );
    let waiting = &world.view().waiting_on[0];
    assert_eq!((waiting.id, waiting.kind), (hold(&world), HoldKind::Input));
    let asked = world.event(EventType::RunAwaitingInput);
    assert_eq!(asked.data["questions"][0]["id"], json!(hold(&world)));
    assert_eq!(world.ask_as("node-c", "send", 1, 3), Grant::Uncertain);
}

/// API "Uncertain step"
#[test]
fn it_happened_completes_the_step_without_a_result() {
    let mut world = lost();
    world.pass(TimeDelta::hours(1));
    assert_eq!(
        world.answer("send", Choice::ItHappened),
        CloseReply::Applied
    );
    let row = &world.rows["send"];
    assert_eq!(row.status, StepStatus::Completed);
    assert_eq!(row.response.as_ref().unwrap().data, Value::Null);
    assert_eq!(
        world.event(EventType::InputAnswered).data["answer"],
        "it_happened"
    );
    assert_eq!(world.handed[1].step, "after");
    assert_eq!(world.view().clocks.human_ms, 3_600_000);
    let evidence = world.event(EventType::RunAwaitingInput);
    assert_eq!(evidence.step.as_deref(), Some("send"), "evidence is kept");
}

/// API "Uncertain step"
#[test]
fn run_again_hands_it_out_anew() {
    let mut world = lost();
    assert_eq!(world.answer("send", Choice::RunAgain), CloseReply::Applied);
    let again = &world.handed[1];
    assert_eq!((again.step.as_str(), again.dispatch), ("send", 2));
    assert_eq!(again.args, json!({ "to": "x@x.example" }));
    // And is lost again: another question, with an id of its own.
    world.ask("node-b", "send");
    world.lose("send");
    assert_eq!(hold(&world).number, 2);
}

/// API "Uncertain step"
#[test]
fn give_up_fails_the_step() {
    let mut world = lost();
    assert_eq!(world.answer("send", Choice::GiveUp), CloseReply::Applied);
    assert_eq!(world.status(), RunStatus::Failed);
    assert_eq!(world.view().failure.unwrap().code, "given_up");
}

/// S0-AC4: while paused the answer is kept and takes effect on resume.
#[test]
fn an_answer_during_a_pause_takes_effect_on_resume() {
    let mut world = lost();
    world.pass(TimeDelta::minutes(1));
    world.pause();
    let paused_at = world.now;
    assert!(matches!(state(&world), HoldState::Frozen { since, .. } if *since == paused_at));
    world.pass(TimeDelta::minutes(1));
    let id = hold(&world);
    assert_eq!(world.answer("send", Choice::RunAgain), CloseReply::OnResume);
    let before = world.run().clone();
    assert_eq!(world.close(id, Some(Choice::GiveUp)), CloseReply::OnResume);
    assert_eq!(*world.run(), before, "the first one counts");
    assert_eq!(world.handed.len(), 1);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.handed[1].dispatch, 2);
    assert_eq!(world.close(id, Some(Choice::GiveUp)), CloseReply::Applied);
}

/// Pause and resume without an answer: frozen, and open again.
#[test]
fn a_question_is_frozen_by_a_pause_and_opened_by_the_resume() {
    let mut world = lost();
    world.pause();
    world.resume(ResumeMode::Continue);
    assert!(matches!(
        state(&world),
        HoldState::Open { deadline: None, .. }
    ));
    assert_eq!(world.status(), RunStatus::AwaitingInput);
}

/// Races: the worker was slow and not dead; what it says is true, and the question is void.
#[test]
fn the_true_result_of_an_uncertain_step_is_applied_and_ends_the_question() {
    let mut world = lost();
    let id = hold(&world);
    assert_eq!(world.report("send", done(json!({}))), ResultReply::Applied);
    let HoldState::Withdrawn { reason, .. } = state(&world) else {
        panic!("still asked")
    };
    assert!(reason.contains("reported"), "{reason}");
    assert_eq!(
        world.close(id, Some(Choice::RunAgain)),
        CloseReply::RunEnded
    );
    assert_eq!(world.handed.len(), 2, "the next step, and no repetition");
}

/// The end of the run ends the question.
#[test]
fn a_cancelled_run_asks_nothing() {
    let mut world = lost();
    let id = hold(&world);
    world.cancel();
    assert!(
        matches!(state(&world), HoldState::Withdrawn { reason, .. } if reason.contains("ended"))
    );
    assert_eq!(
        world.close(id, Some(Choice::RunAgain)),
        CloseReply::RunEnded
    );
}

#[test]
fn an_answer_that_is_no_option_is_refused() {
    let mut world = lost();
    let heard = world.give(RunInput::HoldClosed {
        hold: hold(&world),
        closing: closing(HoldOutcome::Answered, json!("perhaps"), world.now),
    });
    assert!(matches!(heard, Heard::Refused(Refusal::UnknownAnswer(_))));
}

fn refused(world: &World) -> RunInput {
    RunInput::HoldClosed {
        hold: hold(world),
        closing: closing(
            HoldOutcome::Cancelled,
            json!({ "message": "it is too long" }),
            world.now,
        ),
    }
}

fn incidents(world: &World) -> usize {
    let is_incident = |kind: &EventType| *kind == EventType::RunIncident;
    world
        .events()
        .iter()
        .filter(|kind| is_incident(kind))
        .count()
}

/// Mend B-3, B-13: a question that is refused is an incident of its run, once, and the run has a waker: a
/// second question without anything to refuse. The simulation found a run that waited for ever.
#[test]
fn a_refused_question_is_an_incident() {
    let mut world = lost();
    let first = hold(&world);
    let once = refused(&world);
    assert!(matches!(world.give(once.clone()), Heard::Decided(_)));
    assert!(matches!(world.give(once), Heard::Unchanged(_)));
    let incident = world.event(EventType::RunIncident);
    assert!(incident.message.contains("it is too long"), "{incident:?}");
    assert_eq!(incidents(&world), 1);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    let second = hold(&world);
    assert_ne!(first, second, "a hold is closed for good");
    let Some((_, HoldState::Open { spec, .. })) = world.holds.get(&second) else {
        panic!("nobody is asked: {:?}", world.holds)
    };
    assert_eq!((&spec.context, spec.to.len()), (&Value::Null, 0));
    assert!(spec.question.len() < 100, "{}", spec.question);
    assert_eq!(
        world.answer("send", Choice::ItHappened),
        CloseReply::Applied
    );
    assert_eq!(world.handed[1].step, "after");
}

/// Mend B-13: if the second question is refused too, the step is given up. A pause keeps that.
#[test]
fn a_question_that_is_refused_twice_gives_the_step_up() {
    for is_paused in [false, true] {
        let mut world = lost();
        if is_paused {
            world.pause();
        }
        world.give(refused(&world));
        world.give(refused(&world));
        if is_paused {
            assert_eq!(world.status(), RunStatus::AwaitingInput);
            world.resume(ResumeMode::Continue);
        }
        assert_eq!(world.status(), RunStatus::Failed);
        assert_eq!(world.view().failure.unwrap().code, "given_up");
        assert_eq!(incidents(&world), 2);
    }
}

/// DESIGN, "The tables are enough": a dead letter that concerns a run puts an incident on it, once.
#[test]
fn a_dead_letter_is_on_the_history_of_its_run_once() {
    let mut world = World::started(SEND);
    let incident = || RunInput::Incident {
        reason: "too large".to_owned(),
    };
    assert!(matches!(world.give(incident()), Heard::Decided(_)));
    assert_eq!(
        world.event(EventType::RunIncident).data["reason"],
        "too large"
    );
    assert!(matches!(world.give(incident()), Heard::Unchanged(_)));
}

/// The questions that `run.awaiting_input` has announced, each by the id of its hold.
fn announced(world: &World) -> Vec<Value> {
    let items = world.history.iter();
    let items = items.filter(|item| item.kind == EventType::RunAwaitingInput);
    items
        .map(|item| item.data["questions"][0]["id"].clone())
        .collect()
}

/// Mend L2: a client that follows the history learns of every question, also of one that is asked while
/// another one is open.
#[test]
fn every_question_about_an_uncertain_step_is_announced() {
    let mut world = World::started(
        "  - id: one\n    needs: []\n    tool: send_email\n    args: { to: x }\n  - id: two\n    needs: []\n    tool: send_email\n    args: { to: y }\n",
    );
    for step in ["one", "two"] {
        world.ask("node-a", step);
    }
    for step in ["one", "two"] {
        world.lose(step);
    }
    let holds: Vec<_> = world
        .run()
        .questions()
        .map(|(_, asked)| json!(asked.hold))
        .collect();
    assert_eq!((holds.len(), announced(&world)), (2, holds));
}

/// Mend L2: the short form of a refused question has another id than the first one.
#[test]
fn a_question_in_a_short_form_is_announced() {
    let mut world = lost();
    let first = json!(hold(&world));
    world.give(refused(&world));
    assert_eq!(announced(&world), [first, json!(hold(&world))]);
}
