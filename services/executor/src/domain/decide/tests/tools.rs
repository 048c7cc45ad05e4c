//! Registered tools at the one place that dispatches.

use holdpoint_contracts::tool::{HttpCall, Risk, ToolSpec};

use serde_json::json;

use super::world::{World, acme, done, owner};
use crate::domain::commands::put_tool::put_tool;
use crate::domain::decision::{Outcome, Undecided};
use crate::domain::{Lookup, Need, Refusal, Tool, ToolPut};

const CALL: &str = "  - id: pay\n    tool: payments.refund\n    args: { idempotent: true, n: 1 }\n";

pub(super) fn spec(risk: Risk) -> ToolSpec {
    ToolSpec {
        http: Some(HttpCall {
            method: "POST".to_owned(),
            url: "https://pay.example/refund".to_owned(),
            headers: [("x-shop".to_owned(), "1".to_owned())].into(),
        }),
        ..ToolSpec::new("payments.refund".parse().unwrap(), risk)
    }
}

pub(super) fn operator_tool(spec: ToolSpec) -> Tool {
    Tool {
        workspace: acme(),
        spec,
        version: 1,
        deleted: false,
        seen: 0,
        changes: Vec::new(),
        offers: Vec::new(),
        unchanged: 0,
        risk_revision: 0,
    }
}

pub(super) fn with(tool: ToolSpec, deleted: bool) -> World {
    let mut world = World::of(CALL);
    world.tools.push(Tool {
        deleted,
        ..operator_tool(tool)
    });
    world.start();
    world
}

/// S2-R2, API "Tools": the registration decides, not the arguments; the dispatch says whom to call.
#[test]
fn a_registered_tool_decides_whether_it_may_run_twice() {
    let world = with(spec(Risk::Medium), false);
    let out = &world.handed[0];
    assert!(!out.idempotent);
    assert_eq!(out.http.as_ref().unwrap().url, "https://pay.example/refund");
    let unknown = World::started(CALL);
    assert!(unknown.handed[0].idempotent, "an own worker's tool");
    assert_eq!(unknown.handed[0].http, None);
}

#[test]
fn a_deleted_tool_fails_the_step() {
    let world = with(spec(Risk::Low), true);
    assert_eq!(world.view().failure.unwrap().code, "tool_deleted");
}

fn call(spec: &mut ToolSpec) -> &mut HttpCall {
    spec.http.as_mut().unwrap()
}

fn put(change: impl FnOnce(&mut ToolSpec)) -> Option<Refusal> {
    let mut spec = spec(Risk::Low);
    change(&mut spec);
    let put = ToolPut {
        spec,
        seen: None,
        by: owner(),
    };
    let nothing = |_: &Need| Lookup::Missing;
    match put_tool(
        None,
        &acme(),
        &put,
        &nothing,
        "2026-03-02T09:00:00Z".parse().unwrap(),
    ) {
        Err(Undecided::Refused(refusal)) => Some(refusal),
        Ok(Outcome::Decided(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// API "Tools"
#[test]
fn what_cannot_be_called_is_not_registered() {
    assert_eq!(put(|_| {}), None);
    let reserved = put(|it| it.name = "send_email".parse().unwrap()).unwrap();
    assert_eq!(
        (reserved.problem().status, reserved.problem().code.as_str()),
        (409, "tool_reserved")
    );
    let wrong: [fn(&mut ToolSpec); 11] = [
        |it| call(it).url = "ftp://pay.example".to_owned(),
        |it| call(it).url = "https://".to_owned(),
        |it| call(it).url = "https://pay.example:/refund".to_owned(),
        |it| call(it).url = "https://pay.example/a b".to_owned(),
        |it| call(it).method = "post".to_owned(),
        |it| it.args_schema = Some(json!([1])),
        |it| it.args_schema = Some(json!({ "type": "objekt" })),
        |it| it.result_schema = Some(json!({ "$ref": "#" })),
        |it| call(it).headers = [("bad name".to_owned(), "1".to_owned())].into(),
        |it| call(it).headers = [("x".to_owned(), "1\r\nhost: y".to_owned())].into(),
        |it| call(it).headers = [("x".to_owned(), "a".repeat(64 * 1024))].into(),
    ];
    for change in wrong {
        assert_eq!(put(change).unwrap().problem().status, 422);
    }
}

/// C-9, Gate: arguments are checked before dispatch.
#[test]
fn arguments_that_do_not_fit_the_schema_are_not_dispatched() {
    let mut strict = spec(Risk::Medium);
    strict.args_schema = Some(json!({ "properties": { "n": { "maximum": 0 } } }));
    let world = with(strict, false);
    assert!(world.handed.is_empty());
    let failure = world.view().failure.unwrap();
    assert_eq!(failure.code, "invalid_args");
    assert!(failure.message.contains("`/n`"), "{}", failure.message);
}

/// C-9, Gate: results are checked after the call.
#[test]
fn a_result_that_does_not_fit_the_schema_fails_the_step() {
    let mut strict = spec(Risk::Medium);
    strict.result_schema = Some(json!({ "required": ["id"] }));
    for (data, expected) in [
        (json!({ "id": 1 }), None),
        (json!({}), Some("invalid_result")),
    ] {
        let mut world = with(strict.clone(), false);
        world.report("pay", done(data));
        let code = world.view().failure.map(|failure| failure.code);
        assert_eq!(code.as_deref(), expected);
    }
}
