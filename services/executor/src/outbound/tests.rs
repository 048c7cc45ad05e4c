//! What leaves the executor: dispatches with their tokens, desired states.

use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::StepStatus;
use holdpoint_contracts::tool::HttpCall;
use holdpoint_ids::{HoldId, RunId};
use serde_json::json;

use super::*;
use crate::domain::StepRow;
use crate::workspace_shares::SHARE;

pub(super) fn acme() -> Workspace {
    "acme".parse().unwrap()
}

pub(crate) fn executor() -> Executor {
    Executor::new(Secrets::fresh().unwrap().keys().unwrap(), Clock::system())
}

pub(crate) fn out() -> StepDispatch {
    StepDispatch {
        workspace: acme(),
        run: RunId::fresh(),
        agent: "outreach".parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 4,
        attempt: 1,
        tool: "orders.find".parse().unwrap(),
        args: json!({}),
        contact: None,
        idempotent: true,
        claim_timeout_ms: 30_000,
        timeout_ms: None,
        token: None,
        http: None,
        answers: holdpoint_contracts::asking::Answers::new(),
        feedback: None,
        resumed: false,
        user: Actor("ada".to_owned()),
        traceparent: String::new(),
        at: DateTime::UNIX_EPOCH,
    }
}

/// DESIGN, "A delivery reserves, a grant starts": each dispatch carries a step token.
#[test]
fn every_dispatch_carries_a_step_token_for_it_alone() {
    let executor = executor();
    let key = &executor.keys.steps;
    let out = out();
    let messages = executor.messages(&[Effect::StepDispatch(Box::new(out.clone()))]);
    assert_eq!(messages[0].subject, "hp.acme.steps.orders~find");
    let sent: StepDispatch = serde_json::from_str(&messages[0].body).unwrap();
    let token = sent.token.unwrap();
    let claims = key.check(&token, out.at).unwrap();
    assert_eq!(
        (
            claims.workspace,
            claims.run,
            claims.step.as_str(),
            claims.dispatch
        ),
        (acme(), out.run, "step-01", 4)
    );
    let week = out.at + TimeDelta::days(7);
    assert_eq!(claims.expires_at, week);
    assert!(key.check(&token, week).is_err());
}

/// API "Tools": a registered HTTP call goes to the built-in node.
#[test]
fn an_http_tool_goes_to_its_own_queue() {
    let out = StepDispatch {
        http: Some(HttpCall {
            method: "POST".to_owned(),
            url: "https://x.example".to_owned(),
            headers: BTreeMap::new(),
        }),
        ..out()
    };
    let message = step_dispatch(&executor(), &out, out.at).unwrap();
    assert_eq!(message.subject, "hp.acme.steps.http-tool");
}

/// B-6: a workspace with many calls in progress does not delay the others.
#[test]
fn calls_above_the_share_of_a_workspace_go_to_the_overflow() {
    let executor = executor();
    let dispatched = |workspace: &str| {
        let out = StepDispatch {
            workspace: workspace.parse().unwrap(),
            run: RunId::fresh(),
            ..out()
        };
        let run = out.run;
        let messages = executor.messages(&[Effect::StepDispatch(Box::new(out))]);
        (run, messages[0].subject.clone())
    };
    let (normal, overflow) = (
        "hp.acme.steps.orders~find",
        "hp.acme.steps.orders~find.overflow",
    );
    let of_share: Vec<_> = (0..SHARE).map(|_| dispatched("acme")).collect();
    assert!(of_share.iter().all(|(_, subject)| subject == normal));
    assert_eq!(dispatched("acme").1, overflow);
    assert_eq!(dispatched("other").1, "hp.other.steps.orders~find");

    let noted = |status| {
        let rows = of_share.iter().map(|(run, _)| {
            let row = step_row(*run, status);
            Effect::Step(Box::new(row))
        });
        executor.nudges(&rows.collect::<Vec<_>>());
        dispatched("acme").1
    };
    assert_eq!(noted(StepStatus::InProgress), overflow);
    assert_eq!(noted(StepStatus::Completed), normal);
}

pub(crate) fn step_row(run: RunId, status: StepStatus) -> StepRow {
    StepRow {
        run,
        step: "step-01".to_owned(),
        status,
        tool: None,
        called: None,
        request: None,
        response: None,
        error_code: None,
        raw_error: None,
        failed_attempts: Vec::new(),
        claimed_by: None,
        claimed_at: None,
        started_at: None,
        ended_at: None,
        attempts: 1,
        dispatch: 4,
        is_reset: false,
    }
}

