//! Policies by name: valid policies, and what requests keep of them.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]
#![expect(
    clippy::unwrap_in_result,
    reason = "what a test builds itself is well formed"
)]

use chrono::TimeDelta;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    ApprovalRules, Decision, EscalationRules, PolicyRules, PolicyRung, PolicyView, Repeat,
    RequestAction, RequestStatus, RequestView, StopOn,
};
use holdpoint_contracts::hold::{
    EndedByRung, HandoffEventKind, HoldOutcome, HoldSpec, HoldState, RungAct, SetHoldReply,
};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_decision::Decider;
use holdpoint_ids::PolicyName;

use super::world::{World, acme, spec, unsigned};
use crate::domain::{
    Aggregate, Caller, HandoffDomain, Input, Need, Outcome, PolicyInput, Reply, Undecided,
    built_in_policies,
};

impl World {
    pub(super) fn policy_input(
        &mut self,
        name: &str,
        caller: Caller,
        input: PolicyInput,
    ) -> Result<PolicyView, Problem> {
        let name: PolicyName = name.parse().unwrap();
        let state = self.policies.get(&name).cloned();
        let state = state.map(|one| Aggregate::Policy(Box::new(one)));
        let input = Input::Policy {
            workspace: acme(),
            name: name.clone(),
            caller,
            input,
        };
        let lookup = |need: &Need| self.lookup(need);
        match HandoffDomain::decide(state.as_ref(), &input, &lookup, self.now) {
            Ok(Outcome::Decided(change)) => {
                let Aggregate::Policy(policy) = change.state else {
                    panic!("a policy became something else")
                };
                assert_eq!(change.reply, Reply::Policy(Box::new(policy.view())));
                self.policies.insert(name, *policy.clone());
                Ok(policy.view())
            }
            Ok(Outcome::Unchanged(Reply::Policy(view))) => Ok(*view),
            Ok(Outcome::Unchanged(other)) => panic!("{other:?}"),
            Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
            Err(Undecided::NeedsMore(needs)) => panic!("nobody has {needs:?}"),
        }
    }
}

const HOUR_MS: u64 = 3_600_000;

fn approval(from: &str, need: u32) -> PolicyRules {
    PolicyRules::Approval(ApprovalRules {
        from: vec![from.to_owned()],
        need,
        not_requester: true,
        decide_within: Some(2 * HOUR_MS),
        valid_for: None,
    })
}

fn rung(after: u64, act: RungAct, to: &[&str]) -> PolicyRung {
    PolicyRung {
        after,
        act,
        to: to.iter().map(|&one| one.to_owned()).collect(),
        repeat: None,
    }
}

fn escalation(rungs: Vec<PolicyRung>) -> PolicyRules {
    PolicyRules::Escalation(EscalationRules {
        rungs,
        stop_on: Vec::new(),
        calendar: None,
        acknowledged_for: None,
    })
}

fn put(world: &mut World, name: &str, rules: PolicyRules) -> Result<(), Problem> {
    let olga = world.caller("olga");
    let put = world.policy_input(name, olga, PolicyInput::Put(rules));
    put.map(drop)
}

/// A policy: one of ops approves, but not the requester.
pub(super) fn of_ops(world: &mut World, name: &str) {
    put(world, name, approval("@role.ops", 1)).unwrap();
}

fn naming(kind: HoldKind, names: &[&str]) -> HoldSpec {
    HoldSpec {
        to: Vec::new(),
        policies: names.iter().map(|name| name.parse().unwrap()).collect(),
        ..spec(kind)
    }
}

fn open(world: &mut World, spec: HoldSpec, timeout_ms: u64) -> Result<RequestView, Problem> {
    let opened = world.open_as(unsigned("deployer"), spec, timeout_ms);
    opened.map(|answer| match answer {
        Reply::Request(view) => *view,
        other => panic!("{other:?}"),
    })
}

fn pointers(problem: &Problem) -> Vec<&str> {
    let errors = problem.errors.iter();
    errors.filter_map(|one| one.pointer.as_deref()).collect()
}

fn approve() -> Decision {
    Decision::approve(None)
}

