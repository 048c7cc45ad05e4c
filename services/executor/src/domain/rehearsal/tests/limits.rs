//! Limits of a rehearsed run.

use holdpoint_contracts::contact::Activity;
use holdpoint_contracts::rehearsal::{
    RUN_DAYS_MAX, RUN_MIB_MAX, RUN_ROUNDS_MAX, RehearsalLimit, RehearsedRun,
};
use holdpoint_ids::RunId;
use serde_json::json;

use super::super::in_memory_run::InMemoryRun;
use super::super::setup::RunLimits;
use super::{contact, rehearse, run, setup};

#[test]
fn a_run_that_lasts_too_long_is_stopped() {
    let wait = "  - { wait: 90 days }\n";
    let stopped = run(&format!("agent: w\nsteps:\n{}", wait.repeat(5)), "");
    assert_eq!(stopped.stopped_by, Some(RehearsalLimit::Time));
    assert_eq!(stopped.ended_at, None);
    assert_eq!(stopped.steps_reached.len(), 5, "it waits in the last one");
    let within = run(&format!("agent: w\nsteps:\n{}", wait.repeat(4)), "");
    assert_eq!((within.stopped_by, within.ended_at.is_some()), (None, true));
}

fn run_within(limits: RunLimits, agent: &str) -> RehearsedRun {
    let mut setup = setup(agent, "people: [{ do: nothing }]");
    setup.limits = limits;
    let run = rehearse(&setup, &contact("ada"), &|| true);
    run.unwrap().unwrap()
}

#[test]
fn the_limits_are_the_documented_ones() {
    let limits = setup("agent: w\nsteps: [{ wait: 1 day }]", "").limits;
    let expected = RunLimits {
        rounds: 20_000,
        bytes: 64 * 1024 * 1024,
    };
    assert_eq!(limits, expected);
    assert_eq!(
        (RUN_DAYS_MAX, RUN_ROUNDS_MAX, RUN_MIB_MAX),
        (400, 20_000, 64)
    );
}

#[test]
fn a_run_with_too_many_rounds_is_stopped() {
    let agent = "agent: w\nsteps: [{ wait: 1 day }, { wait: 1 day }, { wait: 1 day }]";
    let within = |rounds| {
        let limits = RunLimits {
            rounds,
            ..RunLimits::default()
        };
        run_within(limits, agent)
    };
    let stopped = within(2);
    assert_eq!(stopped.stopped_by, Some(RehearsalLimit::Rounds));
    assert_eq!(stopped.ended_at, None);
    assert_eq!(within(3).stopped_by, None);
}

/// Texts of requests count, also if no value keeps them.
#[test]
fn requests_count_as_memory() {
    let question = "x".repeat(5_000);
    let agent = json!({ "agent": "q", "steps": [
        { "id": "which", "ask": { "question": question, "timeout": "1d" } },
    ] });
    let within = |bytes| {
        let limits = RunLimits {
            bytes,
            ..RunLimits::default()
        };
        run_within(limits, &agent.to_string()).stopped_by
    };
    assert_eq!(within(5_000), Some(RehearsalLimit::Memory));
    assert_eq!(within(50_000), None);
}

#[test]
fn activities_count_as_memory() {
    let mut setup = setup("agent: w\nsteps: [{ wait: 1 day }]", "");
    setup.limits.bytes = 5_000;
    let contact = contact("ada");
    let id = RunId::of_rehearsal(&contact.id, 0);
    let mut run = InMemoryRun::new(id, &setup, &contact);
    let activity: Activity = serde_json::from_value(json!({
        "kind": "email_out", "at": "2026-03-02T09:00:00.000Z", "text": "x".repeat(4_900),
    }))
    .unwrap();
    run.keep_activity(activity.clone());
    assert!(!run.is_full());
    run.keep_activity(activity);
    assert!(run.is_full());
}
