//! What nodes register and what operators say of it, at the one place that dispatches (S2-R2).

mod limits;

use holdpoint_contracts::run::StepStatus;
use holdpoint_contracts::tool::{RegisteredTool, Risk, ToolSpec};
use serde_json::{Value, json};

use super::approvals::start_as;
use super::tools::spec;
use super::world::{World, acme, done, owner};
use crate::domain::commands::put_tool::{delete_tool, put_tool};
use crate::domain::commands::register_tools::{Registration, register_tool};
use crate::domain::decision::{Outcome, Undecided};
use crate::domain::{
    Aggregate, DeliveredStep, Fact, Key, Lookup, Need, Refusal, RunInput, Tool, ToolEntry, ToolPut,
};

const CALL: &str = "  - id: pay\n    tool: payments.refund\n    args: { n: 1 }\n";

/// The registry of one tool: the entry of nodes and that of the operators of one workspace.
#[derive(Default)]
struct Registry {
    nodes: Option<Tool>,
    operator: Option<Tool>,
    count: u64,
}

fn now() -> chrono::DateTime<chrono::Utc> {
    "2026-03-02T09:00:00Z".parse().unwrap()
}

fn system_node(name: &str) -> (holdpoint_ids::Workspace, holdpoint_ids::NodeName) {
    ("sys".parse().unwrap(), name.parse().unwrap())
}

fn offer(risk: Risk) -> ToolSpec {
    ToolSpec {
        http: None,
        ..spec(risk)
    }
}

fn with_schema(risk: Risk, schema: Value) -> ToolSpec {
    ToolSpec {
        args_schema: Some(schema),
        ..offer(risk)
    }
}

impl Registry {
    fn lookup(&self, need: &Need) -> Lookup {
        match need {
            Need::State(Key::Tool(..)) => match &self.nodes {
                Some(tool) => Lookup::Found(Fact::Tool(std::sync::Arc::new(tool.clone()))),
                None => Lookup::Missing,
            },
            Need::ToolCount(_) => Lookup::Found(Fact::Count(self.count)),
            _ => Lookup::Missing,
        }
    }

    fn register(&mut self, node: &str, spec: &ToolSpec) -> Result<RegisteredTool, Refusal> {
        let (workspace, node) = system_node(node);
        let registration = Registration {
            workspace: &workspace,
            node: &node,
            spec,
        };
        let lookup = |need: &Need| self.lookup(need);
        let reply = match register_tool(self.nodes.as_ref(), registration, &lookup, now()) {
            Ok(Outcome::Unchanged(reply)) => reply,
            Ok(Outcome::Decided(decided)) => {
                let Aggregate::Tool(tool) = decided.state else {
                    panic!("a tool");
                };
                self.nodes = Some(tool);
                if let [(Need::ToolCount(_), Fact::Count(raised))] = decided.facts[..] {
                    self.count = raised;
                }
                decided.reply
            }
            Err(Undecided::Refused(refusal)) => return Err(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        };
        Ok(*reply.try_as_registered_ref().unwrap())
    }

    /// An operator puts what it likes, after a look at the tool.
    fn put(&mut self, spec: ToolSpec) {
        let seen = self.nodes.as_ref().map(Tool::revision);
        self.put_seen(spec, seen).unwrap();
    }

    fn put_seen(&mut self, spec: ToolSpec, seen: Option<u64>) -> Result<(), Refusal> {
        let by = owner();
        let put = ToolPut { spec, seen, by };
        let lookup = |need: &Need| self.lookup(need);
        match put_tool(self.operator.as_ref(), &acme(), &put, &lookup, now()) {
            Ok(Outcome::Unchanged(_)) => Ok(()),
            Ok(Outcome::Decided(decided)) => {
                self.operator = decided.state.try_as_tool();
                Ok(())
            }
            Err(Undecided::Refused(refusal)) => Err(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        }
    }

    fn delete(&mut self) {
        let name = "payments.refund".parse().unwrap();
        let decided = delete_tool(self.operator.as_ref(), &name, &owner(), now());
        if let Ok(Outcome::Decided(decided)) = decided {
            self.operator = decided.state.try_as_tool();
        }
    }

    fn entry(&self) -> ToolEntry {
        let mut entry = ToolEntry::default();
        for tool in self.nodes.iter().chain(&self.operator) {
            entry.add(std::sync::Arc::new(tool.clone()));
        }
        entry
    }

    /// A run on this registry.
    fn started(&self) -> World {
        let mut world = World::of(CALL);
        world.tools.extend(self.nodes.clone());
        world.tools.extend(self.operator.clone());
        world.start();
        world
    }
}

/// S2-R2, S2-R3: the gate asks before a worker receives the step.
#[test]
fn a_risk_that_a_node_has_registered_counts_before_the_first_dispatch() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::High)).unwrap();
    let world = registry.started();
    assert!(world.handed.is_empty());
    assert_eq!(world.phase("pay").status(), StepStatus::WaitingConfirm);
}

