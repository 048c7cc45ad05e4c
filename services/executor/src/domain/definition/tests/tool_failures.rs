//! `retry` as authors write it, and what they are told.

use super::*;
use crate::domain::plan::{OnError, Retry};

fn retry(text: &str) -> Option<Retry> {
    let text = format!("agent: a\nsteps:\n  - tool: t\n    retry: {text}\n");
    let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    plan.steps[0].retry.clone()
}

#[test]
fn a_retry_has_defaults() {
    let with = |attempts, backoff_ms, max_backoff_ms| {
        Some(Retry {
            attempts,
            backoff_ms,
            max_backoff_ms,
            on: Vec::new(),
        })
    };
    assert_eq!(retry("none"), with(1, 1_000, 60_000));
    assert_eq!(retry("{}"), with(3, 1_000, 60_000));
    assert_eq!(
        retry("{ attempts: 5, backoff: 2s }"),
        with(5, 2_000, 60_000)
    );
    assert_eq!(retry("{ backoff: 5m }"), with(3, 300_000, 300_000));
    assert_eq!(retry("{ max_backoff: 10s }"), with(3, 1_000, 10_000));
    assert_eq!(retry("{ on: timeout }").unwrap().on, ["timeout"]);
}

#[test]
fn a_wrong_retry_is_refused_with_what_is_allowed() {
    let refused = |text: &str| one_step(&format!("tool: t\nretry: {text}"));
    for (text, message) in [
        ("3", "`retry` is `none`, or an object"),
        (
            "{ attempts: 0 }",
            "`attempts` is a whole number from 1 to 100",
        ),
        (
            "{ attempts: 101 }",
            "`attempts` is a whole number from 1 to 100",
        ),
        ("{ backoff: 500ms }", "`backoff` is at least 1 second."),
        (
            "{ max_backoff: 91 days }",
            "`max_backoff` is at most 90 days.",
        ),
        (
            "{ backoff: 1m, max_backoff: 1s }",
            "`max_backoff` is at least as long as `backoff`.",
        ),
        ("{ on: [] }", "`on` is a list of 1 to 50 error codes"),
        ("{ atempts: 3 }", "`retry` has no field `atempts`"),
    ] {
        let said = refused(text).join("\n");
        assert!(said.contains(message), "{text}: {said}");
    }
    let said = one_step("wait: 1d\nretry: none");
    assert_eq!(
        said,
        ["4 step-01 retry | `retry` belongs to a `tool`; a `wait` has none. | "]
    );
}

#[test]
fn a_timeout_is_a_duration_of_a_tool() {
    let text = "agent: a\nsteps: [{tool: t, timeout: 30s}]";
    assert_eq!(
        Plan::compile(text).unwrap().steps[0].timeout_ms,
        Some(30_000)
    );
    assert_eq!(
        one_step("tool: t\ntimeout: 500ms"),
        ["4 step-01 500ms | `timeout` is at least 1 second. | "]
    );
    assert_eq!(
        one_step("ask: { question: Go on? }\ntimeout: 1h"),
        ["4 step-01 timeout | `timeout` belongs inside `ask`. | "]
    );
}

#[test]
fn on_error_is_one_of_four_words() {
    let text = "agent: a\nsteps: [{tool: t, on_error: handoff}, {wait: 1d, on_error: skip_rest}]";
    let plan = Plan::compile(text).unwrap();
    let read: Vec<_> = plan.steps.iter().map(|step| step.on_error).collect();
    assert_eq!(read, [OnError::Handoff, OnError::SkipRest]);
    assert_eq!(
        one_step("tool: t\non_error: skiprest"),
        [
            "4 step-01 skiprest | `on_error` is one of `fail`, `continue`, `skip_rest`, `handoff`. | skip_rest"
        ]
    );
    for step in ["ask: { question: Go on? }", "wait_for: go", "run: helper"] {
        let text = format!("agent: a\nsteps:\n  - {step}\n    on_error: handoff\n");
        let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(plan.steps[0].on_error, OnError::Handoff);
    }
    for (step, kind) in [
        ("wait: 1d", "wait"),
        ("handoff: {}", "handoff"),
        ("finish: x", "finish"),
    ] {
        let said = one_step(&format!("{step}\non_error: handoff"));
        let message = format!(
            "4 step-01 handoff | `on_error: handoff` belongs to a `tool`, `ask`, `wait_for` or `run`; a `{kind}` has none. | "
        );
        assert_eq!(said, [message]);
    }
}
