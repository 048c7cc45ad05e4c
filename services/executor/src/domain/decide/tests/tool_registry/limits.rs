//! The timeout, the retries and the secrets of a tool.

use holdpoint_contracts::hold::HoldOutcome;
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_contracts::tool::{RegisteredTool, Risk, ToolRetry, ToolSpec};
use serde_json::Value;

use super::super::world::{World, broken};
use super::{CALL, Registry, offer, safe, start};
use crate::domain::Tool;

fn limited() -> ToolSpec {
    ToolSpec {
        timeout: Some(5_000),
        retry: Some(ToolRetry {
            attempts: 5,
            backoff: 2_000,
            max_backoff: None,
            on: vec!["http_status".to_owned()],
        }),
        ..safe()
    }
}

/// The calls of the step if each of them fails.
fn failed_calls(mut world: World, is_idempotent: bool) -> usize {
    while world.status() != RunStatus::Failed {
        start(&mut world, is_idempotent);
        world.report("pay", broken());
        world.fire_next();
    }
    world.handed.len()
}

/// S2-R2, S2-R15: the registry states the timeout and the retries of a tool.
#[test]
fn the_limits_of_a_tool_count_for_steps_that_state_none() {
    let mut registry = Registry::default();
    registry.register("one", &limited()).unwrap();
    let world = registry.started();
    assert_eq!(world.handed[0].timeout_ms, Some(5_000));
    assert_eq!(failed_calls(world, true), 5);
    // Only its author lets a call be repeated that may do harm twice.
    assert_eq!(failed_calls(registry.started(), false), 1);
    let mut own = World::of(&format!(
        "{CALL}    timeout: 9s\n    retry: {{ attempts: 2 }}\n"
    ));
    own.tools.extend(registry.nodes.clone());
    own.start();
    assert_eq!(own.handed[0].timeout_ms, Some(9_000));
    assert_eq!(failed_calls(own, true), 2);
    // The newest definition counts, and an operator replaces it.
    let slower = ToolSpec {
        timeout: Some(60_000),
        ..limited()
    };
    registry.register("two", &slower).unwrap();
    assert_eq!(registry.entry().timeout_ms(), Some(60_000));
    registry.register("three", &safe()).unwrap();
    assert_eq!(registry.entry().timeout_ms(), None);
    // A restart changes nothing. The node differs until an operator decides.
    let differs = registry.register("one", &limited());
    assert_eq!(differs, Ok(RegisteredTool::Differs));
    assert_eq!(registry.entry().timeout_ms(), None);
    registry.put(slower);
    assert_eq!(registry.started().handed[0].timeout_ms, Some(60_000));
    let change = &registry.operator.as_ref().unwrap().changes[0].change;
    assert_eq!(change, "registered with risk medium, idempotent true");
    registry.put(limited());
    let change = &registry.operator.as_ref().unwrap().changes[0].change;
    assert_eq!(change, "timeout replaced");
}

/// S2-R4: an approval covers the secrets that the tool uses.
#[test]
fn a_call_with_another_secret_is_another_call() {
    let with_secret = |name: &str| ToolSpec {
        secrets: vec![name.to_owned()],
        ..offer(Risk::High)
    };
    let mut registry = Registry::default();
    registry.register("one", &with_secret("TEST_KEY")).unwrap();
    let before = registry.entry().version();
    registry.register("two", &with_secret("TEST_KEY")).unwrap();
    assert_eq!(registry.entry().version(), before);
    registry.register("two", &with_secret("LIVE_KEY")).unwrap();
    let both = registry.entry().version();
    assert_ne!(both, before);
    let name = "payments.refund".parse().unwrap();
    let secrets = |registry: &Registry| registry.entry().view(&name).tool.secrets;
    assert_eq!(secrets(&registry), ["LIVE_KEY", "TEST_KEY"]);
    // Both nodes take calls, and either may restart.
    let agreed = registry.register("one", &with_secret("TEST_KEY"));
    assert_eq!(agreed, Ok(RegisteredTool::Agreed));
    assert_eq!(registry.entry().version(), both);
    // An operator sends back what is shown. The secrets are still those of the nodes.
    registry.put(with_secret("LIVE_KEY"));
    let operator = registry.operator.as_ref().unwrap();
    assert!(operator.spec.secrets.is_empty());
    assert_eq!(secrets(&registry), ["LIVE_KEY", "TEST_KEY"]);
}

/// S2-R2: a step that was dispatched before the first registration of its tool gets the limits.
#[test]
fn a_first_registration_limits_a_dispatched_step() {
    let mut world = World::started(CALL);
    assert_eq!(world.handed[0].timeout_ms, None);
    let mut registry = Registry::default();
    registry.register("one", &limited()).unwrap();
    world.tools.extend(registry.nodes);
    start(&mut world, true);
    assert_eq!(world.handed[1].timeout_ms, Some(5_000));
    assert_eq!(failed_calls(world, true), 6, "the first one never started");
}

