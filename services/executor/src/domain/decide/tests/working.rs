//! Dispatch, start and result of steps.

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::{FailureClass, RunStatus, StepStatus};
use holdpoint_contracts::steps::{Grant, ResultReply};
use serde_json::json;

use super::world::{Heard, World, broken, done};
use crate::domain::{DeliveredStep, Refusal, Reply, RunInput, StepReport};

const SEND: &str = "  - id: send\n    tool: send_email\n    args: { to: x@x.example }\n";
const LOG: &str = "  - id: note\n    tool: log\n    args: { message: hi }\n";

/// S2-R1, S2-R10, S2-R11
#[test]
fn a_step_is_handed_out_started_and_done_under_one_id() {
    let mut world = World::started(SEND);
    let step_dispatch = world.handed[0].clone();
    assert_eq!(
        (
            step_dispatch.step.as_str(),
            step_dispatch.dispatch,
            step_dispatch.attempt
        ),
        ("send", 1, 1)
    );
    assert_eq!(
        (step_dispatch.workspace.as_str(), step_dispatch.idempotent),
        ("acme", false)
    );
    assert_eq!(world.rows["send"].status, StepStatus::Queued);
    world.pass(TimeDelta::seconds(2));
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    assert_eq!(
        world.rows["send"].claimed_by.as_ref().unwrap().as_str(),
        "node-a"
    );
    assert_eq!(
        world.report("send", done(json!({ "id": 4 }))),
        ResultReply::Applied
    );
    let row = &world.rows["send"];
    assert_eq!(
        (row.status, row.ended_at),
        (StepStatus::Completed, Some(world.now))
    );
    assert_eq!(row.response, Some(done(json!({ "id": 4 }))));
    for kind in [EventType::StepCalled, EventType::StepSucceeded] {
        assert_eq!(world.event(kind).step.as_deref(), Some("send"));
    }
    assert_eq!(
        (world.view().clocks.queued_ms, world.view().clocks.active_ms),
        (2_000, 7)
    );
}

/// S2-R8: one placeholder keeps its type, and every result is there for later steps.
#[test]
fn a_later_step_sees_the_result_of_an_earlier_one() {
    let mut world = World::started(
        "  - id: find\n    tool: orders.find\n    args: { customer: \"{{ input.customer }}\" }\n  - id: pay\n    tool: pay\n    args: { amount: $find.order.total }\n",
    );
    assert_eq!(world.handed[0].args, json!({ "customer": "c-7" }));
    world.report("find", done(json!({ "order": { "total": 12.5 } })));
    assert_eq!(world.handed[1].args, json!({ "amount": 12.5 }));
}

/// S2-R8
#[test]
fn an_unresolvable_placeholder_fails_the_step_with_the_path_named() {
    let mut world = World::started(
        "  - id: find\n    tool: orders.find\n    args: {}\n  - id: pay\n    tool: pay\n    args: { amount: $find.order.total }\n",
    );
    world.report("find", done(json!({ "order": {} })));
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Agent, "unresolved_placeholder")
    );
    assert!(failure.message.contains("$find.order.total"), "{failure:?}");
    assert_eq!(
        world.event(EventType::StepFailed).step.as_deref(),
        Some("pay")
    );
    assert_eq!(
        world.rows["pay"].error_code.as_deref(),
        Some("unresolved_placeholder")
    );
}

/// S0-AC5: the log keeps the values.
#[test]
fn a_condition_that_does_not_hold_skips_the_step_and_keeps_the_values() {
    let mut world = World::of(
        "  - id: follow-up\n    when: contact.replied == false\n    tool: send_email\n    args: { to: x }\n",
    );
    world.contact = Some(json!({ "id": "ada", "replied": true }));
    let view = world.start();
    assert_eq!(view.status, RunStatus::Completed);
    let skipped = world.event(EventType::StepSkipped);
    assert_eq!(skipped.step.as_deref(), Some("follow-up"));
    assert_eq!(skipped.data["values"], json!({ "contact.replied": true }));
    assert_eq!(
        view.result,
        Some(json!({ "summary": "0 steps done, 1 skipped." }))
    );
}

