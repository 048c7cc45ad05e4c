//! Parts of calls that are never shown (S2-R2): the tool gets them, and no view has them.

use holdpoint_contracts::hold::{HoldOutcome, HoldState};
use holdpoint_contracts::run::{ActionResult, ApprovalState, RunStatus, StepStatus};
use holdpoint_contracts::tool::{Risk, ToolSpec};
use serde_json::{Value, json};

use super::approvals::start_as;
use super::tools::{operator_tool, spec};
use super::world::{World, broken, done};
use crate::domain::stored_steps::StoredSteps;

const SECRET: &str = "tok-4711";
const CARD: &str = "4111222233334444";

const CALLS: &str = "  - id: look
    tool: vault.read
    args: { name: crm }
  - id: pay
    tool: payments.refund
    when: '$look.token != \"\"'
    args: { token: $look.token, cards: [{ no: \"4111222233334444\", of: Ada }], n: 1 }
  - id: call
    handoff: { to: \"@role.sales\", message: \"Call $look.name\" }
";

fn vault() -> ToolSpec {
    ToolSpec {
        http: None,
        name: "vault.read".parse().unwrap(),
        redaction: Some(vec!["result.token".to_owned()]),
        ..spec(Risk::Low)
    }
}

fn refund() -> ToolSpec {
    let hidden = ["args.cards.no", "args.token", "result.receipt"];
    ToolSpec {
        redaction: Some(hidden.map(str::to_owned).to_vec()),
        ..spec(Risk::High)
    }
}

fn asked() -> World {
    let mut world = World::of(CALLS);
    for tool in [vault(), refund()] {
        world.tools.push(operator_tool(tool));
    }
    world.start();
    start_as(&mut world, "look", false);
    let result = ActionResult {
        description: format!("Read {SECRET}."),
        ..done(json!({ "token": SECRET, "name": "crm" }))
    };
    world.report("look", result);
    world
}

/// What people and other services see: the history, the requests, the views of steps, and the snapshot.
fn shown(world: &World) -> String {
    let stored = StoredSteps {
        rows: world.rows.values().cloned().collect(),
        ..StoredSteps::default()
    };
    let plan = world.plan_of(world.run());
    let steps = world.run().step_views(&plan.plan, stored);
    let holds: Vec<_> = world.holds.values().map(|(_, hold)| hold).collect();
    json!([world.history, holds, steps, world.snapshot, world.view()]).to_string()
}

fn check_hidden(world: &World) {
    let shown = shown(world);
    for hidden in [SECRET, CARD, "r-99887"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
    assert!(shown.contains("[redacted]"));
}

fn approve(world: &mut World, data: Value) {
    let hold = world.run().people().next().expect("a request").1.id;
    world.close_as(hold, HoldOutcome::Approved, data);
}

/// S2-R2, S2-R3: people approve a call without its hidden parts. The digest covers them, and the tool gets them.
#[test]
fn hidden_parts_reach_the_tool_and_no_view() {
    let mut world = asked();
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    check_hidden(&world);
    let digest = world.step("pay").approval.as_ref().unwrap().digest.clone();
    approve(&mut world, json!("go on"));
    let handed = world.handed.last().unwrap().clone();
    assert_eq!(
        (&handed.args["token"], &handed.args["cards"][0]["no"]),
        (&json!(SECRET), &json!(CARD))
    );
    let called =
        json!({ "tool": "payments.refund", "version": "unversioned+1", "args": handed.args });
    let canonical = serde_json_canonicalizer::to_vec(&called).unwrap();
    assert_eq!(
        digest,
        format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(canonical))
    );
    start_as(&mut world, "pay", false);
    // A tool repeats what it got.
    let failed = ActionResult {
        error: Some(format!("card {CARD} refused")),
        data: json!({ "status": 402, "body": format!("{{\"token\":\"{SECRET}\"}}") }),
        ..broken()
    };
    world.report("pay", failed);
    check_hidden(&world);
    assert_eq!(world.phase("pay").status(), StepStatus::Failed);
}

/// S2-R2, S0-T2: a handoff, a late result and a snapshot have no hidden part either.
#[test]
fn later_readers_see_no_hidden_part() {
    let mut world = asked();
    approve(&mut world, json!("go on"));
    start_as(&mut world, "pay", false);
    let earlier = world.dispatch("pay");
    let result = ActionResult {
        description: format!("Paid with {SECRET}, receipt r-99887."),
        ..done(json!({ "receipt": "r-99887", "summary": "paid" }))
    };
    world.report("pay", result.clone());
    let receipt = &world.values["pay"]["receipt"];
    assert_eq!(*receipt, json!("r-99887"), "later steps may use it");
    let on = world.run().people().next().expect("a handoff");
    assert!(matches!(world.holds[&on.1.id].1, HoldState::Open { .. }));
    world.report_as("pay", earlier - 1, result);
    world.give(super::suspension::suspend_input("stop"));
    check_hidden(&world);
}

/// S2-R2: the question about an uncertain step shows its arguments without hidden parts.
#[test]
fn a_question_shows_no_hidden_part() {
    let mut world = asked();
    approve(&mut world, json!("go on"));
    start_as(&mut world, "pay", false);
    world.lose("pay");
    assert_eq!(world.phase("pay").status(), StepStatus::Uncertain);
    check_hidden(&world);
}

/// S2-R4: edited arguments have the hidden parts of the call. A hidden part that has moved is asked about again.
#[test]
fn edited_arguments_keep_the_hidden_parts() {
    let mut world = asked();
    let edited =
        json!({ "token": "[redacted]", "cards": [{ "no": "[redacted]", "of": "Ada" }], "n": 2 });
    approve(
        &mut world,
        json!({ "comment": null, "edited_args": edited }),
    );
    let handed = world.handed.last().unwrap().clone();
    assert_eq!(handed.step, "pay");
    assert_eq!(
        handed.args,
        json!({ "token": SECRET, "cards": [{ "no": CARD, "of": "Ada" }], "n": 2 })
    );
    start_as(&mut world, "pay", false);
    world.lose("pay");
    check_hidden(&world);
    let mut moved = asked();
    let edited = json!({ "n": [{ "token": "[redacted]" }] });
    approve(
        &mut moved,
        json!({ "comment": null, "edited_args": edited }),
    );
    assert_eq!(moved.status(), RunStatus::AwaitingApproval);
    let approval = moved.step("pay").approval.as_deref().unwrap();
    assert_eq!(approval.state, ApprovalState::Requested);
    assert!(shown(&moved).contains("move a hidden part"));
    check_hidden(&moved);
}

/// S2-R2: an error of a schema quotes no hidden value.
#[test]
fn an_error_of_a_schema_shows_no_hidden_part() {
    let mut world = World::of(CALLS);
    let numbers = json!({ "properties": { "token": { "type": "integer" } } });
    let strict = ToolSpec {
        args_schema: Some(numbers),
        ..refund()
    };
    for tool in [vault(), strict] {
        world.tools.push(operator_tool(tool));
    }
    world.start();
    start_as(&mut world, "look", false);
    world.report("look", done(json!({ "token": SECRET })));
    assert_eq!(world.view().failure.unwrap().code, "invalid_args");
    assert!(shown(&world).contains("/token"));
    check_hidden(&world);
}

/// S2-R9: the results of all items are shown at the step, without hidden parts.
#[test]
fn the_result_of_a_fan_out_shows_no_hidden_part() {
    let mut world = World::of(
        "  - id: look\n    tool: vault.read\n    for_each: [1, 2]\n    args: { n: $item }\n",
    );
    world.tools.push(operator_tool(vault()));
    world.start();
    for step in ["look-0", "look-1"] {
        start_as(&mut world, step, false);
        world.report(step, done(json!({ "token": SECRET })));
    }
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.values["look"][1]["token"], json!(SECRET));
    check_hidden(&world);
}

/// S2-R2: a result may repeat a hidden argument. The collected results and a late one are hidden as a whole.
#[test]
fn a_repeated_argument_is_hidden_in_collected_results() {
    let mut world = World::of(
        "  - id: look\n    tool: vault.read\n    for_each: [1, 2]\n    args: { token: \"{{ 'tok-' + '4711' }}\" }\n",
    );
    world.tools.push(operator_tool(ToolSpec {
        redaction: Some(vec!["args.token".to_owned()]),
        ..vault()
    }));
    world.start();
    let repeated = json!({ "summary": format!("paid with {SECRET}") });
    for step in ["look-0", "look-1"] {
        start_as(&mut world, step, false);
        let dispatch = world.dispatch(step);
        world.report(step, done(repeated.clone()));
        world.report_as(step, dispatch - 1, done(repeated.clone()));
    }
    assert_eq!(world.status(), RunStatus::Completed);
    assert_eq!(world.values["look"][1], repeated);
    check_hidden(&world);
}

/// S2-R2: the error of an expression names kinds, and no values.
#[test]
fn an_error_of_an_expression_shows_no_value() {
    let mut world = World::of(
        "  - id: look\n    tool: vault.read\n  - id: after\n    tool: log\n    args: { message: \"{{ $look.token + 1 }}\" }\n",
    );
    world.tools.push(operator_tool(vault()));
    world.start();
    start_as(&mut world, "look", false);
    world.report("look", done(json!({ "token": SECRET })));
    assert_eq!(world.status(), RunStatus::Failed);
    let message = world.view().failure.unwrap().message;
    assert!(message.contains("cannot be used with"), "{message}");
    check_hidden(&world);
}