/// S2-R4: an approval without secrets does not cover a call with one.
#[test]
fn an_approved_step_asks_again_if_its_tool_is_registered_with_a_secret() {
    let mut world = World::started(&format!("{CALL}    approval: {{}}\n"));
    let hold = world.run().people().next().unwrap().1.id;
    world.close_as(hold, HoldOutcome::Approved, Value::Null);
    assert_eq!(world.handed.len(), 1);
    let mut registry = Registry::default();
    registry
        .register("one", &with_secrets(&["LIVE_KEY"]))
        .unwrap();
    world.tools.extend(registry.nodes);
    start(&mut world, false);
    assert_eq!(world.phase("pay").status(), StepStatus::WaitingConfirm);
}

fn with_limits(timeout: u64, change: impl FnOnce(&mut ToolRetry)) -> ToolSpec {
    let mut spec = limited();
    spec.timeout = Some(timeout);
    change(spec.retry.as_mut().unwrap());
    spec
}

fn with_secrets(names: &[&str]) -> ToolSpec {
    ToolSpec {
        secrets: names.iter().map(|name| (*name).to_owned()).collect(),
        ..offer(Risk::Low)
    }
}

#[test]
fn limits_and_secrets_are_checked() {
    let mut registry = Registry::default();
    for spec in [
        with_limits(0, |_| ()),
        with_limits(u64::MAX, |_| ()),
        with_limits(1_000, |it| it.attempts = 101),
        with_limits(1_000, |it| it.backoff = u64::MAX),
        with_limits(1_000, |it| it.max_backoff = Some(1)),
        with_limits(1_000, |it| it.on = vec![String::new()]),
        with_secrets(&["B", "A"]),
        with_secrets(&["A", "A"]),
        with_secrets(&["a key"]),
    ] {
        let refusal = registry.register("hostile", &spec).unwrap_err();
        assert_eq!(refusal.problem().status, 422, "{refusal}");
    }
}

fn hiding(paths: &[&str]) -> ToolSpec {
    ToolSpec {
        redaction: Some(paths.iter().map(|&path| path.to_owned()).collect()),
        ..offer(Risk::Low)
    }
}

/// S2-R2: nodes may hide more, and only an operator that has seen it shows a part again. Each change is a new version.
#[test]
fn only_an_operator_shows_a_hidden_part() {
    let mut registry = Registry::default();
    registry.register("one", &hiding(&["args.key"])).unwrap();
    let first = registry.entry().version();
    registry
        .register("two", &hiding(&["result.token"]))
        .unwrap();
    registry.register("three", &offer(Risk::Low)).unwrap();
    let entry = registry.entry();
    assert_eq!(entry.redaction(), ["args.key", "result.token"]);
    assert_ne!(entry.version(), first);
    let seen = registry.nodes.as_ref().map(Tool::revision);
    let refusal = registry.put_seen(hiding(&["args.key"]), None).unwrap_err();
    assert_eq!(refusal.problem().code, "tool_changed");
    // What the operator omits is that of the nodes.
    registry.put_seen(offer(Risk::Low), seen).unwrap();
    assert_eq!(registry.entry().redaction(), ["args.key", "result.token"]);
    registry.put_seen(hiding(&["args.key"]), seen).unwrap();
    assert_eq!(registry.entry().redaction(), ["args.key"]);
    registry.put_seen(hiding(&[]), seen).unwrap();
    assert!(registry.entry().redaction().is_empty());
    // A later definition hides again what the operator did not look at.
    registry.register("four", &hiding(&["args.pin"])).unwrap();
    let again = registry.entry().redaction();
    assert!(again.contains(&"args.pin".to_owned()), "{again:?}");
    for wrong in ["", "input.a", "args..a"] {
        let refusal = registry.register("five", &hiding(&[wrong])).unwrap_err();
        assert_eq!(refusal.problem().code, "invalid_body", "{wrong}");
    }
}

/// S2-R2: nodes that hide ever more parts hide all arguments in the end, so that the list has a bound.
#[test]
fn many_hidden_parts_are_hidden_as_a_whole() {
    let mut registry = Registry::default();
    for node in 0..4 {
        let paths: Vec<_> = (0..20).map(|n| format!("args.part_{node}_{n}")).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        registry
            .register(&format!("node-{node}"), &hiding(&paths))
            .unwrap();
    }
    let hidden = registry.entry().redaction();
    let whole = hidden.iter().any(|path| path == "args");
    assert!(whole && hidden.len() <= 50, "{hidden:?}");
    // The whole covers its parts, so this shows none.
    let seen = registry.nodes.as_ref().map(Tool::revision);
    registry.put_seen(hiding(&["args"]), seen).unwrap();
}
