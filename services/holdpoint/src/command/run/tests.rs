//! Texts of runs and their events.

use holdpoint_contracts::history::{EventType, HistoryItem};
use holdpoint_contracts::run::RunView;
use serde_json::{Value, json};

use super::list_runs::filter_query;
use super::show;
use super::watch::{event_line, exit_kind};
use crate::cli::runs::FilterArgs;
use crate::exit::ExitKind;

const RUN: &str = "run_00000000000000000000000000000001";

fn run(more: &Value) -> RunView {
    let mut run = json!({
        "id": RUN, "agent": "outreach", "version": 2, "status": "waiting",
        "resume_at": "2026-01-06T12:00:00Z", "message": "Agent paused. Will resume in 5 days.",
        "contact": "c-1", "labels": {"team": "a"},
        "waiting_on": [{
            "id": "hold_00000000000000000000000000000001-1", "kind": "timer", "step": "step-02",
            "since": "2026-01-01T12:00:00Z", "until": "2026-01-06T12:00:00Z",
            "remaining_ms": null, "then": "step-03 starts",
        }],
        "paused_by": [], "steps": [], "result": null, "failure": null,
        "clocks": {"active_ms": 0, "queued_ms": 0, "human_ms": 0},
        "created_at": "2026-01-01T12:00:00Z", "ended_at": null,
    });
    run.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(run).unwrap()
}

#[test]
fn a_waiting_run_says_what_it_waits_for_and_how_long() {
    let now = "2026-01-02T13:00:00Z".parse().unwrap();
    let expected = format!(
        "run        {RUN}\n\
         agent      outreach (version 2)\n\
         status     waiting\n\
         message    Agent paused. Will resume in 5 days.\n\
         contact    c-1\n\
         label      team=a\n\
         created    2026-01-01 12:00:00\n\
         waits for  timer (step-02), 3 days 23 hours left, until 2026-01-06 12:00:00; then: step-03 starts"
    );
    assert_eq!(show::facts(&run(&json!({})), Some(now)), expected);
}