/// S0-AC5
#[test]
fn a_condition_on_a_missing_key_fails_the_step_and_names_the_key() {
    let mut world = World::of(
        "  - id: follow-up\n    when: contact.replied == false\n    tool: send_email\n    args: { to: x }\n",
    );
    world.contact = Some(json!({ "id": "ada" }));
    let failure = world.start().failure.unwrap();
    assert_eq!(failure.code, "condition_undetermined");
    assert!(failure.message.contains("contact.replied"), "{failure:?}");
    assert!(world.handed.is_empty(), "nothing is sent on a guess");
}

/// S0-AC5
#[test]
fn a_condition_after_a_wait_sees_the_contact_as_it_is_at_wake() {
    for (replied, sends) in [(false, true), (true, false)] {
        let mut world = World::started(
            "  - wait: 5 days\n  - when: contact.replied == false\n    tool: send_email\n    args: { to: \"{{ contact.email }}\" }\n",
        );
        let email = "new@x.example";
        world.contact = Some(json!({ "id": "ada", "email": email, "replied": replied }));
        world.fire_next();
        assert_eq!(world.handed.len(), usize::from(sends));
        if sends {
            assert_eq!(world.handed[0].args, json!({ "to": email }));
        }
    }
}

/// S0-AC5: a chain of conditions on many results is decided in one go; the kernel asks a few
/// times and no more.
#[test]
fn a_long_chain_of_skipped_steps_does_not_ask_forever() {
    let mut steps = String::new();
    for number in 1..=8 {
        steps += &format!("  - id: find-{number}\n    tool: log\n    args: {{ message: hi }}\n");
    }
    steps += "  - wait: 1 day\n";
    for number in 1..=8 {
        steps += &format!(
            "  - id: act-{number}\n    when: $find-{number}.go == true\n    tool: log\n    args: {{ message: $find-{number}.text }}\n"
        );
    }
    let mut world = World::started(&steps);
    for number in 1..=8 {
        world.report(&format!("find-{number}"), done(json!({ "go": false })));
    }
    world.fire_next();
    assert_eq!(world.view().failure, None);
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S4-R2: one winner; the answer to its first request was lost.
#[test]
fn the_same_delivery_that_asks_again_may_still_go() {
    let mut world = World::started(SEND);
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    let before = world.run().clone();
    assert_eq!(world.ask("node-a", "send"), Grant::Go);
    assert_eq!(*world.run(), before);
}

/// Races: while the lease stands, another delivery of the same dispatch is nobody's.
#[test]
fn while_a_lease_stands_another_delivery_is_dropped() {
    for steps in [SEND, LOG] {
        let mut world = World::started(steps);
        let step = world.handed[0].step.clone();
        assert_eq!(world.ask("node-a", &step), Grant::Go);
        let before = world.run().clone();
        assert_eq!(world.ask_as("node-b", &step, 1, 2), Grant::Drop);
        assert_eq!(world.ask_as("node-a", &step, 1, 2), Grant::Drop);
        assert_eq!(*world.run(), before);
    }
}

/// S4-R2: lower is evidence, and higher was never dispatched.
#[test]
fn another_dispatch_than_the_current_is_dropped() {
    let mut world = World::started(SEND);
    for dispatch in [0, 2, u64::MAX] {
        assert_eq!(world.ask_as("node-a", "send", dispatch, 1), Grant::Drop);
    }
}

/// Races: a step result is unique per (run, step, dispatch).
#[test]
fn the_same_result_twice_is_applied_once() {
    let mut world = World::started(SEND);
    world.ask("node-a", "send");
    assert_eq!(
        world.report("send", done(json!({ "id": 1 }))),
        ResultReply::Applied
    );
    let before = world.run().clone();
    assert_eq!(
        world.report("send", done(json!({ "id": 2 }))),
        ResultReply::Known
    );
    assert_eq!(*world.run(), before);
}

/// S2-R11, S2-R15
#[test]
fn a_failed_step_fails_the_run_and_revokes_what_else_moves() {
    let mut world = World::started(
        "  - id: send\n    tool: send_email\n    args: { to: x }\n  - id: other\n    tool: send_email\n    args: { to: y }\n    needs: []\n  - id: nap\n    wait: 1 day\n    needs: []\n  - id: last\n    tool: log\n    args: { message: hi }\n",
    );
    world.ask("node-a", "send");
    world.ask("node-a", "other");
    assert_eq!(world.report("send", broken()), ResultReply::Applied);
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Agent, "http_status")
    );
    assert_eq!(failure.message, "send: The server answered 500.");
    let statuses: Vec<_> = world
        .run()
        .steps
        .iter()
        .map(|step| step.phase.status())
        .collect();
    use StepStatus::{Cancelled, Failed};
    assert_eq!(statuses, [Failed, Cancelled, Cancelled, Cancelled]);
    assert!(
        world.timers.values().all(|(_, due)| due.is_none()),
        "the timer is cleared"
    );
    assert_eq!(
        world.rows["send"].error_code.as_deref(),
        Some("http_status")
    );
    assert_eq!(
        world.report_as("other", 1, done(json!({}))),
        ResultReply::Late
    );
    assert_eq!(world.view().failure.unwrap(), failure);
}

