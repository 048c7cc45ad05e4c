//! Tools of the registry: their results are samples of their schemas, and their risks open gates.

use std::sync::Arc;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::{Outgoing, RehearsedRun};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use serde_json::{Value, json};

use super::super::setup::WorkspaceFacts;
use super::{contact, facts, rehearse, setup_in};

/// The registry has this tool.
fn registered(tool: &Value) -> WorkspaceFacts {
    let mut spec = json!({ "name": "crm.score", "risk": "low", "idempotent": true });
    let fields = spec.as_object_mut().unwrap();
    fields.extend(tool.as_object().unwrap().clone());
    let entry = json!({ "workspace": "acme", "version": 1, "deleted": false, "spec": spec });
    let mut facts = facts();
    facts.tools = vec![Arc::new(serde_json::from_value(entry).unwrap())];
    facts
}

fn run_with(tool: &Value, agent: &str, script: &str) -> Result<RehearsedRun, String> {
    let setup = setup_in(registered(tool), agent, script);
    let run = rehearse(&setup, &contact("ada"), &|| true)?;
    Ok(run.expect("it may continue"))
}

const SCORE: &str = r#"
agent: score
steps:
  - { id: score, tool: crm.score, args: { n: 1 } }
  - { id: say, tool: log, args: { message: "$score" } }
"#;

fn said(run: &RehearsedRun) -> Value {
    let said = run.outgoing().find_map(|it| match it {
        Outgoing::Call { tool, args } if tool == "log" => Some(args["message"].clone()),
        Outgoing::Call { .. }
        | Outgoing::Request { .. }
        | Outgoing::ApprovedInAdvance { .. }
        | Outgoing::Escalation { .. }
        | Outgoing::ChildRun { .. } => None,
    });
    said.unwrap()
}

/// #18: tools are answered from their schema.
#[test]
fn a_registered_tool_returns_a_sample_of_its_schema() {
    let schema = json!({
        "type": "object", "required": ["score", "grade"],
        "properties": {
            "score": { "type": "integer", "minimum": 3 },
            "grade": { "enum": ["A", "B"] },
            "notes": { "type": "array", "items": { "type": "string" } },
        },
    });
    let run = run_with(&json!({ "result_schema": schema }), SCORE, "").unwrap();
    assert_eq!(run.status, RunStatus::Completed, "{}", run.message);
    let sample = json!({ "score": 3, "grade": "A", "notes": [] });
    assert_eq!(said(&run), sample);
    let scripted = "tools: [{ tool: crm.score, result: { score: 9 } }]";
    let schema = json!({ "type": "object" });
    let run = run_with(&json!({ "result_schema": schema }), SCORE, scripted).unwrap();
    assert_eq!(said(&run), json!({ "score": 9 }), "a rule comes first");
    let run = run_with(&json!({}), SCORE, "").unwrap();
    assert_eq!(said(&run), json!({ "n": 1 }), "its arguments");
}

#[test]
fn a_sample_that_does_not_fit_its_schema_is_refused() {
    let schema = json!({
        "type": "object", "properties": { "id": { "type": "string", "pattern": "^o_[0-9]+$" } },
    });
    let tool = json!({ "result_schema": schema });
    let refused = run_with(&tool, SCORE, "").unwrap_err();
    let words = "`tools` needs a `result` for crm.score: a sample of its schema does not fit it (";
    assert!(refused.starts_with(words), "{refused}");
    let given = "tools: [{ tool: crm.score, result: { id: o_7 } }]";
    let run = run_with(&tool, SCORE, given).unwrap();
    assert_eq!(said(&run), json!({ "id": "o_7" }));
}

/// S2-R2: a tool with the risk `high` asks before each call.
#[test]
fn the_risk_of_a_registered_tool_opens_its_gate() {
    let run = |script: &str| run_with(&json!({ "risk": "high" }), SCORE, script).unwrap();
    let approved = run("");
    assert_eq!(
        approved.status,
        RunStatus::Completed,
        "{}",
        approved.message
    );
    let outgoing: Vec<_> = approved.outgoing().collect();
    let Outgoing::Request { request, .. } = outgoing[0] else {
        panic!("{outgoing:?}");
    };
    assert_eq!(*request, HoldKind::Approval);
    assert!(matches!(outgoing[1], Outgoing::Call { tool, .. } if tool == "crm.score"));
    assert_eq!(approved.requests.get("@owners"), Some(&1));
    let mut kinds = approved.timeline.iter().map(|event| event.kind);
    assert!(kinds.any(|kind| kind == EventType::RunAwaitingApproval));
    let rejected = run("people: [{ kind: approval, do: reject }]");
    assert!(!rejected.calls.contains_key("crm.score"), "{rejected:?}");
    let low = run_with(&json!({}), SCORE, "").unwrap();
    assert!(low.requests.is_empty(), "a low risk asks no one");
}
