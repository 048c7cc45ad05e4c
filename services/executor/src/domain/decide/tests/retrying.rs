//! A tool that fails is called again after a backoff.

use chrono::TimeDelta;
use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{HoldKind, ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::ResultReply;
use holdpoint_contracts::tool::Risk;
use serde_json::json;

use super::tools::{spec, with};
use super::world::{Heard, World, broken, done};
use crate::domain::run::Choice;
use crate::domain::{Reply, RunInput, StepReport};

const LOG: &str = "  - id: note\n    tool: log\n    args: { message: hi }\n";
const SEND: &str = "  - id: send\n    tool: send_email\n    args: { to: x@x.example }\n";

fn send_with(retry: &str) -> World {
    World::started(&format!("{SEND}    retry: {retry}\n"))
}

/// S2-R15: an idempotent tool has three attempts. Each is another dispatch of the same call.
#[test]
fn an_idempotent_tool_that_fails_twice_and_then_works_completes() {
    let mut world = World::started(LOG);
    for attempt in 1..=2 {
        assert_eq!(world.report("note", broken()), ResultReply::Applied);
        assert_eq!(world.status(), RunStatus::Running);
        assert_eq!(world.phase("note").status(), StepStatus::Waiting);
        assert_eq!(world.handed.len(), attempt);
        assert_eq!(world.fire_next(), Some(TimerReply::Applied));
    }
    let calls: Vec<_> = world
        .handed
        .iter()
        .map(|it| (it.dispatch, it.attempt))
        .collect();
    assert_eq!(calls, [(1, 1), (2, 2), (3, 3)]);
    assert!(
        world
            .handed
            .iter()
            .all(|it| it.args == world.handed[0].args)
    );
    let key = world.handed[0].idempotency_key();
    assert!(world.handed.iter().all(|it| it.idempotency_key() == key));
    world.report("note", done(json!({ "ok": true })));
    assert_eq!(world.status(), RunStatus::Completed);
    let row = &world.rows["note"];
    assert_eq!(
        (row.error_code.as_ref(), row.status),
        (None, StepStatus::Completed)
    );
    let failed: Vec<_> = row.failed_attempts.iter().map(|it| it.attempt).collect();
    assert_eq!(failed, [1, 2]);
    assert!(
        row.failed_attempts
            .iter()
            .all(|it| it.error_code == "http_status")
    );
    let events = world.events();
    let count = |kind| events.iter().filter(|it| **it == kind).count();
    assert_eq!(
        (
            count(EventType::StepAttemptFailed),
            count(EventType::StepFailed)
        ),
        (2, 0)
    );
}

#[test]
fn after_its_last_attempt_the_step_fails_and_keeps_every_response() {
    let mut world = World::started(LOG);
    while world.status() != RunStatus::Failed {
        world.report("note", broken());
        world.fire_next();
    }
    assert_eq!(world.handed.len(), 3);
    let row = &world.rows["note"];
    assert_eq!(row.failed_attempts.len(), 3);
    assert_eq!(row.error_code.as_deref(), Some("http_status"));
    assert_eq!(
        world.view().failure.unwrap().message,
        "note: The server answered 500."
    );
}

/// A backoff says what it waits for, and a client finds the instant.
#[test]
fn a_backoff_says_which_attempt_follows_and_when() {
    let mut world = World::started(LOG);
    world.report("note", broken());
    let view = world.view();
    assert_eq!(
        view.message,
        "Trying note again in 1 second (attempt 2 of 3)."
    );
    let [on] = view.waiting_on.as_slice() else {
        panic!("{:?}", view.waiting_on)
    };
    assert_eq!((on.kind, on.step.as_str()), (HoldKind::Timer, "note"));
    assert_eq!(on.then, "The tool is called again: attempt 2 of 3.");
    let left = on.until.unwrap() - world.now;
    assert!(
        left <= TimeDelta::seconds(1) && left >= TimeDelta::milliseconds(750),
        "{left}"
    );
    let event = world.event(EventType::StepAttemptFailed);
    assert_eq!(
        event.message,
        "Attempt 1 of 3 failed: The server answered 500."
    );
    assert_eq!(
        (&event.data["attempt"], &event.data["attempts"]),
        (&json!(1), &json!(3))
    );
}

/// Only the author lets a tool be called again that may do harm twice.
#[test]
fn a_tool_that_may_do_harm_twice_is_called_once_unless_its_author_says_more() {
    let mut world = World::started(SEND);
    world.report("send", broken());
    assert_eq!((world.status(), world.handed.len()), (RunStatus::Failed, 1));
    let mut world = send_with("{ attempts: 2, backoff: 10s }");
    world.report("send", broken());
    assert_eq!(world.status(), RunStatus::Running);
    world.fire_next();
    world.report("send", broken());
    assert_eq!((world.status(), world.handed.len()), (RunStatus::Failed, 2));
}

#[test]
fn retry_none_gives_an_idempotent_tool_one_attempt() {
    let mut world = World::started(&format!("{LOG}    retry: none\n"));
    world.report("note", broken());
    assert_eq!((world.status(), world.handed.len()), (RunStatus::Failed, 1));
}

/// `on` names what is retried; without it everything is, except what every attempt would repeat.
#[test]
fn only_failures_that_another_attempt_may_avoid_are_retried() {
    let retried = |retry: &str, code: &str| {
        let mut world = send_with(retry);
        world.give(RunInput::StepResult(StepReport {
            cost: None,
            node: "node-a".parse().unwrap(),
            step: "send".to_owned(),
            dispatch: 1,
            result: broken(),
            error_code: Some(code.to_owned()),
        }));
        world.status() == RunStatus::Running
    };
    assert!(retried("{ attempts: 2 }", "http_status"));
    assert!(!retried("{ attempts: 2 }", "invalid_args"));
    assert!(retried("{ on: [invalid_args] }", "invalid_args"));
    assert!(!retried("{ on: invalid_args }", "http_status"));
}

/// The same result twice, the second time after the next attempt began: it is not evidence of a late worker.
#[test]
fn a_repeated_failure_changes_nothing() {
    let mut world = World::started(LOG);
    world.report("note", broken());
    assert_eq!(world.report_as("note", 1, broken()), ResultReply::Known);
    world.fire_next();
    assert_eq!(world.report_as("note", 1, broken()), ResultReply::Known);
    assert_eq!(world.dispatch("note"), 2);
}

#[test]
fn a_pause_stops_the_backoff_and_resume_continues_it() {
    for mode in [
        ResumeMode::Continue,
        ResumeMode::Now,
        ResumeMode::Restart,
        ResumeMode::KeepDeadline,
    ] {
        let mut world = send_with("{ attempts: 2, backoff: 1m, max_backoff: 1m }");
        world.report("send", broken());
        world.pause();
        assert_eq!(world.fire_next(), None);
        world.pass(TimeDelta::days(1));
        world.resume(mode);
        assert_eq!(world.fire_next(), Some(TimerReply::Applied), "{mode:?}");
        assert_eq!(world.dispatch("send"), 2);
    }
}

/// The worker was at work when the pause came: its failure counts, and nothing starts.
#[test]
fn a_failure_during_a_pause_is_retried_after_the_resume() {
    let mut world = World::started(LOG);
    world.ask("node-a", "note");
    world.pause();
    world.report("note", broken());
    assert_eq!(world.fire_next(), None);
    world.resume(ResumeMode::Continue);
    assert_eq!(world.fire_next(), Some(TimerReply::Applied));
    assert_eq!(world.handed.len(), 2);
}

#[test]
fn a_cancelled_run_calls_no_tool_again() {
    let mut world = World::started(LOG);
    world.report("note", broken());
    world.cancel();
    assert_eq!(world.fire_next(), None);
    assert_eq!(world.rows["note"].status, StepStatus::Cancelled);
    let response = world.rows["note"].response.clone().unwrap();
    assert_eq!(response.data, json!(null));
}

/// While a person owns the run, nothing of the agent starts.
#[test]
fn a_taken_over_run_tries_again_when_it_is_handed_back() {
    let mut world = World::started(LOG);
    world.report("note", broken());
    world.give(RunInput::TakeOver {
        by: holdpoint_contracts::message::Actor("ada".to_owned()),
    });
    assert_eq!(world.fire_next(), None);
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(
        hold,
        HoldOutcome::Completed,
        json!({ "disposition": "return_to_agent" }),
    );
    assert_eq!(world.fire_next(), Some(TimerReply::Applied));
    assert_eq!(world.handed.len(), 2);
}

/// Its worker was slow and not dead: the question is void, and its failure counts.
#[test]
fn a_failure_of_an_uncertain_step_is_retried_if_its_author_says_so() {
    let mut world = send_with("{ attempts: 2 }");
    world.ask("node-a", "send");
    world.lose("send");
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    world.report("send", broken());
    assert_eq!(world.status(), RunStatus::Running);
    world.fire_next();
    assert_eq!(world.handed.len(), 2);
}

/// Large data of a failed attempt is not kept many times.
#[test]
fn the_newest_failed_attempts_are_kept_within_bounds() {
    let mut world = send_with("{ attempts: 100, backoff: 1s }");
    let mut failed = broken();
    failed.data = json!("x".repeat(5_000));
    for _ in 1..=15 {
        world.report("send", failed.clone());
        world.fire_next();
    }
    let kept = &world.rows["send"].failed_attempts;
    assert_eq!(
        kept.iter().map(|it| it.attempt).collect::<Vec<_>>(),
        (6..=15).collect::<Vec<_>>()
    );
    assert_eq!(
        kept[0].response.data,
        json!({ "omitted": true, "bytes": 5_002 })
    );
}

/// Gate 3: the response of each failed attempt is kept, without secrets, and so is that of the step.
#[test]
fn the_response_of_each_failed_attempt_is_kept_without_secrets() {
    let mut world = send_with("{ attempts: 2, backoff: 1s }");
    for _ in 1..=2 {
        let mut failed = broken();
        failed.data = json!({ "status": 409, "body": "sold out, token=abc123" });
        world.report("send", failed);
        world.fire_next();
    }
    let kept = json!({ "status": 409, "body": "sold out, token=[secret]" });
    let row = &world.rows["send"];
    assert_eq!(row.failed_attempts.len(), 2);
    assert!(
        row.failed_attempts
            .iter()
            .all(|it| it.response.data == kept)
    );
    assert_eq!(row.response.as_ref().unwrap().data, kept);
}

/// Two steps that fail at the same moment are not repeated at the same moment, and a replay decides the same.
#[test]
fn the_backoff_has_jitter_that_a_replay_repeats() {
    let dues = || {
        let mut world = World::started(
            "  - id: a\n    needs: []\n    tool: log\n    args: {}\n  - id: b\n    needs: []\n    tool: log\n    args: {}\n",
        );
        world.report("a", broken());
        world.report("b", broken());
        world
            .view()
            .waiting_on
            .iter()
            .map(|on| on.until)
            .collect::<Vec<_>>()
    };
    let first = dues();
    assert_eq!(first, dues());
    assert_ne!(first[0], first[1]);
}

fn time_out(world: &mut World, step: &str) -> ResultReply {
    let reply = world.give(RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: step.to_owned(),
        dispatch: world.dispatch(step),
        result: broken(),
        error_code: Some("timeout".to_owned()),
    }));
    match reply {
        Heard::Decided(Reply::Result(reply)) | Heard::Unchanged(Reply::Result(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

/// A tool that was stopped may have had its effect. Only a person knows, also where the author wrote `retry`.
#[test]
fn a_timeout_of_a_tool_that_may_do_harm_twice_is_a_question() {
    let mut world = send_with("{ attempts: 5, on: timeout }\n    timeout: 10s");
    assert_eq!(world.handed[0].timeout_ms, Some(10_000));
    world.ask("node-a", "send");
    assert_eq!(time_out(&mut world, "send"), ResultReply::Applied);
    assert_eq!(world.status(), RunStatus::AwaitingInput);
    let message = world.view().message;
    assert_eq!(
        message,
        "send may have happened: its tool did not end in time."
    );
    assert_eq!(world.rows["send"].failed_attempts.len(), 1);
    assert_eq!(time_out(&mut world, "send"), ResultReply::Known);
    world.answer("send", Choice::RunAgain);
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 2)
    );
}

#[test]
fn a_timeout_of_an_idempotent_tool_is_retried() {
    let mut world = World::started(&format!("{LOG}    timeout: 10s\n"));
    time_out(&mut world, "note");
    world.fire_next();
    assert_eq!(
        (world.status(), world.handed.len()),
        (RunStatus::Running, 2)
    );
}

/// The worker did not stop the tool, so it has lost the step. That is an attempt, so it ends.
#[test]
fn a_worker_that_never_stops_a_tool_loses_its_step() {
    let mut world = World::started(&format!("{LOG}    timeout: 10s\n"));
    for _ in 1..=3 {
        world.ask("node-a", "note");
        world.pass(TimeDelta::seconds(41));
        world.lose("note");
        world.fire_next();
    }
    assert_eq!((world.status(), world.handed.len()), (RunStatus::Failed, 3));
    assert_eq!(world.view().failure.unwrap().code, "timeout");
    let mut world = World::started(&format!("{SEND}    timeout: 10s\n"));
    world.ask("node-a", "send");
    world.pass(TimeDelta::seconds(41));
    world.lose("send");
    assert!(world.view().message.ends_with("did not end in time."));
    // The worker was cut off and not dead: its late success is true, and the question is void.
    assert_eq!(world.report("send", done(json!({}))), ResultReply::Applied);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// The tool has succeeded, and only its data is wrong: a payment is not made again.
#[test]
fn a_wrong_result_is_not_retried() {
    let mut strict = spec(Risk::Medium);
    strict.result_schema = Some(json!({ "required": ["id"] }));
    strict.idempotent = true;
    let mut world = with(strict, false);
    world.report("pay", done(json!({})));
    assert_eq!(world.view().failure.unwrap().code, "invalid_result");
    assert_eq!(world.handed.len(), 1);
}
