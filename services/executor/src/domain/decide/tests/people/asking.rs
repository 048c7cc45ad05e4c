//! Tools that ask people while their step runs: block, park, keys, and what ends a question.

use chrono::TimeDelta;
use holdpoint_contracts::asking::{AskMode, InputStatus, ToolQuestion};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldState, OnTimeout};
use holdpoint_contracts::link::Link;
use holdpoint_contracts::run::{FailureClass, LeaseAction, ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use holdpoint_ids::NotificationId;
use serde_json::{Value, json};

use super::super::world::{Heard, World, done, owner};
use super::{hold, spec, state};
use crate::domain::run::{Choice, StepPhase};
use crate::domain::{Refusal, RunInput};

/// What ends a step.
type End = fn(&mut World);

const ONCE: &str = "  - id: pay
    tool: send_email
    args: { to: x@x.example }
  - id: after
    tool: log
    args: { message: hi }
";
const TWICE: &str = "  - id: pay
    tool: log
    args: { message: hi }
";

fn question() -> ToolQuestion {
    ToolQuestion {
        options: vec!["yes".to_owned(), "no".to_owned()],
        key: Some("refund".to_owned()),
        ..ToolQuestion::new("Refund 120 EUR?")
    }
}

fn parking() -> ToolQuestion {
    ToolQuestion {
        mode: AskMode::Park,
        ..question()
    }
}

/// A run whose step is with node-a.
fn working(steps: &str) -> World {
    let mut world = World::started(steps);
    assert_eq!(world.ask("node-a", "pay"), Grant::Go);
    world
}

fn answer(world: &mut World, data: Value) -> CloseReply {
    let id = hold(world);
    world.close_as(id, HoldOutcome::Answered, data)
}

fn time_out(world: &mut World) -> CloseReply {
    let id = hold(world);
    world.close_as(id, HoldOutcome::Timeout, Value::Null)
}

/// S3-R2, S3-R3, S3-R4, S3-R9: the tool keeps its lease, the run waits, the tool is told.
#[test]
fn a_blocked_tool_keeps_its_lease_and_is_told_the_answer() {
    let mut world = working(ONCE);
    let asked = world.ask_people("pay", question());
    assert_eq!(
        asked.notification_id,
        NotificationId::opened(asked.request_id)
    );
    assert_eq!(
        (asked.status, asked.key.as_str()),
        (InputStatus::Open, "refund")
    );
    assert_eq!(
        asked.deadline,
        Some(world.now + TimeDelta::minutes(5)),
        "S3-R1"
    );
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert!(world.leases.contains_key("pay"), "its lease goes on");
    assert_eq!(world.rows["pay"].status, StepStatus::InProgress);
    let put = spec(&world).clone();
    assert_eq!(put.question, "Refund 120 EUR?");
    assert_eq!(put.step.as_deref(), Some("pay"));
    let view = world.view();
    assert_eq!(view.questions[0].id, asked.request_id);
    assert_eq!(
        view.message,
        "pay: waiting for an answer of the workspace's owners: Refund 120 EUR?"
    );
    world.pass(TimeDelta::minutes(2));
    assert_eq!(answer(&mut world, json!("yes")), CloseReply::Applied);
    assert_eq!(world.status(), RunStatus::Running);
    let sent = world.ask_people("pay", question());
    assert_eq!(sent.request_id, asked.request_id, "the first question");
    let given = sent.given.expect("it is answered");
    assert_eq!((given.answer, given.by.as_str()), (json!("yes"), "ada"));
    assert_eq!(given.continuation, "User responded: yes", "S3-R4");
    let mut result = done(json!({}));
    result.duration_ms = 121_000;
    assert_eq!(world.report("pay", result), ResultReply::Applied);
    let clocks = world.view().clocks;
    assert_eq!(
        (clocks.human_ms, clocks.active_ms),
        (120_000, 1_000),
        "a person's time is not work"
    );
    assert_eq!(world.event(EventType::InputAnswered).data["answer"], "yes");
}

/// S3-R2, S4-R17: nobody holds a parked step; the answer has it called again, with the answer.
#[test]
fn a_parked_step_is_held_by_nobody_and_comes_back_with_the_answer() {
    let mut world = working(ONCE);
    let asked = world.ask_people("pay", parking());
    assert_eq!(world.parks("pay"), ResultReply::Applied);
    assert!(
        world.leases.is_empty(),
        "waiting on a person releases the claim"
    );
    let last = &world.claims.last().unwrap().1;
    assert_eq!(last.action, LeaseAction::Released);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    assert_eq!(world.rows["pay"].status, StepStatus::Waiting);
    assert_eq!(world.ask("node-b", "pay"), Grant::Drop);
    assert_eq!(world.parks("pay"), ResultReply::Known, "twice is once");
    world.pass(TimeDelta::days(3));
    let (before, handed) = (world.dispatch("pay"), world.handed.len());
    assert_eq!(answer(&mut world, json!("no")), CloseReply::Applied);
    assert_eq!(world.dispatch("pay"), before + 1);
    assert_eq!(world.handed.len(), handed + 1);
    let out = world.handed.last().unwrap();
    assert_eq!(out.answers["refund"].answer, "no");
    assert_eq!(out.answers["refund"].question_id, asked.request_id);
    assert_eq!(out.answers["refund"].continuation, "User responded: no");
    assert_eq!(
        out.args,
        json!({ "to": "x@x.example" }),
        "as it was called before"
    );
    assert_eq!(world.ask("node-b", "pay"), Grant::Go);
    let again = world.ask_people("pay", parking());
    assert_eq!(
        again.status,
        InputStatus::Answered,
        "asked again it is told"
    );
    world.report("pay", done(json!({})));
    world.report("after", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// The answer overtakes the report that it parks: the step goes out again at once.
#[test]
fn an_answer_before_the_tool_has_ended_is_not_lost() {
    let mut world = working(ONCE);
    world.ask_people("pay", parking());
    assert_eq!(answer(&mut world, json!("yes")), CloseReply::Applied);
    assert_eq!(world.handed.len(), 1, "the first one has not ended");
    assert_eq!(world.parks("pay"), ResultReply::Applied);
    assert_eq!(world.handed[1].answers["refund"].answer, "yes");
    world.ask("node-a", "pay");
    world.parks("pay");
    let failure = world.view().failure.unwrap();
    assert_eq!(
        failure.code, "parked_without_question",
        "an answer that it was given is none to wait for"
    );
}

#[test]
fn a_tool_that_parks_without_a_question_fails() {
    let mut world = working(ONCE);
    assert_eq!(world.parks("pay"), ResultReply::Applied);
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Agent, "parked_without_question")
    );
}

/// S3-R6: a worker that is killed while it blocks; the next try finds the same question by its key.
#[test]
fn the_next_try_finds_the_same_question() {
    let mut world = working(TWICE);
    let first = world.ask_people("pay", question());
    world.lose("pay");
    assert_eq!(
        world.dispatch("pay"),
        2,
        "idempotent: dispatched again at once"
    );
    assert!(
        matches!(state(&world, first.request_id), HoldState::Open { .. }),
        "it is still asked"
    );
    assert!(world.handed[1].answers.is_empty());
    world.ask("node-b", "pay");
    assert_eq!(
        world.ask_people("pay", question()).request_id,
        first.request_id
    );
    let older = world.ask_people_as((Some("pay"), Some(1)), question());
    assert!(
        matches!(older, Err(Refusal::NoStepRunning(..))),
        "the lost one counts no more"
    );
    answer(&mut world, json!("yes"));
    world.lose("pay");
    assert_eq!(
        world.handed[2].answers["refund"].answer, "yes",
        "the third is given it"
    );
}

/// S4-R17: a worker that dies after its tool asked to park has lost nothing.
#[test]
fn a_tool_that_was_parking_is_parked_when_its_worker_dies() {
    let mut world = working(ONCE);
    world.ask_people("pay", parking());
    world.lose("pay");
    assert!(
        matches!(world.phase("pay"), StepPhase::Parked(_)),
        "and not uncertain"
    );
    answer(&mut world, json!("yes"));
    assert_eq!(world.handed[1].answers["refund"].answer, "yes");
}

/// A worker that dies while a tool blocks that must not be called twice: both is asked, and the
/// question of the tool is found by the next try.
#[test]
fn a_lost_blocked_tool_is_uncertain_and_keeps_its_question() {
    let mut world = working(ONCE);
    let first = world.ask_people("pay", question());
    world.lose("pay");
    assert_eq!(world.rows["pay"].status, StepStatus::Uncertain);
    assert_eq!(world.view().waiting_on.len(), 2);
    world.answer("pay", Choice::RunAgain);
    world.ask("node-b", "pay");
    assert_eq!(
        world.ask_people("pay", question()).request_id,
        first.request_id
    );
    let mut world = working(ONCE);
    let first = world.ask_people("pay", question());
    world.lose("pay");
    world.answer("pay", Choice::ItHappened);
    assert!(matches!(
        state(&world, first.request_id),
        HoldState::Withdrawn { .. }
    ));
}

/// S3-R5: what happens when time is up, to a tool that blocks and to one that has parked.
#[test]
fn time_up_fails_skips_or_takes_the_default() {
    for parks in [false, true] {
        let asked = |on_timeout, default| {
            let mut world = working(ONCE);
            world.ask_people(
                "pay",
                ToolQuestion {
                    on_timeout,
                    default,
                    ..parking()
                },
            );
            if parks {
                world.parks("pay");
            }
            time_out(&mut world);
            world
        };
        let world = asked(OnTimeout::Fail, None);
        let failure = world.view().failure.unwrap();
        assert_eq!(failure.class, FailureClass::HumanTimeout);
        assert_eq!(
            failure.message,
            "pay: the workspace's owners did not answer within 5 minutes: Refund 120 EUR?"
        );
        let world = asked(OnTimeout::Skip, None);
        assert_eq!(world.rows["pay"].status, StepStatus::Skipped);
        assert_eq!(world.handed.last().unwrap().step, "after");
        assert!(
            !world.leases.contains_key("pay"),
            "its worker is told to stop"
        );
        let mut world = asked(OnTimeout::Default, Some(json!("no")));
        if parks {
            assert_eq!(world.handed[1].answers["refund"].by, "timeout");
            world.ask("node-b", "pay");
        }
        let sent = world.ask_people("pay", parking()).given.unwrap();
        assert_eq!((sent.answer, sent.by.as_str()), (json!("no"), "timeout"));
    }
}

/// S0-AC4: while paused the clock stands still and the answer is kept; it takes effect on resume.
#[test]
fn an_answer_while_paused_takes_effect_on_resume() {
    for parks in [false, true] {
        let mut world = working(ONCE);
        let asked = world.ask_people("pay", parking());
        if parks {
            world.parks("pay");
        }
        world.pause();
        assert!(matches!(
            state(&world, asked.request_id),
            HoldState::Frozen { .. }
        ));
        assert_eq!(answer(&mut world, json!("yes")), CloseReply::OnResume);
        if !parks {
            let sent = world.ask_people("pay", parking());
            assert_eq!(sent.status, InputStatus::Open, "it does not count yet");
            assert_eq!(world.parks("pay"), ResultReply::Applied);
        }
        assert_eq!(world.handed.len(), 1);
        world.resume(ResumeMode::Continue);
        assert_eq!(world.handed[1].answers["refund"].answer, "yes");
    }
}

/// A tool that started early (not granted yet) may ask; a pause hands it out again with its question.
#[test]
fn a_tool_that_was_not_granted_yet_may_ask() {
    let mut world = World::started(TWICE);
    let unnamed = world.ask_people_as((None, None), question());
    assert!(
        matches!(unnamed, Err(Refusal::NoStepRunning(..))),
        "nothing is with a worker"
    );
    let first = world.ask_people("pay", question());
    world.pause();
    world.resume(ResumeMode::Continue);
    assert_eq!(world.dispatch("pay"), 2);
    assert_eq!(
        world.ask_people("pay", question()).request_id,
        first.request_id
    );
    answer(&mut world, json!("yes"));
    assert_eq!(world.report("pay", done(json!({}))), ResultReply::Applied);
}

/// What ends a step withdraws what its tool asks.
#[test]
fn a_step_that_ends_asks_nothing_any_more() {
    let ends: [(&str, End); 3] = [
        ("its result", |world| {
            world.report("pay", done(json!({})));
        }),
        ("a cancellation", |world| {
            world.cancel();
        }),
        ("a person who takes over", |world| {
            world.give(RunInput::TakeOver { by: owner() });
        }),
    ];
    for (what, end) in ends {
        for parks in [false, true] {
            let mut world = working(ONCE);
            let asked = world.ask_people("pay", parking());
            // A result of what has parked is late, and changes nothing.
            if parks && what != "its result" {
                world.parks("pay");
            }
            end(&mut world);
            assert!(
                matches!(state(&world, asked.request_id), HoldState::Withdrawn { .. }),
                "{what}"
            );
            let late = world.close_as(asked.request_id, HoldOutcome::Answered, json!("yes"));
            assert_eq!(late, CloseReply::RunEnded, "{what}");
        }
    }
}

/// S0-R1: a person who is not there fails the step in the owner's words.
#[test]
fn a_question_to_nobody_fails_the_step() {
    let mut world = working(ONCE);
    let asked = world.ask_people("pay", question());
    let data = json!({ "code": "assignee_inactive", "message": "User bob not found" });
    world.close_as(asked.request_id, HoldOutcome::Cancelled, data);
    assert_eq!(world.view().failure.unwrap().message, "User bob not found");
}

/// Without a key the same text is the same question, and another text is another one.
#[test]
fn the_same_text_is_the_same_question() {
    let mut world = working(ONCE);
    let first = world.ask_people("pay", ToolQuestion::new("Go on?"));
    assert_eq!(world.ask_people("pay", ToolQuestion::new("Go on?")), first);
    let second = world.ask_people_as((Some("pay"), None), ToolQuestion::new("Really?"));
    assert!(
        matches!(second, Err(Refusal::QuestionOpen(..))),
        "one at a time"
    );
    answer(&mut world, json!("of course"));
    let second = world.ask_people("pay", ToolQuestion::new("Really?"));
    assert_ne!(second.request_id, first.request_id);
}

/// S3-R1, S3-R7: what cannot be asked is refused, field by field.
#[test]
fn a_question_that_cannot_be_asked_is_refused() {
    let mut world = working(ONCE);
    let with = |change: &dyn Fn(&mut ToolQuestion)| {
        let mut asks = ToolQuestion::new("Go on?");
        change(&mut asks);
        asks
    };
    let form = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let secret = json!({ "type": "object",
        "properties": { "key": { "type": "string", "format": "password" } } });
    for (pointer, wrong) in [
        ("/question", with(&|it| it.question = " ".to_owned())),
        ("/timeout_ms", with(&|it| it.timeout_ms = 0)),
        ("/timeout_ms", with(&|it| it.timeout_ms = 999)),
        ("/timeout_ms", with(&|it| it.timeout_ms = 7_776_000_001)),
        (
            "/on_timeout",
            with(&|it| it.on_timeout = OnTimeout::Continue),
        ),
        ("/default", with(&|it| it.on_timeout = OnTimeout::Default)),
        ("/default", with(&|it| it.default = Some(json!("x")))),
        ("/options", with(&|it| it.options = vec!["one".to_owned()])),
        ("/to", with(&|it| it.to = vec!["bob".to_owned()])),
        ("/key", with(&|it| it.key = Some("k".repeat(201)))),
        (
            "/schema",
            with(&|it| it.schema = Some(json!({ "type": "array" }))),
        ),
        (
            "/schema/properties/key",
            with(&|it| it.schema = Some(secret.clone())),
        ),
        (
            "/link",
            with(&|it| {
                let url = "https://vault.example".to_owned();
                it.link = Some(Link { url, label: None });
                it.options = vec!["yes".to_owned(), "no".to_owned()];
            }),
        ),
        (
            "/default/n",
            with(&|it| {
                it.schema = Some(form.clone());
                it.on_timeout = OnTimeout::Default;
                it.default = Some(json!({ "n": "many" }));
            }),
        ),
    ] {
        let Err(refusal) = world.ask_people_as((Some("pay"), None), wrong) else {
            panic!("{pointer} was taken");
        };
        let problem = refusal.problem();
        assert_eq!(problem.status, 422);
        assert!(
            problem.errors[0]
                .pointer
                .as_deref()
                .is_some_and(|it| it.starts_with(pointer)),
            "{problem:?}"
        );
    }
    let zero = world.ask_people_as((None, None), with(&|it| it.timeout_ms = 0));
    let detail = zero.unwrap_err().problem().detail;
    assert!(detail.contains("1 second to 90 days"), "S3-R7: {detail}");
}

/// Most questions of one step, and the answer to a run that is over.
#[test]
fn a_tool_asks_sixteen_times_at_most() {
    let mut world = working(ONCE);
    for number in 0..16 {
        world.ask_people("pay", ToolQuestion::new(format!("{number}?")));
        answer(&mut world, json!("yes"));
    }
    let more = world.ask_people_as((Some("pay"), None), ToolQuestion::new("More?"));
    assert!(matches!(more, Err(Refusal::TooManyQuestions(_))));
    world.cancel();
    let over = world.ask_people_as((None, None), question()).unwrap_err();
    assert_eq!(over.problem().code, "no_step_running");
    let heard = world.give(RunInput::StepParks {
        step: "pay".to_owned(),
        dispatch: 1,
        duration_ms: 1,
    });
    assert!(
        matches!(heard, Heard::Unchanged(_)),
        "nothing is kept of it"
    );
}