/// DESIGN, "Four messages": timers are desired states, and one command carries many.
#[test]
fn timers_are_desired_states_of_the_scheduler() {
    let hold = HoldId {
        run: RunId::fresh(),
        number: 2,
    };
    let desired_states = executor().desired_states(&[
        Effect::Timer {
            workspace: acme(),
            hold,
            rev: 3,
            due: Some(DateTime::UNIX_EPOCH),
        },
        Effect::NodeTimer {
            node: "node-a".parse().unwrap(),
            rev: 9,
            due: None,
        },
    ]);
    let named: Vec<_> = desired_states
        .iter()
        .map(|desired_state| {
            (
                desired_state.kind,
                desired_state.workspace.as_str(),
                desired_state.id.as_str(),
                desired_state.rev,
            )
        })
        .collect();
    let id = hold.to_string();
    assert_eq!(
        named,
        [
            ("timer", "acme", id.as_str(), 3),
            ("timer", "sys", "node_node-a", 9)
        ]
    );
    let bodies: Vec<_> = desired_states
        .iter()
        .map(|desired_state| desired_state.body.as_str())
        .collect();
    let message = executor()
        .desired_state_command("timer", &acme(), &bodies)
        .unwrap();
    assert!(
        message.subject.ends_with(".set_timers"),
        "{}",
        message.subject
    );
    let sent: Envelope<SetTimers> = serde_json::from_str(&message.body).unwrap();
    assert_eq!(sent.command.owner, "executor");
    assert_eq!(sent.command.timers.len(), 2);
    assert_eq!(sent.command.timers[0].due, Some(DateTime::UNIX_EPOCH));
    assert!(
        executor()
            .desired_state_command("nonsense", &acme(), &[])
            .is_err()
    );
}

/// Mend B-3: what a replica of another version wrote reaches the receiver as it was written.
#[test]
fn rows_of_a_newer_version_are_sent_as_they_are() {
    let run = RunId::fresh();
    let rows: Vec<_> = (1..=2)
        .map(|number| {
            let id = HoldId { run, number };
            format!(r#"{{"id":"{id}","rev":{number},"due":null,"newer":[1,2]}}"#)
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let message = executor()
        .desired_state_command("timer", &acme(), &rows)
        .unwrap();
    assert!(message.subject.ends_with(".set_timers"));
    let body: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(body["actor"], "service:executor");
    assert_eq!(body["command"]["owner"], "executor");
    let sent = body["command"]["timers"].as_array().unwrap();
    let written: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(*sent, written);
    // The receiver of today reads it, and ignores what it does not know.
    let read: Envelope<SetTimers> = serde_json::from_str(&message.body).unwrap();
    assert_eq!(read.command.timers.len(), 2);
    assert!(
        executor()
            .desired_state_command("timer", &acme(), &[rows[0], "{"])
            .is_err()
    );
}

/// Mend B-3: a question that its owner refuses fails its step; a refused timer is an incident.
#[test]
fn a_refused_desired_state_reaches_its_run() {
    let hold = HoldId {
        run: RunId::fresh(),
        number: 3,
    };
    let problem = Problem::new(422, "too_many", "no room");
    let (executor, workspace, id) = (executor(), acme(), hold.to_string());
    let after = |kind, id| {
        let desired_state = SentState {
            kind,
            workspace: &workspace,
            id,
            rev: 1,
        };
        executor.refused(&desired_state, &problem)
    };
    let AfterRefusal::Decide(Input::Run { run, input, .. }) = after("hold", &id) else {
        panic!()
    };
    assert_eq!(run, hold.run);
    let RunInput::HoldClosed { closing, .. } = input else {
        panic!("{input:?}")
    };
    assert_eq!(closing.outcome, HoldOutcome::Cancelled);
    assert_eq!(closing.data["code"], "request_refused");
    assert!(
        closing.data["message"]
            .as_str()
            .unwrap()
            .contains("no room")
    );
    assert!(matches!(
        after("timer", &id),
        AfterRefusal::Decide(Input::Run {
            input: RunInput::Incident { .. },
            ..
        })
    ));
    assert_eq!(after("timer", "node_a"), AfterRefusal::Keep);
    assert_eq!(after("ended", &hold.run.to_string()), AfterRefusal::Keep);
}