/// API, Policy; S2-R4: the policy states who approves, how many, and until when; the requester is excluded.
#[test]
fn a_request_is_approved_by_its_named_policy() {
    let mut world = World::alone();
    world.user("otto", &["member", "ops"]);
    put(&mut world, "two-of-ops", approval("@role.ops", 2)).unwrap();
    let asked = HoldSpec {
        requester: Some("otto".to_owned()),
        ..naming(HoldKind::Approval, &["two-of-ops"])
    };
    let view = open(&mut world, asked.clone(), 0).unwrap();
    assert_eq!(view.to, ["@role.ops"]);
    assert_eq!(view.deadline, Some(world.now + TimeDelta::hours(2)));
    assert_eq!(view.votes.unwrap().need, 2);
    assert_eq!(
        view.history[0].note.as_deref(),
        Some("by policy `two-of-ops`")
    );
    assert_eq!(
        world.decide_as("otto", approve()).unwrap_err().code,
        "not_requester"
    );
    world.decide_as("oscar", approve()).unwrap();
    assert_eq!(
        world.view().status,
        RequestStatus::Open,
        "one more is needed"
    );
    // A later change of the policy does not change an open request.
    put(&mut world, "two-of-ops", approval("@role.nobody", 1)).unwrap();
    let olga = world.caller("olga");
    world
        .policy_input("two-of-ops", olga, PolicyInput::Delete)
        .unwrap();
    let again = open(&mut world, asked, 0).unwrap();
    assert_eq!(again, world.view(), "asked again it is the same");
    assert_eq!(world.view().votes.unwrap().need, 2);
    world.decide_as("olga", approve()).unwrap();
    assert_eq!(world.view().status, RequestStatus::Decided);
    let mut world = World::alone();
    put(&mut world, "two-of-ops", approval("@role.ops", 2)).unwrap();
    let own_time = naming(HoldKind::Approval, &["two-of-ops"]);
    let view = open(&mut world, own_time, 5 * HOUR_MS).unwrap();
    assert_eq!(view.deadline, Some(world.now + TimeDelta::hours(5)));
}

/// API, Policy; S4-R15: each rung and each repetition fires once, and the owners are notified last.
#[test]
fn the_rungs_of_a_policy_fire_when_no_user_acts() {
    let mut world = World::alone();
    let again = PolicyRung {
        repeat: Some(Repeat {
            every: HOUR_MS,
            times: 2,
        }),
        ..rung(HOUR_MS, RungAct::Notify, &["@role.ops"])
    };
    let rungs = vec![again, rung(2 * HOUR_MS, RungAct::Broaden, &["@user.bob"])];
    put(&mut world, "on-call", escalation(rungs)).unwrap();
    open(
        &mut world,
        naming(HoldKind::Approval, &["on-call"]),
        90 * 24 * HOUR_MS,
    )
    .unwrap();
    let start = world.now;
    let mut hours = Vec::new();
    for _ in 0..5 {
        world.now = world.due().unwrap();
        hours.push((world.now - start).num_hours());
        world.fire();
    }
    assert_eq!(hours, [1, 2, 2, 3, 3 + 24]);
    let events = world.request_events();
    let last = events.last().unwrap();
    assert_eq!(
        *last,
        (RequestEventKind::Escalated, Vec::new()),
        "the owners"
    );
    world.decide_as("bob", approve()).unwrap();
}

/// `stop_on: accept`: the assignee is reminded, and the rungs of the policy do not fire.
#[test]
fn an_acceptance_stops_the_rungs_of_a_policy_with_stop_on() {
    for stop_on in [vec![StopOn::Accept], vec![StopOn::Acknowledge]] {
        let stops = stop_on.contains(&StopOn::Accept);
        let mut world = World::alone();
        let rules = PolicyRules::Escalation(EscalationRules {
            rungs: vec![rung(HOUR_MS, RungAct::Raise, &[])],
            stop_on,
            calendar: None,
            acknowledged_for: None,
        });
        put(&mut world, "on-call", rules).unwrap();
        let asked = HoldSpec {
            to: vec!["@role.ops".to_owned()],
            ..naming(HoldKind::Approval, &["on-call"])
        };
        open(&mut world, asked, 90 * 24 * HOUR_MS).unwrap();
        world.act("oscar", RequestAction::Accept).unwrap();
        let hours = (world.due().unwrap() - world.now).num_hours();
        assert_eq!(hours, if stops { 24 } else { 1 });
    }
}

