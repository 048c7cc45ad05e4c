//! Policies of approval requests of runs: every doubt means no (S2-R4).

use holdpoint_contracts::handoff::{ApprovalRules, Decision, EscalationRules, PolicyRules};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, HoldState, Policy, SetHoldReply};
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::standing_approvals::{gated, standing};
use super::world::World;
use crate::domain::{PolicyInput, Request};

const DAY_MS: u64 = 86_400_000;

fn put(world: &mut World, name: &str, rules: PolicyRules) {
    let olga = world.caller("olga");
    world
        .policy_input(name, olga, PolicyInput::Put(rules))
        .unwrap();
}

fn delete(world: &mut World, name: &str) {
    let olga = world.caller("olga");
    world.policy_input(name, olga, PolicyInput::Delete).unwrap();
}

fn of_ops(need: u32, not_requester: bool) -> ApprovalRules {
    ApprovalRules {
        from: vec!["@role.ops".to_owned()],
        need,
        not_requester,
        decide_within: None,
        valid_for: None,
    }
}

fn two_of_ops() -> PolicyRules {
    PolicyRules::Approval(of_ops(2, true))
}

/// A gated call whose step names policies.
fn naming(names: &[&str]) -> HoldSpec {
    HoldSpec {
        policies: names.iter().map(|name| name.parse().unwrap()).collect(),
        ..gated(&json!({ "amount": 10 }))
    }
}

fn ask(world: &mut World, spec: HoldSpec) -> SetHoldReply {
    let state = HoldState::Open {
        spec: Box::new(spec),
        deadline: None,
    };
    world.desired_state(1, state)
}

fn request(world: &World) -> &Request {
    world.request.as_ref().unwrap()
}

/// The message of a request that was closed because of its policies.
fn refusal(world: &World) -> String {
    let closed = world.closed()[0];
    assert_eq!(closed.outcome, HoldOutcome::Cancelled);
    assert_eq!(closed.by, "service:handoff");
    assert_eq!(closed.data["code"], "policy_unavailable");
    closed.data["message"].as_str().unwrap().to_owned()
}

/// S2-R4: without its policy a call cannot be approved, not even by a standing approval.
#[test]
fn a_call_whose_policy_is_unknown_or_deleted_is_not_asked() {
    for is_deleted in [true, false] {
        let mut world = World::new();
        world.standing = vec![standing(1)];
        put(&mut world, "two-managers", two_of_ops());
        put(&mut world, "on-call", two_of_ops());
        if is_deleted {
            delete(&mut world, "two-managers");
        }
        let name = if is_deleted {
            "two-managers"
        } else {
            "two-mangers"
        };
        assert_eq!(ask(&mut world, naming(&[name])), SetHoldReply::Decided);
        let message = refusal(&world);
        let expected = format!("unknown policy `{name}`; expected one of `on-call`");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("`default-approval`"), "{message}");
        let late = world.decide_as("olga", Decision::approve(None));
        assert_eq!(late.unwrap_err().code, "already_decided");
        assert!(request(&world).progress.votes.is_empty());
        let actions: Vec<_> = world.history().into_iter().map(|(it, _)| it).collect();
        assert_eq!(actions, ["opened", "withdrawn"]);
    }
}

/// S2-R4: the same while the run is paused, so that a resume opens nothing.
#[test]
fn a_frozen_call_whose_policy_is_unknown_is_not_asked() {
    let mut world = World::new();
    let state = HoldState::Frozen {
        spec: Box::new(naming(&["gone"])),
        since: world.now,
        remaining_ms: Some(DAY_MS),
    };
    assert_eq!(world.desired_state(1, state), SetHoldReply::Decided);
    assert!(refusal(&world).starts_with("unknown policy `gone`"));
}

/// S2-R4: policies that contradict each other have no plain meaning.
#[test]
fn a_call_whose_policies_conflict_is_not_asked() {
    let rungs = |world: &mut World, name| {
        let rung = json!({ "after": "1h", "do": "notify" });
        let rules = EscalationRules {
            rungs: vec![serde_json::from_value(rung).unwrap()],
            stop_on: Vec::new(),
            calendar: None,
            acknowledged_for: None,
        };
        put(world, name, PolicyRules::Escalation(rules));
    };
    let mut world = World::new();
    put(&mut world, "a", two_of_ops());
    put(&mut world, "b", two_of_ops());
    ask(&mut world, naming(&["a", "b"]));
    assert!(refusal(&world).contains("`b` states who decides, and so does another policy"));
    let mut world = World::new();
    rungs(&mut world, "a");
    rungs(&mut world, "b");
    ask(&mut world, naming(&["a", "b"]));
    assert!(refusal(&world).contains("`b` states who is notified"));
}

/// S2-R4: of a step's own rule and its policy, the stricter one counts, and the policy states the deciders.
#[test]
fn the_stricter_of_a_step_and_its_policy_counts() {
    let strict = Policy {
        need: 3,
        not_requester: false,
    };
    let lax = Policy {
        need: 1,
        not_requester: true,
    };
    for (own, rules, need, not_requester) in [
        (strict, of_ops(2, true), 3, true),
        (lax, of_ops(2, false), 2, true),
        (Policy::default(), of_ops(2, false), 2, false),
    ] {
        let mut world = World::new();
        put(&mut world, "ops", PolicyRules::Approval(rules));
        let spec = HoldSpec {
            policy: own,
            to: vec!["@user.bob".to_owned()],
            ..naming(&["ops"])
        };
        assert_eq!(ask(&mut world, spec.clone()), SetHoldReply::Set);
        let asked = request(&world).spec.clone().unwrap();
        assert_eq!(asked.policy.need, need);
        assert_eq!(asked.policy.not_requester, not_requester);
        assert_eq!(asked.to, ["@role.ops"]);
        let note = world.view().history[0].note.clone().unwrap();
        assert!(note.starts_with("by policy `ops`"), "{note}");
        // A repeated desired state keeps what counted.
        let state = HoldState::Open {
            spec: Box::new(spec),
            deadline: None,
        };
        world.desired_state(2, state);
        assert_eq!(request(&world).spec, Some(asked));
    }
}

/// API, Policy: the closure says how long an approval by the policy counts, as it was when the request was opened.
#[test]
fn the_closure_has_the_time_of_the_policy() {
    for valid_for in [Some(DAY_MS), None] {
        let mut world = World::new();
        let rules = ApprovalRules {
            valid_for,
            ..of_ops(1, false)
        };
        put(&mut world, "ops", PolicyRules::Approval(rules));
        ask(&mut world, naming(&["ops"]));
        put(&mut world, "ops", two_of_ops());
        world.decide_as("oscar", Decision::approve(None)).unwrap();
        let closed = world.closed();
        assert_eq!(closed[0].approval.as_ref().unwrap().valid_ms, valid_for);
    }
}

/// A question and a handoff decide about no risk, so that the run goes on without the policy.
#[test]
fn questions_and_handoffs_are_opened_without_an_unknown_policy() {
    for kind in [HoldKind::Input, HoldKind::Handoff] {
        let mut world = World::new();
        let spec = HoldSpec {
            policies: vec!["gone".parse().unwrap()],
            ..super::world::spec(kind)
        };
        assert_eq!(ask(&mut world, spec), SetHoldReply::Set);
        assert!(request(&world).is_open());
    }
}
