//! Approvals of gated steps (S2-R2, S2-R3, S2-R4, S2-R5).

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::{ApprovalState, FailureClass, ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::Grant;
use holdpoint_contracts::tool::Risk;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::tools::{spec, with};
use super::world::{Heard, World, done, user};
use crate::domain::{DeliveredStep, Reply, RunInput};

const TWO: &str = "  - id: pay
    tool: send_email
    args: { to: \"{{ contact.email }}\", n: 1 }
    approval: { from: \"@role.manager\", valid_for: 1h }
  - id: note
    tool: log
    args: { message: done }
";

fn hold(world: &World) -> HoldId {
    let mut people = world.run().people();
    people.next().expect("a request").1.id
}

fn decide(world: &mut World, outcome: HoldOutcome, data: Value) -> HoldId {
    let hold = hold(world);
    world.close_as(hold, outcome, data);
    hold
}

fn start(world: &mut World, step: &str) -> Heard {
    start_as(world, step, false)
}

pub(super) fn start_as(world: &mut World, step: &str, is_high_risk: bool) -> Heard {
    world.give(RunInput::StartStep(DeliveredStep {
        node: "node-a".parse().unwrap(),
        step: step.to_owned(),
        dispatch: world.dispatch(step),
        delivery: 1,
        without_lease: true,
        is_high_risk,
        is_idempotent: false,
    }))
}

/// S2-R3: the run waits, people see tool and arguments, and nothing was dispatched.
#[test]
fn a_gated_step_waits_for_its_approval() {
    let world = World::started(TWO);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_eq!(world.phase("pay").status(), StepStatus::WaitingConfirm);
    assert!(world.handed.is_empty());
    let asked = world.event(EventType::RunAwaitingApproval);
    let item = &asked.data["items"][0];
    assert_eq!(item["id"], "pay");
    assert_eq!(item["tool"], "send_email");
    assert_eq!(item["args"], json!({ "to": "ada@x.example", "n": 1 }));
    assert_eq!(item["digest"].as_str().unwrap().len(), 64);
    let (_, state) = &world.holds[&hold(&world)];
    let HoldState::Open { spec, .. } = state else {
        panic!("{state:?}");
    };
    assert_eq!(spec.to, ["@role.manager"]);
    assert_eq!(json!(spec.items[0]), *item);
}

/// S2-R2: the risk in the registry gates every step of the tool, whatever the agent says.
#[test]
fn a_tool_of_high_risk_is_gated_by_itself() {
    let world = with(spec(Risk::High), false);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert!(world.handed.is_empty());
}

/// S2-R4, S2-R5
#[test]
fn an_approved_step_runs_with_the_approved_arguments() {
    let mut world = World::started(TWO);
    decide(&mut world, HoldOutcome::Approved, json!("go on"));
    let out = world.handed.last().unwrap();
    assert_eq!(
        (out.step.as_str(), &out.args["to"]),
        ("pay", &json!("ada@x.example"))
    );
    let approval = world.step("pay").approval.as_deref().unwrap();
    assert_eq!(approval.state, ApprovalState::Approved);
    let decision = approval.decision.as_ref().unwrap();
    assert_eq!(
        (decision.by.as_str(), decision.comment.as_deref()),
        ("ada", Some("go on"))
    );
    // A grant is a committed row, also for a first delivery.
    assert!(matches!(
        start(&mut world, "pay"),
        Heard::Decided(Reply::Grant(Grant::Go))
    ));
    world.report("pay", done(json!({})));
    world.report("note", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// S2-R4: the approver's arguments run, and the requested ones stay on record.
#[test]
fn edited_arguments_replace_the_requested_ones() {
    let mut world = World::started(TWO);
    let edited = json!({ "to": "bob@x.example", "n": 2, "idempotent": true });
    let data = json!({ "comment": null, "edited_args": edited });
    decide(&mut world, HoldOutcome::Approved, data);
    let first = world.handed.last().unwrap().clone();
    assert_eq!(first.args, edited);
    assert_eq!(world.rows["pay"].request, Some(edited));
    // A takeover sends the same call under the same approval.
    start(&mut world, "pay");
    world.lose("pay");
    let second = world.handed.last().unwrap();
    assert_eq!(
        (second.dispatch, &second.args),
        (first.dispatch + 1, &first.args)
    );
    let message = world.event(EventType::RunResumed).message.clone();
    assert_eq!(message, "ada approved pay with edited arguments.");
}

/// S2-R4: a rejected step is skipped, and the run goes on.
#[test]
fn a_rejected_step_is_skipped() {
    let mut world = World::started(TWO);
    decide(&mut world, HoldOutcome::Rejected, json!("too dear"));
    assert_eq!(world.phase("pay").status(), StepStatus::Skipped);
    assert!(
        world
            .event(EventType::StepSkipped)
            .message
            .contains("ada rejected it: too dear.")
    );
    world.report("note", done(json!({})));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// API "Runs": a run that fails because of a rejection has the class `policy`.
#[test]
fn a_step_that_uses_a_rejected_result_fails() {
    let uses = TWO.replace("message: done", "message: \"{{ pay.id }}\"");
    let uses = uses
        .replace("pay", "step-01")
        .replace("{{ step-01.id }}", "$step-01.id");
    let uses = uses.replace("id: note", "id: step-02");
    let mut world = World::started(&uses);
    decide(&mut world, HoldOutcome::Rejected, json!("no"));
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Policy, "approval_rejected")
    );
}

/// S2-R3: the contact has changed since, so other arguments would run. Both requests are on record.
#[test]
fn a_changed_call_is_asked_again() {
    let mut world = World::started(TWO);
    world.contact = Some(json!({ "id": "ada", "email": "eve@x.example", "replied": false }));
    let first = decide(&mut world, HoldOutcome::Approved, json!(null));
    assert!(world.handed.is_empty());
    let second = hold(&world);
    assert_ne!(first, second);
    let asked = world.event(EventType::RunAwaitingApproval);
    assert_eq!(asked.data["items"][0]["args"]["to"], "eve@x.example");
    assert!(
        asked
            .message
            .contains("is void, because the call has changed"),
        "{}",
        asked.message
    );
    decide(&mut world, HoldOutcome::Approved, json!(null));
    assert_eq!(world.handed.len(), 1);
}

/// S2-R4: a call whose policy is unknown is not asked, so that its step fails. A retry asks again.
#[test]
fn a_call_without_its_policy_fails_its_step() {
    let mut world = World::started(TWO);
    let message = "unknown policy `two-managers`; expected one of `on-call`";
    let data = json!({ "code": "policy_unavailable", "message": message });
    let first = decide(&mut world, HoldOutcome::Cancelled, data);
    let failure = world.view().failure.unwrap();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (FailureClass::Policy, "policy_unavailable")
    );
    assert_eq!(failure.message, format!("pay: {message}"));
    world.retry(None);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert_ne!(hold(&world), first);
    assert!(world.handed.is_empty());
}

/// Gate: `valid_for` continues during a pause.
#[test]
fn an_approval_expires_during_a_pause() {
    let mut world = World::started(TWO);
    world.pause();
    decide(&mut world, HoldOutcome::Approved, json!(null));
    world.pass(TimeDelta::minutes(61));
    world.resume(ResumeMode::Continue);
    assert!(world.handed.is_empty());
    let asked = world.event(EventType::RunAwaitingApproval);
    assert!(
        asked.message.contains("The approval of ada has expired."),
        "{}",
        asked.message
    );
}

/// Gate: the same check when a worker wants to start.
#[test]
fn a_queued_step_whose_approval_has_expired_does_not_start() {
    let mut world = World::started(TWO);
    decide(&mut world, HoldOutcome::Approved, json!(null));
    world.pass(TimeDelta::minutes(61));
    assert!(matches!(
        start(&mut world, "pay"),
        Heard::Decided(Reply::Grant(Grant::Drop))
    ));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// The kernel loads needs at most four times. The tool, the approver and the briefing of a handoff on failure are three
/// loads after the first one.
#[test]
fn an_expired_approval_loads_all_that_it_needs_at_once() {
    let plan = "  - id: pay
    tool: own.pay
    args: { n: 1 }
    on_error: handoff
    approval: { valid_for: 1h }
  - id: rest
    wait: 1 day
";
    let mut world = World::started(plan);
    decide(&mut world, HoldOutcome::Approved, json!(null));
    world.pass(TimeDelta::minutes(61));
    start(&mut world, "pay");
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// Gate: the approver's right is checked again at dispatch.
#[test]
fn the_approval_of_a_disabled_user_is_void() {
    let mut world = World::started(TWO);
    world.users.insert("ada".to_owned(), user(false, &[]));
    decide(&mut world, HoldOutcome::Approved, json!(null));
    assert!(world.handed.is_empty());
    let asked = world.event(EventType::RunAwaitingApproval);
    assert!(
        asked.message.contains("ada is not known as an active user"),
        "{}",
        asked.message
    );
}

/// S2-R2: a worker's own tool has a risk too. The executor learns of it when the step wants to start.
#[test]
fn a_tool_of_a_worker_is_gated_when_it_wants_to_start() {
    let ungated = "  - id: pay\n    tool: own.pay\n    args: { idempotent: true }\n";
    let mut world = World::started(ungated);
    let asked = start_as(&mut world, "pay", true);
    assert!(matches!(asked, Heard::Decided(Reply::Grant(Grant::Drop))));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    decide(&mut world, HoldOutcome::Approved, json!(null));
    assert_eq!(
        world.step("pay").attempts,
        1,
        "the first dispatch never ran"
    );
    let asked = start_as(&mut world, "pay", true);
    assert!(matches!(asked, Heard::Decided(Reply::Grant(Grant::Go))));
}

/// Gate: `idempotent: true` in a tools file counts.
#[test]
fn a_worker_says_that_its_tool_may_run_twice() {
    let plan = "  - id: read\n    tool: own.read\n    args: {}\n";
    for (is_idempotent, expected) in [(false, StepStatus::Uncertain), (true, StepStatus::Queued)] {
        let mut world = World::started(plan);
        world.give(RunInput::StartStep(DeliveredStep {
            node: "node-a".parse().unwrap(),
            step: "read".to_owned(),
            dispatch: 1,
            delivery: 1,
            without_lease: false,
            is_high_risk: false,
            is_idempotent,
        }));
        world.lose("read");
        assert_eq!(world.phase("read").status(), expected);
    }
}

/// S2-R3: a changed registration, such as another schema, is another call.
#[test]
fn a_new_version_of_the_tool_is_asked_again() {
    let mut world = with(spec(Risk::High), false);
    world.tools[0].version += 1;
    decide(&mut world, HoldOutcome::Approved, json!(null));
    assert!(world.handed.is_empty());
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// Gate, bad input: edited arguments that break the schema of the tool are not dispatched, even if they were approved.
#[test]
fn edited_arguments_that_break_the_schema_are_not_dispatched() {
    let mut strict = spec(Risk::High);
    strict.args_schema = Some(json!({ "properties": { "n": { "maximum": 5 } } }));
    for (n, code) in [(6, Some("invalid_args")), (5, None)] {
        let mut world = with(strict.clone(), false);
        assert_eq!(world.status(), RunStatus::AwaitingApproval);
        let edited = json!({ "n": n });
        let data = json!({ "comment": null, "edited_args": edited });
        decide(&mut world, HoldOutcome::Approved, data);
        let failure = world.view().failure;
        let shown = failure.as_ref().map(|failure| failure.code.as_str());
        assert_eq!(shown, code);
        if let Some(failure) = failure {
            assert!(world.handed.is_empty());
            assert!(failure.message.contains("`/n`"), "{}", failure.message);
        } else {
            assert_eq!(world.handed[0].args, edited);
        }
    }
}

/// What was approved is what runs: an order number that a double rounds is not approved.
#[test]
fn a_call_with_an_inexact_integer_fails() {
    let world = World::started(&TWO.replace("n: 1", "n: 9007199254740993"));
    assert_eq!(world.view().failure.unwrap().code, "inexact_integer");
    assert!(world.handed.is_empty());
}

/// An expired approval of edited arguments is asked again about the call on fresh data, and that approval counts.
#[test]
fn an_expired_edit_is_asked_again_once() {
    let twice = TWO.replace("n: 1", "n: 1, idempotent: true");
    let mut world = World::started(&twice);
    let edited = json!({ "to": "bob@x.example", "idempotent": true });
    let data = json!({ "comment": null, "edited_args": edited });
    decide(&mut world, HoldOutcome::Approved, data);
    start(&mut world, "pay");
    world.pass(TimeDelta::minutes(61));
    world.lose("pay");
    let asked = world.event(EventType::RunAwaitingApproval);
    assert_eq!(asked.data["items"][0]["args"]["to"], "ada@x.example");
    assert!(
        asked
            .message
            .contains("The approval of ada, with edited arguments, has expired.")
    );
    decide(&mut world, HoldOutcome::Approved, json!(null));
    assert_eq!(world.handed.len(), 2);
    assert_eq!(world.handed[1].args["to"], "ada@x.example");
}

/// A tool that was changed after the dispatch does not start: its risk and its address may be others.
#[test]
fn a_step_whose_tool_has_changed_passes_the_gate_again() {
    let mut world = with(spec(Risk::Medium), false);
    world.tools[0].version += 1;
    world.tools[0].spec.risk = Risk::High;
    assert!(matches!(
        start(&mut world, "pay"),
        Heard::Decided(Reply::Grant(Grant::Drop))
    ));
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// A condition may look at a rejected step, which reads as null.
#[test]
fn a_condition_guards_a_step_that_uses_a_rejected_result() {
    let plan = "  - id: step-01
    tool: send_email
    args: {}
    approval: {}
  - id: step-02
    when: $step-01 != null
    tool: log
    args: { message: \"$step-01.id\" }
";
    let mut world = World::started(plan);
    decide(&mut world, HoldOutcome::Rejected, json!("no"));
    assert_eq!(world.status(), RunStatus::Completed);
}

/// RFC 8785: the order of fields and the way a number is written do not matter.
#[test]
fn a_digest_depends_on_the_value_alone() {
    use crate::domain::rules::approval_gate::call_digest;
    let tool = "pay".parse().unwrap();
    let of = |text: &str| call_digest(&tool, None, &serde_json::from_str(text).unwrap());
    assert_eq!(of(r#"{"a": 1, "b": 2.0}"#), of(r#"{"b": 2, "a": 1.0}"#));
    assert_ne!(of(r#"{"a": 1}"#), of(r#"{"a": "1"}"#));
    assert_ne!(of("{}"), call_digest(&tool, Some("1"), &json!({})));
    // The form writes numbers as doubles, which cannot tell these two apart.
    assert_eq!(of(r#"{"order": 9007199254740993}"#), None);
    assert!(of(r#"{"order": 9007199254740991}"#).is_some());
}