fn safe() -> ToolSpec {
    ToolSpec {
        idempotent: true,
        ..offer(Risk::Medium)
    }
}

/// Whether the step is granted as one that may run twice, to a worker that says so or not.
fn granted_as_idempotent(mut world: World, is_idempotent: bool) -> bool {
    start(&mut world, is_idempotent);
    let granted = world.phase("pay").try_as_granted_ref().unwrap();
    granted.handed.idempotent
}

fn start(world: &mut World, is_idempotent: bool) {
    world.give(RunInput::StartStep(DeliveredStep {
        node: "node-a".parse().unwrap(),
        step: "pay".to_owned(),
        dispatch: world.dispatch("pay"),
        delivery: 1,
        without_lease: false,
        is_high_risk: false,
        is_idempotent,
    }));
}

#[test]
fn idempotent_counts_only_if_every_node_says_so() {
    let mut registry = Registry::default();
    registry.register("one", &safe()).unwrap();
    assert!(granted_as_idempotent(registry.started(), true));
    registry.register("two", &offer(Risk::Medium)).unwrap();
    assert!(!granted_as_idempotent(registry.started(), true));
    assert_eq!(
        registry.register("three", &safe()),
        Ok(RegisteredTool::Differs)
    );
    assert!(!registry.entry().is_idempotent());
}

/// The tool of one worker is not idempotent because nodes with another one have said so.
#[test]
fn the_promise_of_other_nodes_does_not_count_for_a_worker() {
    let mut registry = Registry::default();
    registry.register("one", &safe()).unwrap();
    assert!(
        !registry.started().handed[0].idempotent,
        "no worker may start it unasked"
    );
    assert!(!granted_as_idempotent(registry.started(), false));
    registry.put(safe());
    assert!(registry.started().handed[0].idempotent, "of the operator");
    assert!(granted_as_idempotent(registry.started(), false));
}

/// The step was dispatched before the first node registered its tool.
#[test]
fn a_queued_step_keeps_the_promise_of_its_worker() {
    let mut registry = Registry::default();
    for (spec, expected) in [(safe(), true), (offer(Risk::Medium), false)] {
        let mut world = World::started(CALL);
        registry.register("one", &spec).unwrap();
        world.tools.extend(registry.nodes.clone());
        assert_eq!(granted_as_idempotent(world, true), expected);
    }
}

/// The operator has promised it for the definitions until then.
#[test]
fn a_new_definition_without_the_promise_counts_as_new() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::Medium)).unwrap();
    registry.put(safe());
    registry.register("two", &offer(Risk::Medium)).unwrap();
    assert!(registry.entry().is_idempotent(), "it is known");
    registry.register("three", &offer(Risk::Low)).unwrap();
    assert!(!registry.entry().is_idempotent());
}