/// The default ladders have names: they are listed and can be named, but not changed.
#[test]
fn default_ladders_have_names() {
    let names: Vec<_> = built_in_policies()
        .into_iter()
        .map(|one| one.name)
        .collect();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(
        names,
        ["default-approval", "default-handoff", "default-input"]
    );
    for (name, hours) in [("default-input", 6), ("default-approval", 24)] {
        let mut world = World::alone();
        let asked = HoldSpec {
            to: vec!["@role.ops".to_owned()],
            ..naming(HoldKind::Approval, &[name])
        };
        open(&mut world, asked, 90 * 24 * HOUR_MS).unwrap();
        let due = world.due().unwrap() - world.now;
        assert_eq!(due.num_hours(), hours, "{name}");
        let refused = put(&mut world, name, approval("@role.ops", 1)).unwrap_err();
        assert_eq!((refused.status, &*refused.code), (409, "built_in_policy"));
    }
}

/// An unknown policy is a 422 with the known names and the invalid fields.
#[test]
fn an_unknown_policy_is_refused_with_the_known_names() {
    let mut world = World::alone();
    put(&mut world, "managers", approval("@role.ops", 2)).unwrap();
    let fails = escalation(vec![rung(HOUR_MS, RungAct::AnswerDefault, &[])]);
    put(&mut world, "answers", fails).unwrap();
    let named = |names: &[&str]| naming(HoldKind::Approval, names);
    let to = vec!["@user.ada".to_owned()];
    for (spec, pointer, words) in [
        (
            named(&["manager"]),
            "/spec/policies/0",
            "`managers`, `default-approval`",
        ),
        (
            named(&["managers", "managers"]),
            "/spec/policies/1",
            "so does another",
        ),
        (
            named(&["default-input", "answers"]),
            "/spec/policies/1",
            "so does another",
        ),
        (
            named(&["answers", "managers", "x"]),
            "/spec/policies",
            "at most 2 policies",
        ),
        (named(&["answers"]), "/spec/default", "is required with"),
        (
            naming(HoldKind::Input, &["managers"]),
            "/spec/policies/0",
            "2 approvals",
        ),
        (
            naming(HoldKind::Timer, &["managers"]),
            "/spec/policies/0",
            "takes no policy",
        ),
        (
            HoldSpec {
                to,
                ..named(&["managers"])
            },
            "/spec/to",
            "states the recipients",
        ),
    ] {
        let refused = open(&mut world, spec, HOUR_MS).unwrap_err();
        assert_eq!(refused.status, 422);
        assert!(pointers(&refused).contains(&pointer), "{refused:?}");
        assert!(refused.detail.contains(words), "{refused:?}");
    }
    let unknown = open(&mut world, named(&["manager"]), HOUR_MS).unwrap_err();
    assert_eq!(unknown.errors[0].nearest[1], "managers");
}

/// An unknown policy does not stop a run. The history of its request contains the error.
#[test]
fn a_runs_request_is_opened_without_an_unknown_policy() {
    let mut world = World::new();
    let rungs = vec![
        rung(HOUR_MS, RungAct::Notify, &["@role.ops"]),
        rung(2 * HOUR_MS, RungAct::Fail, &[]),
    ];
    put(&mut world, "on-call", escalation(rungs)).unwrap();
    let spec = Box::new(naming(HoldKind::Handoff, &["gone", "on-call"]));
    let state = HoldState::Open {
        spec,
        deadline: None,
    };
    world.desired_state(1, state.clone());
    let note = world.view().history[0].note.clone().unwrap();
    assert!(
        note.contains("unknown policy `gone`; expected one of `on-call`"),
        "{note}"
    );
    assert_eq!(world.due(), Some(world.now + TimeDelta::hours(1)));
    // A repeated desired state does not change the resolved policies.
    put(&mut world, "gone", approval("@role.ops", 1)).unwrap();
    let olga = world.caller("olga");
    world
        .policy_input("on-call", olga, PolicyInput::Delete)
        .unwrap();
    let before = world.request.clone().unwrap().spec;
    world.desired_state(2, state);
    assert_eq!(world.request.clone().unwrap().spec, before);
}

/// A rung ends the request of a run like its timeout. A deadline that was moved since reopens it, and later rungs
/// fire.
#[test]
fn a_rung_ends_a_runs_request_like_a_timeout() {
    let mut world = World::new();
    let rungs = vec![rung(HOUR_MS, RungAct::Fail, &[])];
    put(&mut world, "quick", escalation(rungs)).unwrap();
    let (due, day) = (
        world.now + TimeDelta::hours(1),
        world.now + TimeDelta::days(1),
    );
    let state = |deadline| HoldState::Open {
        spec: Box::new(naming(HoldKind::Handoff, &["quick"])),
        deadline: Some(deadline),
    };
    world.desired_state(1, state(day));
    let ended = |world: &mut World, deadline| {
        assert_eq!(world.due(), Some(due));
        world.now = due;
        world.fire();
        assert_eq!(world.view().status, RequestStatus::Expired);
        let closed = world.closed();
        let end = closed.last().unwrap();
        let by_rung = EndedByRung {
            after_ms: HOUR_MS,
            deadline: Some(deadline),
        };
        assert_eq!(
            (end.outcome, end.by_rung),
            (HoldOutcome::Timeout, Some(by_rung))
        );
    };
    ended(&mut world, day);
    assert_eq!(world.desired_state(2, state(day)), SetHoldReply::TimedOut);
    let later = day + TimeDelta::hours(1);
    assert_eq!(world.desired_state(3, state(later)), SetHoldReply::Set);
    ended(&mut world, later);
}

