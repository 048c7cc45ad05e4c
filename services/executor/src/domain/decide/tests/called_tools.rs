//! What counted for the tool of a step when it was called (S2-R2, S2-R15).

use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::StepView;
use holdpoint_contracts::tool::{Risk, ToolSpec};
use serde_json::{Value, json};

use super::tools::{operator_tool, spec};
use super::world::{World, done};
use crate::domain::CalledTool;
use crate::domain::stored_steps::StoredSteps;

const CALLS: &str = "  - id: pay
    tool: payments.refund
    args: { n: 1 }
  - id: note
    tool: log
    args: { message: done }
  - id: find
    tool: crm.find
    args: {}
";

fn with_header(risk: Risk) -> ToolSpec {
    let mut spec = spec(risk);
    if let Some(call) = &mut spec.http {
        let value = "Bearer {{ secret.SHOP_KEY }}".to_owned();
        call.headers.insert("Authorization".to_owned(), value);
        let value = "{{ secret.CRM_KEY }}".to_owned();
        call.headers.insert("X-Key".to_owned(), value);
    }
    spec
}

fn called(world: &World, step: &str) -> CalledTool {
    *world.rows[step].called.clone().expect("a call")
}

fn views(world: &World) -> Vec<StepView> {
    let stored = StoredSteps {
        rows: world.rows.values().cloned().collect(),
        ..StoredSteps::default()
    };
    let plan = world.plan_of(world.run());
    world.run().step_views(&plan.plan, stored)
}

/// S2-R2, S2-R15: the row of a step keeps what the registry said when people were asked, and when it was called.
#[test]
fn a_step_keeps_the_risk_of_its_call() {
    let mut world = World::of(CALLS);
    world.tools.push(operator_tool(with_header(Risk::High)));
    world.start();
    let asked = CalledTool {
        risk: Risk::High,
        waiting_confirm: true,
        app: "pay.example".to_owned(),
        credential_id: "CRM_KEY,SHOP_KEY".to_owned(),
        redaction: Vec::new(),
    };
    assert_eq!(called(&world, "pay"), asked);
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(hold, HoldOutcome::Approved, Value::Null);
    world.report("pay", done(json!({})));
    world.tools[0].spec.risk = Risk::Low;
    world.report("note", done(json!({})));
    assert_eq!(
        called(&world, "pay"),
        asked,
        "the registry of now does not count"
    );
    let note = called(&world, "note");
    assert_eq!(
        (note.risk, note.waiting_confirm, note.app.as_str()),
        (Risk::Medium, false, "")
    );
    let find = called(&world, "find");
    assert_eq!((find.risk, find.app.as_str()), (Risk::Medium, "crm"));
    let views = views(&world);
    let pay = &views[0];
    assert_eq!((pay.risk, pay.waiting_confirm), (Some(Risk::High), true));
    assert_eq!(pay.app.as_deref(), Some("pay.example"));
    assert_eq!(pay.credential_id.as_deref(), Some("CRM_KEY,SHOP_KEY"));
    assert_eq!(views[1].credential_id, None);
}

/// S2-R2: a risk that a worker states at the start counts in the row, too.
#[test]
fn a_risk_of_a_worker_is_kept() {
    let mut world = World::started("  - id: find\n    tool: crm.find\n    args: {}\n");
    assert_eq!(called(&world, "find").risk, Risk::Medium);
    super::approvals::start_as(&mut world, "find", true);
    let find = called(&world, "find");
    assert_eq!((find.risk, find.waiting_confirm), (Risk::High, true));
}