/// S2-R2: an operator cannot lower the risk of a definition that the operator has not seen.
#[test]
fn an_operator_lowers_only_what_it_has_seen() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::Medium)).unwrap();
    let earlier = registry.nodes.as_ref().map(Tool::revision);
    registry.register("two", &offer(Risk::High)).unwrap();
    let now = registry.nodes.as_ref().map(Tool::revision);
    // Neither a lower risk nor a promise: no look is needed, and none is recorded.
    assert_eq!(registry.put_seen(offer(Risk::High), None), Ok(()));
    for spec in [offer(Risk::Low), offer(Risk::Medium)] {
        for seen in [None, Some(0), earlier, Some(99)] {
            let refusal = registry.put_seen(spec.clone(), seen).unwrap_err();
            assert_eq!(
                (refusal.problem().status, refusal.problem().code.as_str()),
                (409, "tool_changed")
            );
        }
    }
    let promised = ToolSpec {
        idempotent: true,
        ..offer(Risk::High)
    };
    assert!(registry.put_seen(promised, None).is_err());
    assert_eq!(registry.entry().risk(), Risk::High);
    assert_eq!(registry.put_seen(offer(Risk::Low), now), Ok(()));
    assert_eq!(registry.entry().risk(), Risk::Low);
    // Nothing has changed since.
    assert_eq!(registry.put_seen(safe(), None), Ok(()));
    assert!(registry.entry().is_idempotent());
    registry
        .register("three", &with_schema(Risk::High, json!({})))
        .unwrap();
    assert!(registry.put_seen(safe(), None).is_err());
}

/// S2-R2: a node that lowers a risk, goes away or comes back changes nothing.
#[test]
fn only_an_operator_lowers_a_risk() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::Low)).unwrap();
    registry.register("two", &offer(Risk::High)).unwrap();
    let raised = registry.entry().revision();
    for node in ["one", "three"] {
        assert_eq!(
            registry.register(node, &offer(Risk::Low)),
            Ok(RegisteredTool::Differs)
        );
    }
    assert_eq!(registry.entry().risk(), Risk::High);
    assert_eq!(
        registry.entry().revision(),
        raised,
        "nothing that counts has changed"
    );

    registry.put(offer(Risk::Low));
    assert_eq!(registry.entry().risk(), Risk::Low);
    assert!(
        registry.entry().revision() > raised,
        "another call for an approval"
    );
    let changes = &registry.operator.as_ref().unwrap().changes;
    assert_eq!((&changes[0].by, changes[0].at), (&owner(), now()));
    // A node starts again with a definition that the operator has seen.
    registry.register("four", &offer(Risk::High)).unwrap();
    assert_eq!(registry.entry().risk(), Risk::Low);
    // A new version of the tool.
    let newer = ToolSpec {
        version: Some("2".to_owned()),
        ..offer(Risk::High)
    };
    registry.register("five", &newer).unwrap();
    assert_eq!(registry.entry().risk(), Risk::High);
    registry.delete();
    assert_eq!(registry.entry().risk(), Risk::High);
}

#[test]
fn only_an_operator_replaces_a_schema() {
    let (first, second) = (json!({ "required": ["a"] }), json!({ "required": ["b"] }));
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::Medium)).unwrap();
    registry
        .register("one", &with_schema(Risk::Medium, first.clone()))
        .unwrap();
    assert_eq!(registry.entry().args_schema(), Some(&first));
    let differs = registry.register("two", &with_schema(Risk::Medium, second.clone()));
    assert_eq!(differs, Ok(RegisteredTool::Differs));
    assert_eq!(registry.entry().args_schema(), Some(&first));
    let failure = registry.started().view().failure.unwrap();
    assert_eq!(failure.code, "invalid_args");
    let before = registry.entry().version();
    registry.put(with_schema(Risk::Medium, second.clone()));
    assert_eq!(registry.entry().args_schema(), Some(&second));
    assert_ne!(registry.entry().version(), before);
}

#[test]
fn results_of_a_workers_tool_are_checked() {
    let mut registry = Registry::default();
    let strict = ToolSpec {
        result_schema: Some(json!({ "required": ["id"] })),
        ..offer(Risk::Medium)
    };
    registry.register("one", &strict).unwrap();
    let mut world = registry.started();
    world.report("pay", done(json!({})));
    assert_eq!(world.view().failure.unwrap().code, "invalid_result");
}

