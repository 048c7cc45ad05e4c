//! The response of a step: the opening's while it stands, and what became of it afterwards.

use chrono::TimeDelta;
use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{ActionResult, StepStatus};
use serde_json::{Value, json};

use super::super::world::World;
use super::{hold, time_out};

fn ended(world: &World, step: &str) -> (StepStatus, ActionResult) {
    let row = &world.rows[step];
    let response = row.response.clone().expect("the row has a response");
    assert!(!response.success, "{response:?}");
    assert_eq!(response.error.as_ref(), Some(&response.description));
    (row.status, response)
}

fn handoff(on_timeout: &str) -> World {
    World::started(&format!(
        "  - id: hand\n    handoff: {{ to: \"@user.salesRep\", message: call, timeout: 3 days, \
         on_timeout: {on_timeout}, warm_lead: true }}\n"
    ))
}

/// Mend C-1: the end of a question replaces the response of opening it.
#[test]
fn a_question_that_timed_out_has_no_response_of_success() {
    for (on_timeout, status) in [("fail", StepStatus::Failed), ("skip", StepStatus::Skipped)] {
        let mut world = World::started(&format!(
            "  - id: q\n    ask: {{ question: \"Go on?\", timeout: 1h, on_timeout: {on_timeout} }}\n"
        ));
        let id = hold(&world);
        let opened = world.rows["q"].response.clone().unwrap();
        assert!(opened.success, "while it stands, opening it has succeeded");
        time_out(&mut world);
        let (is, response) = ended(&world, "q");
        assert_eq!(is, status);
        let error = response.error.unwrap();
        assert!(error.contains("did not answer within 1 hour"), "{error}");
        assert_eq!(response.data["question_id"], json!(id));
        assert_eq!(response.duration_ms, 3_600_000);
    }
}

/// Mend C-1: the fields of S0-T1 are there at the end, too.
#[test]
fn a_handoff_that_ended_badly_keeps_the_fields_of_its_opening() {
    for (on_timeout, status) in [("fail", StepStatus::Failed), ("skip", StepStatus::Skipped)] {
        let mut world = handoff(on_timeout);
        let opened = world.rows["hand"].response.clone().unwrap().data;
        assert_eq!(opened["is_warm_lead"], json!(true));
        time_out(&mut world);
        let (is, response) = ended(&world, "hand");
        assert_eq!(is, status);
        assert_eq!(response.data, opened);
    }
    let mut world = handoff("fail");
    let refusal = json!({ "code": "assignee_inactive", "message": "Handoff failed: nobody" });
    world.close_as(hold(&world), HoldOutcome::Cancelled, refusal);
    let (_, response) = ended(&world, "hand");
    assert_eq!(response.error.as_deref(), Some("Handoff failed: nobody"));
}

/// Mend C-1: what the end of a run revokes is no success either.
#[test]
fn what_a_cancelled_run_revokes_says_so() {
    for steps in [
        "  - id: w\n    wait: 2 days\n",
        "  - id: w\n    ask: { question: \"Go on?\" }\n",
        "  - id: w\n    tool: send_email\n    args: { to: a@b.example }\n",
    ] {
        let mut world = World::started(steps);
        world.pass(TimeDelta::minutes(1));
        world.cancel();
        let (status, response) = ended(&world, "w");
        assert_eq!(status, StepStatus::Cancelled);
        let error = response.error.unwrap();
        assert!(error.contains("Cancelled by owner"), "{error}");
        assert_ne!(response.data["scheduled"], json!(true));
    }
}

/// Mend C-1: a step that failed before its tool ran has a response, and so has one that was not needed.
#[test]
fn a_step_that_never_ran_has_a_response() {
    let world = World::started(
        "  - id: mail\n    tool: send_email\n    args: { to: \"{{ contact.phone }}\" }\n",
    );
    let (status, response) = ended(&world, "mail");
    assert_eq!((status, response.duration_ms), (StepStatus::Failed, 0));
    assert!(response.error.unwrap().contains("contact.phone"));
    let world = World::started(
        "  - id: mail\n    when: $contact.replied\n    tool: send_email\n    args: { to: a@b.example }\n",
    );
    let (status, response) = ended(&world, "mail");
    assert_eq!(status, StepStatus::Skipped);
    assert_eq!(response.data, Value::Null);
}
