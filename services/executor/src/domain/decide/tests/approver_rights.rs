//! The right of the people who approved a call is checked again before it runs (Gate, S2-R4).

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::hold::{ApprovalRecord, ApprovalVote, HoldOutcome};
use holdpoint_contracts::run::{ResumeMode, RunStatus, StepStatus};
use holdpoint_contracts::steps::Grant;
use holdpoint_ids::HoldId;
use serde_json::json;

use super::approvals::start_as;
use super::world::{Heard, World, closing, user};
use crate::domain::need::DIRECTORY_AGE_MAX;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{KnownUser, Reply};

const PAY: &str = "  - id: pay
    tool: send_email
    args: { to: \"ada@x.example\", idempotent: true }
    approval: { from: \"@role.manager\" }
";

fn hold(world: &World) -> HoldId {
    let mut people = world.run().people();
    people.next().expect("a request").1.id
}

fn vote(by: &str, addressed_by: &[&str]) -> ApprovalVote {
    ApprovalVote {
        by: by.to_owned(),
        addressed_by: addressed_by.iter().map(|to| (*to).to_owned()).collect(),
    }
}

fn approved(world: &World, votes: &[ApprovalVote]) -> HoldClosure {
    HoldClosure {
        by: votes.last().unwrap().by.clone(),
        approval: Some(ApprovalRecord {
            votes: votes.to_vec(),
            valid_ms: None,
        }),
        ..closing(HoldOutcome::Approved, json!(null), world.now)
    }
}

fn put(world: &mut World, name: &str, fact: Arc<KnownUser>) {
    world.users.insert(name.to_owned(), fact);
}

fn manager() -> Arc<KnownUser> {
    user(true, &["member", "manager"])
}

/// The call is approved while the run is paused, and a user changes before the run goes on.
fn changed_before_dispatch(votes: &[ApprovalVote], change: fn(&mut World)) -> World {
    let mut world = World::started(PAY);
    put(&mut world, "ada", manager());
    put(&mut world, "bob", manager());
    put(&mut world, "olga", user(true, &["operator"]));
    world.pause();
    let id = hold(&world);
    world.close_at(id, approved(&world, votes));
    change(&mut world);
    world.resume(ResumeMode::Continue);
    world
}

/// The call is approved and dispatched.
fn dispatched(plan: &str, votes: &[ApprovalVote]) -> World {
    let mut world = World::started(plan);
    put(&mut world, "ada", manager());
    put(&mut world, "bob", manager());
    let id = hold(&world);
    world.close_at(id, approved(&world, votes));
    assert_eq!(world.handed.len(), 1);
    world
}

fn asked_again(world: &World) -> String {
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
    assert!(world.handed.is_empty(), "nothing was dispatched");
    let asked = world.event(EventType::RunAwaitingApproval);
    asked.message.clone()
}

/// Gate: an approver who lost the right decided nothing. The decision stays on record, and people are asked again.
#[test]
fn a_lost_right_makes_the_approval_void() {
    let by_role = [vote("ada", &["@role.manager"])];
    let by_name = [vote("ada", &["@user.ada"])];
    let by_right = [vote("olga", &[])];
    let both = [vote("bob", &["@role.manager"]), by_role[0].clone()];
    type Case<'a> = (&'a str, &'a [ApprovalVote], fn(&mut World), &'a str);
    let cases: [Case<'_>; 8] = [
        (
            "lost role",
            &by_role,
            |world| put(world, "ada", user(true, &["member"])),
            "ada may not decide it any more",
        ),
        (
            "demoted to viewer",
            &by_role,
            |world| put(world, "ada", user(true, &["viewer", "manager"])),
            "ada may not decide it any more",
        ),
        (
            "named, and demoted to viewer",
            &by_name,
            |world| put(world, "ada", user(true, &["viewer"])),
            "ada may not decide it any more",
        ),
        (
            "no operator any more",
            &by_right,
            |world| put(world, "olga", user(true, &["member"])),
            "olga may not decide it any more",
        ),
        (
            "removed",
            &by_role,
            |world| put(world, "ada", user(false, &["member", "manager"])),
            "ada is not known as an active user",
        ),
        (
            "unknown",
            &by_role,
            |world| drop(world.users.remove("ada")),
            "ada is not known as an active user",
        ),
        (
            "the first of two voters",
            &both,
            |world| put(world, "bob", user(true, &["member"])),
            "bob may not decide it any more",
        ),
        (
            "the last of two voters",
            &both,
            |world| put(world, "ada", user(false, &[])),
            "ada is not known as an active user",
        ),
    ];
    for (case, votes, change, reason) in cases {
        let world = changed_before_dispatch(votes, change);
        let message = asked_again(&world);
        assert!(message.contains("is void"), "{case}: {message}");
        assert!(message.contains(reason), "{case}: {message}");
        let decisions = world.history.iter();
        let decided = decisions.filter(|item| item.message.contains("approved pay"));
        assert_eq!(decided.count(), 1, "{case}: the decision is on record");
    }
}

/// Gate: a right that is still there is enough, by whichever role.
#[test]
fn a_right_that_is_kept_lets_the_call_start() {
    let by_role = [vote("ada", &["@role.manager", "@role.lead"])];
    let by_name = [vote("ada", &["@user.ada"])];
    let by_right = [vote("olga", &[])];
    type Case<'a> = (&'a str, &'a [ApprovalVote], fn(&mut World));
    let cases: [Case<'_>; 5] = [
        ("unchanged", &by_role, |_| {}),
        ("another role of the request", &by_role, |world| {
            put(world, "ada", user(true, &["member", "lead"]));
        }),
        ("an operator may decide any request", &by_role, |world| {
            put(world, "ada", user(true, &["operator"]));
        }),
        ("named in person", &by_name, |world| {
            put(world, "ada", user(true, &["member"]));
        }),
        ("an operator who became an owner", &by_right, |world| {
            put(world, "olga", user(true, &["owner"]));
        }),
    ];
    for (case, votes, change) in cases {
        let world = changed_before_dispatch(votes, change);
        assert_eq!(world.handed.len(), 1, "{case}");
    }
}

/// Gate: the same at a second dispatch, after the lease of the first one has ended.
#[test]
fn a_takeover_needs_the_right_too() {
    let mut world = dispatched(PAY, &[vote("ada", &["@role.manager"])]);
    world.ask("node-a", "pay");
    world.lose("pay");
    assert_eq!(world.handed.len(), 2, "the right is still there");
    world.ask("node-a", "pay");
    put(&mut world, "ada", user(true, &["member"]));
    world.lose("pay");
    assert_eq!(world.handed.len(), 2, "it was not dispatched again");
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// Gate: the approver's right is checked again when a worker wants to start the step. Nothing runs, and people are asked
/// again.
#[test]
fn a_queued_step_whose_approver_lost_the_right_does_not_start() {
    let votes = [
        vote("bob", &["@role.manager"]),
        vote("ada", &["@role.manager"]),
    ];
    let lost = user(true, &["member"]);
    for (name, fact) in [
        ("ada", Some(lost.clone())),
        ("bob", Some(lost)),
        ("bob", Some(user(false, &["member", "manager"]))),
        ("ada", None),
    ] {
        let mut world = dispatched(PAY, &votes);
        match fact {
            Some(fact) => put(&mut world, name, fact),
            None => drop(world.users.remove(name)),
        }
        assert!(matches!(
            start_as(&mut world, "pay", false),
            Heard::Decided(Reply::Grant(Grant::Drop))
        ));
        assert_eq!(world.status(), RunStatus::AwaitingApproval);
        assert_eq!(world.handed.len(), 1, "it was not dispatched again");
        let asked = world.event(EventType::RunAwaitingApproval);
        assert!(asked.message.contains("is void"), "{}", asked.message);
    }
    let mut world = dispatched(PAY, &votes);
    assert!(matches!(
        start_as(&mut world, "pay", false),
        Heard::Decided(Reply::Grant(Grant::Go))
    ));
}

/// The kernel loads needs at most four times: the voters come first, then the tool, the call, and the briefing of a
/// handoff on failure.
#[test]
fn a_lost_right_loads_all_that_it_needs_in_time() {
    let plan = "  - id: pay
    tool: own.pay
    args: { n: 1 }
    on_error: handoff
    approval: { from: \"@role.manager\" }
  - id: rest
    wait: 1 day
";
    let mut world = dispatched(plan, &[vote("ada", &["@role.manager"])]);
    put(&mut world, "ada", user(true, &["member"]));
    start_as(&mut world, "pay", false);
    assert_eq!(world.status(), RunStatus::AwaitingApproval);
}

/// API, Policy: an approval by a policy counts for its `valid_for`. A shorter time of the step counts instead.
#[test]
fn an_approval_counts_as_long_as_its_policy_says() {
    for (own, minutes_of_policy, expires_after) in [
        ("", Some(30), 30),
        ("", Some(3 * 24 * 60), 3 * 24 * 60),
        ("", None, 24 * 60),
        (", valid_for: 20m", Some(30), 20),
        (", valid_for: 2h", Some(30), 30),
        (", valid_for: 2h", None, 2 * 60),
    ] {
        for (minutes, calls) in [(expires_after, 1), (expires_after + 1, 0)] {
            let approval = format!("{{ policy: managers{own} }}");
            let plan = PAY.replace("{ from: \"@role.manager\" }", &approval);
            let mut world = World::started(&plan);
            world.pause();
            let id = hold(&world);
            let mut closing = approved(&world, &[vote("ada", &["@user.ada"])]);
            let valid_ms = minutes_of_policy.map(|minutes: u64| minutes * 60_000);
            closing.approval.as_mut().unwrap().valid_ms = valid_ms;
            world.close_at(id, closing);
            world.pass(TimeDelta::minutes(minutes));
            world.resume(ResumeMode::Continue);
            let case = (own, minutes_of_policy, minutes);
            assert_eq!(world.handed.len(), calls, "{case:?}");
        }
    }
}

/// A closure of an older version has no votes. Its decider must be active.
#[test]
fn an_older_decision_needs_an_active_user() {
    for (is_active, calls) in [(true, 1), (false, 0)] {
        let mut world = World::started(PAY);
        put(&mut world, "ada", user(is_active, &[]));
        let id = hold(&world);
        world.close_as(id, HoldOutcome::Approved, json!(null));
        assert_eq!(world.handed.len(), calls);
        let stored = serde_json::to_value(world.step("pay")).unwrap();
        assert!(!stored.to_string().contains("votes"), "{stored}");
    }
}

/// Gate 2: every doubt means no. A copy of the users that the handoff service has not confirmed for too long, or never,
/// lets no gated step start. It stays queued and starts when the copy is confirmed.
#[test]
fn a_gated_step_waits_for_a_confirmed_directory() {
    let votes = [vote("ada", &["@role.manager"])];
    let mut world = dispatched(PAY, &votes);
    for age in [None, Some(DIRECTORY_AGE_MAX + Duration::from_millis(1))] {
        world.directory_age = age;
        let heard = start_as(&mut world, "pay", false);
        let Heard::Refused(refusal) = heard else {
            panic!("{age:?}: {heard:?}")
        };
        assert_eq!(refusal.problem().status, 503, "the worker asks again");
        assert_eq!(world.phase("pay").status(), StepStatus::Queued);
        // A copy that is old cannot void the approval either.
        put(&mut world, "ada", user(true, &["member"]));
        assert!(matches!(
            start_as(&mut world, "pay", false),
            Heard::Refused(_)
        ));
        put(&mut world, "ada", manager());
    }
    world.directory_age = Some(DIRECTORY_AGE_MAX);
    assert!(matches!(
        start_as(&mut world, "pay", false),
        Heard::Decided(Reply::Grant(Grant::Go))
    ));
    assert_eq!((world.handed.len(), world.step("pay").attempts), (1, 1));
}

/// Gate 2: only gated steps wait, and a paused run is dispatched again on its resume.
#[test]
fn a_step_without_a_gate_starts_on_any_directory() {
    let mut world =
        World::started("  - id: pay\n    tool: send_email\n    args: { to: x@x.example }\n");
    world.directory_age = None;
    assert!(matches!(
        start_as(&mut world, "pay", false),
        Heard::Decided(Reply::Grant(Grant::Go))
    ));
    let mut world = dispatched(PAY, &[vote("ada", &["@role.manager"])]);
    world.directory_age = None;
    world.pause();
    assert!(matches!(
        start_as(&mut world, "pay", false),
        Heard::Unchanged(Reply::Grant(Grant::Drop))
    ));
}