/// The tool of an operator is called over HTTP, whatever nodes offer. They may raise its risk only.
#[test]
fn a_node_cannot_take_over_the_tool_of_an_operator() {
    let mut registry = Registry::default();
    registry.put(spec(Risk::Low));
    let hostile = ToolSpec {
        idempotent: true,
        ..with_schema(Risk::Low, json!({ "required": ["nothing"] }))
    };
    registry.register("hostile", &hostile).unwrap();
    let entry = registry.entry();
    assert!(entry.http().is_some() && !entry.is_idempotent());
    assert_eq!((entry.risk(), entry.args_schema()), (Risk::Low, None));
    registry.register("hostile", &offer(Risk::High)).unwrap();
    assert_eq!(registry.entry().risk(), Risk::High);
    registry.delete();
    assert!(registry.entry().is_deleted());
}

#[test]
fn hostile_registrations_are_refused() {
    let mut registry = Registry::default();
    let named = |name: &str| ToolSpec {
        name: name.parse().unwrap(),
        ..offer(Risk::Low)
    };
    let huge = json!({ "description": "a".repeat(20_000) });
    for (spec, status) in [
        (named("log"), 409),
        (spec(Risk::Low), 422),
        (with_schema(Risk::Low, huge), 422),
        (with_schema(Risk::Low, json!({ "$ref": "#" })), 422),
        (
            with_schema(Risk::Low, json!({ "pattern": "(a+)+$(?=b)" })),
            422,
        ),
        (
            with_schema(Risk::Low, json!({ "pattern": "(x{1000}){1000}" })),
            422,
        ),
    ] {
        let refusal = registry.register("hostile", &spec).unwrap_err();
        assert_eq!(refusal.problem().status, status, "{refusal}");
    }
    // The count is loaded once for a batch, so each new tool raises it for the others.
    registry.count = 9_999;
    registry.register("hostile", &offer(Risk::Low)).unwrap();
    registry.nodes = None;
    let refusal = registry.register("hostile", &offer(Risk::Low)).unwrap_err();
    assert_eq!(refusal.problem().code, "too_many_tools");
    registry.count = 0;
    for number in 0..500 {
        let version = Some(number.to_string());
        let other = ToolSpec {
            version,
            ..offer(Risk::Low)
        };
        registry
            .register(&format!("node-{number}"), &other)
            .unwrap();
    }
    assert_eq!(registry.nodes.unwrap().offers.len(), 4);
}

/// A node starts again and again with the same tools.
#[test]
fn a_restart_of_a_node_voids_no_approval() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::High)).unwrap();
    let version = registry.entry().version();
    for number in 0..50 {
        let agreed = registry.register(&format!("node-{number}"), &offer(Risk::High));
        assert_eq!(agreed, Ok(RegisteredTool::Agreed));
    }
    assert_eq!(registry.entry().version(), version);
    assert_eq!(registry.nodes.unwrap().offers[0].nodes.len(), 20);
}

/// S2-R3: a risk that is registered after the dispatch stops the start.
#[test]
fn a_step_that_was_dispatched_before_the_registration_asks_at_its_start() {
    let mut world = World::started(CALL);
    assert_eq!(world.handed.len(), 1);
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::High)).unwrap();
    world.tools.extend(registry.nodes);
    start_as(&mut world, "pay", false);
    assert_eq!(world.phase("pay").status(), StepStatus::WaitingConfirm);
}

/// The operator has lowered a risk that the worker still states.
#[test]
fn a_lowered_risk_counts_against_the_word_of_the_worker() {
    let mut registry = Registry::default();
    registry.register("one", &offer(Risk::High)).unwrap();
    registry.put(offer(Risk::Medium));
    let mut world = registry.started();
    start_as(&mut world, "pay", true);
    assert_eq!(world.phase("pay").status(), StepStatus::InProgress);
}