/// S2-R15: who approved a gated step, in a line of a narrow terminal.
#[test]
fn an_approved_step_says_who_approved_it() {
    let step = |id: &str, approval: Value| {
        json!({
            "id": id, "kind": "tool", "status": "in_progress", "tool": "payments.refund",
            "action": "Call payments.refund", "request": null, "response": null, "error_code": null,
            "dispatch": 1, "attempts": 1, "claimed_by": null, "claimed_at": null,
            "started_at": null, "ended_at": null, "approval_state": approval,
        })
    };
    let decided = |state: &str, comment: Value, original: Value| {
        json!({ "state": state, "by": "ada", "at": "2026-01-01T13:00:00Z", "comment": comment,
            "original_args": original, "digest": "d" })
    };
    let requested = json!({ "state": "requested", "by": null, "comment": null,
        "original_args": null, "digest": "d" });
    let steps = json!([
        step(
            "step-01",
            decided("approved", json!("half of it"), json!({ "amount": 250 }))
        ),
        step(
            "step-02",
            decided("rejected", json!("too much"), Value::Null)
        ),
        step("step-03", requested),
    ]);
    let facts = show::facts(&run(&json!({ "steps": steps, "waiting_on": [] })), None);
    let lines: Vec<_> = facts.lines().filter(|it| it.contains("approval")).collect();
    assert_eq!(
        lines,
        [
            "approval   step-01 approved by ada at 2026-01-01 13:00:00, edited: half of it",
            "approval   step-02 rejected by ada at 2026-01-01 13:00:00: too much",
        ]
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
}

/// S2-R4, S2-R16: a run says why the newest attempts failed, and what an approver edited.
#[test]
fn failed_attempts_and_edited_arguments_are_shown() {
    let failed = |attempt: u32| {
        json!({
            "attempt": attempt, "dispatch": attempt, "at": "2026-01-01T13:00:00Z", "error_code": "http_503",
            "response": { "success": false, "description": "POST pay.example answered 503", "error": null,
                "data": null, "duration_ms": 4 },
        })
    };
    let step = json!({
        "id": "step-02", "kind": "tool", "status": "waiting", "tool": "payments.refund",
        "action": "Call payments.refund", "request": { "amount": 125 }, "response": null,
        "error_code": null, "dispatch": 4, "attempts": 4, "claimed_by": null, "claimed_at": null,
        "started_at": null, "ended_at": null,
        "failed_attempts": (1..=4).map(failed).collect::<Vec<_>>(),
        "approval_state": { "state": "approved", "by": "ada", "at": "2026-01-01T12:30:00Z",
            "comment": null, "original_args": { "amount": 250 }, "digest": "d" },
    });
    let facts = show::facts(&run(&json!({ "steps": [step], "waiting_on": [] })), None);
    let lines: Vec<_> = facts.lines().skip(7).collect();
    let attempt = |number: u32| {
        format!(
            "attempt    {number} of step-02 failed at 2026-01-01 13:00:00: POST pay.example answered 503 (http_503)"
        )
    };
    let expected = [
        "approval   step-02 approved by ada at 2026-01-01 12:30:00, edited".to_owned(),
        "edited     step-02 to {\"amount\":125}".to_owned(),
        attempt(2),
        attempt(3),
        attempt(4),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_paused_run_shows_who_paused_it_and_the_time_left() {
    let paused = run(&json!({
        "waiting_on": [{
            "id": "hold_00000000000000000000000000000001-1", "kind": "timer", "step": "step-02",
            "since": "2026-01-01T12:00:00Z", "until": null,
            "remaining_ms": 7_200_000, "then": "step-03 starts",
        }],
        "paused_by": [{
            "scope": "run", "by": "owner", "at": "2026-01-02T12:00:00Z", "in_flight": ["step-01"],
        }],
    }));
    let text = show::facts(&paused, None);
    assert!(text.contains("2 hours left when it was paused"), "{text}");
    assert!(
        text.contains("by owner at 2026-01-02 12:00:00; still running: step-01"),
        "{text}"
    );
}

#[test]
fn a_failed_run_shows_class_and_code() {
    let failed = run(&json!({
        "status": "failed", "waiting_on": [],
        "failure": {"class": "agent", "code": "tool_failed", "message": "mail bounced"},
    }));
    let text = show::facts(&failed, None);
    assert!(
        text.contains("failure    mail bounced (tool_failed, agent)"),
        "{text}"
    );
}

#[test]
fn an_event_is_one_line() {
    let item: HistoryItem = serde_json::from_value(json!({
        "seq": 2, "type": "step.succeeded", "at": "2026-01-01T12:00:01.500Z", "run": RUN,
        "step": "step-01", "message": "Email \"Introduction\" sent\nto Ada", "data": {},
    }))
    .unwrap();
    assert_eq!(
        event_line(&item),
        "12:00:01  step-01     step.succeeded         Email \"Introduction\" sent to Ada"
    );
}

#[test]
fn watching_ends_when_the_run_does() {
    let codes: Vec<_> = EventType::ALL
        .into_iter()
        .filter_map(exit_kind)
        .map(ExitKind::code)
        .collect();
    assert_eq!(codes, [0, 1, 4]);
}

#[test]
fn a_filter_sends_the_given_options() {
    let filter = FilterArgs {
        status: Some("waiting".parse().unwrap()),
        label: Some(("team".to_owned(), "a".to_owned())),
        ..FilterArgs::default()
    };
    let expected = [
        ("status", "waiting".to_owned()),
        ("label", "team=a".to_owned()),
    ];
    assert_eq!(filter_query(&filter), expected);
    assert!(filter_query(&FilterArgs::default()).is_empty());
}

/// Mend C-13: a take-over belongs to no step.
#[test]
fn a_hold_without_a_step_has_no_empty_brackets() {
    let taken = run(&json!({
        "waiting_on": [{
            "id": "hold_00000000000000000000000000000001-1", "kind": "handoff", "step": "",
            "since": "2026-01-01T12:00:00Z", "until": null, "remaining_ms": null,
            "then": "the run goes on",
        }],
    }));
    let text = show::facts(&taken, None);
    assert!(text.contains("handoff, without a deadline"), "{text}");
}

/// Words 7: the list shows the wait that ends next, and counts the others.
#[test]
fn the_list_shows_the_next_end_and_counts_the_other_waits() {
    let wait = |until: Value| {
        json!({
            "id": "hold_00000000000000000000000000000001-1", "kind": "timer", "step": "s",
            "since": "2026-01-01T12:00:00Z", "until": until, "remaining_ms": null, "then": "",
        })
    };
    let until = |waits: &[Value]| super::row(&run(&json!({ "waiting_on": waits })))[5].clone();
    let (early, late) = (
        wait(json!("2026-01-02T12:00:00Z")),
        wait(json!("2026-01-06T12:00:00Z")),
    );
    assert_eq!(until(&[]), "");
    assert_eq!(until(std::slice::from_ref(&early)), "2026-01-02 12:00:00");
    let three = until(&[late, wait(Value::Null), early]);
    assert_eq!(three, "2026-01-02 12:00:00 and 2 more");
}