/// `decide_within` is the timeout of a step without one. The run keeps the deadline and gets an event.
#[test]
fn a_policy_determines_how_long_a_run_waits() {
    let timed = |time_by_policy| {
        let mut world = World::new();
        put(&mut world, "ops", approval("@role.ops", 1)).unwrap();
        let spec = Box::new(HoldSpec {
            time_by_policy,
            ..naming(HoldKind::Input, &["ops"])
        });
        let deadline = Some(world.now + TimeDelta::minutes(5));
        world.desired_state(1, HoldState::Open { spec, deadline });
        let handled = world
            .handoff_updates()
            .into_iter()
            .flat_map(|one| &one.handoff_events);
        let within: Vec<_> = handled
            .map(|handoff_event| (handoff_event.kind, handoff_event.within_ms))
            .collect();
        (within, world.view().history[0].note.clone().unwrap())
    };
    let (within, note) = timed(true);
    assert_eq!(within, [(HandoffEventKind::Timed, Some(2 * HOUR_MS))]);
    assert_eq!(note, "by policy `ops`");
    let (within, note) = timed(false);
    assert_eq!(within, []);
    assert!(note.contains("the step's `timeout` counts"), "{note}");
}

/// Valid policies, and who may change them.
#[test]
fn an_invalid_policy_is_refused_with_its_fields() {
    let mut world = World::new();
    let valid_for = PolicyRules::Approval(ApprovalRules {
        valid_for: Some(90 * 24 * HOUR_MS + 1),
        from: vec!["@user.ghost".to_owned(), "ops".to_owned()],
        need: 21,
        not_requester: false,
        decide_within: Some(1),
    });
    let refused = put(&mut world, "odd", valid_for).unwrap_err();
    let expected = [
        "/from/1",
        "/need",
        "/decide_within",
        "/valid_for",
        "/from/0",
    ];
    assert_eq!(pointers(&refused), expected);
    let repeat = |every, times| Some(Repeat { every, times });
    let wrong = vec![
        rung(10, RungAct::Notify, &["@user.ghost"]),
        PolicyRung {
            repeat: repeat(HOUR_MS, 1),
            ..rung(HOUR_MS, RungAct::Reassign, &["@role.ops"])
        },
        PolicyRung {
            repeat: repeat(1, 30),
            ..rung(HOUR_MS, RungAct::Raise, &[])
        },
    ];
    let refused = put(&mut world, "odd", escalation(wrong)).unwrap_err();
    let expected = [
        "/rungs",
        "/rungs/0/after",
        "/rungs/1/repeat",
        "/rungs/2/repeat",
        "/rungs/0/to/0",
    ];
    assert_eq!(pointers(&refused), expected);
    assert_eq!(
        put(&mut world, "odd", escalation(vec![]))
            .unwrap_err()
            .status,
        422
    );
    let ada = world.caller("ada");
    let rules = approval("@role.ops", 1);
    let refused = world.policy_input("mine", ada, PolicyInput::Put(rules.clone()));
    assert_eq!(refused.unwrap_err().status, 403);
    let olga = world.caller("olga");
    let gone = world.policy_input("mine", olga.clone(), PolicyInput::Delete);
    assert_eq!(gone.unwrap_err().status, 404);
    // Created, repeated, changed, deleted and created again: the version only rises.
    let mut versions = Vec::new();
    for input in [
        PolicyInput::Put(rules.clone()),
        PolicyInput::Put(rules.clone()),
        PolicyInput::Put(approval("@role.ops", 2)),
        PolicyInput::Delete,
        PolicyInput::Put(rules),
    ] {
        let view = world.policy_input("mine", olga.clone(), input).unwrap();
        versions.push(view.version);
    }
    assert_eq!(versions, [1, 1, 2, 3, 4]);
}