/// Mend C-2, S0-R5: an error is shown without paths and secrets. As the tool said it, it is kept apart,
/// also where it comes too late.
#[test]
fn an_error_of_a_tool_is_sanitised() {
    let said = "open /srv/crm/keys.toml failed, token=abcdef123456";
    let shown = "open [path] failed, token=[secret]";
    let mut failed = broken();
    failed.description = said.to_owned();
    failed.error = Some(said.to_owned());
    let mut world = World::started(SEND);
    world.ask("node-a", "send");
    assert_eq!(world.report("send", failed.clone()), ResultReply::Applied);
    let row = &world.rows["send"];
    let response = row.response.as_ref().unwrap();
    assert_eq!(
        (response.description.as_str(), response.error.as_deref()),
        (shown, Some(shown))
    );
    assert_eq!(row.raw_error.as_deref(), Some(said));
    assert_eq!(
        world.view().failure.unwrap().message,
        format!("send: {shown}")
    );
    assert_eq!(world.report_as("send", 7, failed), ResultReply::Late);
    let history = format!("{:?}", world.history);
    assert!(
        history.contains(shown) && !history.contains("keys.toml"),
        "{history}"
    );
}

/// S2-R1
#[test]
fn a_step_that_the_run_does_not_have_is_refused() {
    let mut world = World::started(SEND);
    let heard = world.give(RunInput::StartStep(DeliveredStep {
        node: "node-a".parse().unwrap(),
        step: "nonsense".to_owned(),
        dispatch: 1,
        delivery: 1,
        without_lease: false,
        is_high_risk: false,
        is_idempotent: false,
    }));
    assert!(
        matches!(heard, Heard::Refused(Refusal::StepNotFound(..))),
        "{heard:?}"
    );
}

/// S0-R5: idempotence is what the arguments say once they are resolved.
#[test]
fn a_step_whose_arguments_say_so_is_idempotent() {
    let world = World::started(
        "  - tool: send_email\n    args: { to: x, idempotent: true }\n  - tool: send_email\n    args: { to: x, idempotent: \"true\" }\n    needs: []\n",
    );
    assert!(world.handed[0].idempotent);
    assert!(!world.handed[1].idempotent);
}

/// Every step runs when its needs have ended, and the run when all have.
#[test]
fn a_run_ends_when_all_branches_have() {
    let mut world = World::started(
        "  - id: a\n    tool: log\n    args: {}\n  - id: b\n    tool: log\n    args: {}\n    needs: []\n  - id: c\n    tool: log\n    args: {}\n    needs: [a, b]\n",
    );
    assert_eq!(world.handed.len(), 2);
    world.report("a", done(json!({})));
    assert_eq!(world.handed.len(), 2);
    world.report("b", done(json!({})));
    assert_eq!(world.handed.len(), 3);
    let heard = world.give(RunInput::StepResult(StepReport {
        cost: None,
        node: "node-a".parse().unwrap(),
        step: "c".to_owned(),
        dispatch: 1,
        result: done(json!({})),
        error_code: None,
    }));
    assert!(matches!(
        heard,
        Heard::Decided(Reply::Result(ResultReply::Applied))
    ));
    assert_eq!(world.status(), RunStatus::Completed);
}
