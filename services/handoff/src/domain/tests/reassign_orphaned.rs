//! Assignees: who may reassign a request, to whom, and the reminders of the new assignee.

use chrono::TimeDelta;
use holdpoint_contracts::handoff::{
    Completion, Decision, Disposition, Effect, OutcomeType, RequestAction, RequestStatus,
};
use holdpoint_contracts::hold::{CloseReply, HoldSpec, HoldState, OPERATOR_TAKEOVER, Policy};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;

use super::world::{World, minute, spec};
use crate::domain::{Recipient, Reply, RequestInput, UserInput};

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(spec), None);
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn addressed_to(kind: HoldKind, to: &[&str]) -> HoldSpec {
    HoldSpec {
        to: to.iter().map(|one| (*one).to_owned()).collect(),
        ..spec(kind)
    }
}

/// An approval whose requester bob is excluded.
fn excluding_bob(to: &[&str]) -> HoldSpec {
    HoldSpec {
        policy: Policy {
            need: 1,
            not_requester: true,
        },
        requester: Some("bob".to_owned()),
        ..addressed_to(HoldKind::Approval, to)
    }
}

fn reassign(to: &str) -> RequestAction {
    let to = to.to_owned();
    RequestAction::Reassign { to }
}

fn complete() -> Decision {
    Decision::Complete(Completion {
        notes: "done".to_owned(),
        outcome_type: OutcomeType::Resolved,
        disposition: Disposition::Finish,
    })
}

/// S0-AC7: a colleague can neither complete nor reassign a run that another person owns.
#[test]
fn only_its_owner_or_an_operator_reassigns_a_run() {
    let mut world = asked(addressed_to(HoldKind::Handoff, &["@role.ops"]));
    world.user("otto", &["member", "ops"]);
    world.act("oscar", RequestAction::TakeOver).unwrap();
    let before = world.view();
    let for_ms = 3_600_000;
    for action in [
        reassign("@user.otto"),
        RequestAction::Delegate {
            to: "@user.otto".to_owned(),
        },
        RequestAction::Acknowledge,
        RequestAction::Snooze { for_ms },
        RequestAction::TakeOver,
        RequestAction::Accept,
    ] {
        let refused = world.act("otto", action.clone()).unwrap_err();
        assert_eq!(refused.status, 409, "{action:?}: {refused:?}");
    }
    assert_eq!(world.decide_as("otto", complete()).unwrap_err().status, 409);
    assert_eq!(world.view(), before, "refusals change nothing");
    world.act("oscar", reassign("@user.otto")).unwrap();
    world.decide_as("otto", complete()).unwrap();
}

/// S2-R4: an excluded user neither receives nor takes a request.
#[test]
fn an_excluded_requester_receives_no_request() {
    let mut world = asked(excluding_bob(&["@role.ops", "@user.ada"]));
    world.user("bob", &["member", "ops"]);
    let refused = world.act("bob", RequestAction::Accept).unwrap_err();
    assert_eq!(refused.code, "not_requester");
    let refused = world.act("ada", reassign("@user.bob")).unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (422, "invalid_body")
    );
    assert!(
        refused.errors[0].message.contains("may not decide"),
        "{refused:?}"
    );
    world.users.get_mut("oscar").unwrap().active = false;
    assert_eq!(
        world.act("ada", reassign("@role.ops")).unwrap_err().status,
        422,
        "bob is the last member of ops"
    );
}

/// S2-R4: a request whose only recipient is its requester goes to the owners.
#[test]
fn a_request_that_only_its_requester_could_decide_goes_to_the_owners() {
    let world = asked(excluding_bob(&["@user.bob"]));
    let view = world.view();
    assert_eq!((view.assignee, view.to), (None, vec![]));
    let note = view.history[1].note.clone().unwrap();
    assert_eq!(
        note,
        "the requester may not decide it; addressed to the owners"
    );
}

/// S4-R15: reminders do not depend on the former assignee.
#[test]
fn a_new_assignee_is_reminded_like_the_first_one() {
    let mut world = asked(addressed_to(HoldKind::Handoff, &["@user.ada"]));
    world.now = minute(24 * 60);
    world.fire();
    world.now = minute(3 * 24 * 60);
    world.fire();
    let timer = |world: &World| world.request.as_ref().unwrap().timer.due;
    assert_eq!(timer(&world), None, "the owners know");
    world.now = minute(10 * 24 * 60);
    world.act("ada", reassign("@user.bob")).unwrap();
    assert_eq!(timer(&world), Some(world.now + TimeDelta::days(1)));
    world.now = minute(11 * 24 * 60);
    world.fire();
    let expected = (RequestEventKind::Escalated, vec!["@user.bob".to_owned()]);
    assert_eq!(world.request_events().last(), Some(&expected));
}

/// S0-R1: a role loses its last active member after a request was addressed to it.
#[test]
fn a_request_of_a_role_that_lost_its_last_member_goes_to_others() {
    let lost = || RequestInput::RecipientLost {
        recipient: Recipient::Role("ops".parse().unwrap()),
    };
    let mut world = asked(addressed_to(HoldKind::Input, &["@role.ops"]));
    assert_eq!(world.put(lost()), Ok(Reply::EventRecorded));
    assert_eq!(world.view().to, ["@role.ops"], "oscar is there");
    world.users.get_mut("oscar").unwrap().active = false;
    let mut accepted = world.clone();
    world.put(lost()).unwrap();
    assert_eq!(world.view().to, [""; 0]);
    assert_eq!(
        world.request_events().last(),
        Some(&(RequestEventKind::Assigned, vec![]))
    );
    let note = world.view().history.last().unwrap().note.clone().unwrap();
    assert_eq!(
        note,
        "no active user in @role.ops; reassigned to the owners"
    );
    accepted.users.get_mut("oscar").unwrap().active = true;
    accepted.act("oscar", RequestAction::Accept).unwrap();
    accepted.users.get_mut("oscar").unwrap().roles.clear();
    accepted.put(lost()).unwrap();
    assert_eq!(accepted.view().assignee.as_deref(), Some("oscar"));
}

/// The former roles of a user stay in the row until the sweep has checked them.
#[test]
fn a_user_keeps_former_roles_until_the_sweep_has_checked_them() {
    let mut world = World::new();
    let olga = world.caller("olga");
    let put = |roles: &[&str]| UserInput::Put {
        email: None,
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
    };
    let left = |world: &World| {
        let user = &world.users["oscar"];
        let left = user.left_roles.iter().map(ToString::to_string);
        (user.is_followed(), left.collect::<Vec<_>>().join(" "))
    };
    world.user_input("oscar", &olga, put(&["member"])).unwrap();
    assert_eq!(left(&world), (true, "ops".to_owned()));
    world.user_input("oscar", &olga, put(&["ops"])).unwrap();
    assert_eq!(left(&world), (true, "member".to_owned()));
    world
        .user_input("oscar", &olga, UserInput::Disable)
        .unwrap();
    assert_eq!(left(&world), (true, "member ops".to_owned()));
}

/// S2-R4: a repeated vote that decided is not a late answer.
#[test]
fn a_repeated_vote_that_decided_gets_the_same_reply() {
    let approve = || Decision::approve(None);
    let mut spec = addressed_to(HoldKind::Approval, &["@user.ada", "@role.ops"]);
    spec.policy.need = 2;
    let mut world = asked(spec);
    world.decide_as("ada", approve()).unwrap();
    world.decide_as("oscar", approve()).unwrap();
    let again = world.decide_as("ada", approve()).unwrap();
    assert!(again.recorded && again.request.late.is_empty(), "{again:?}");
}

/// Acknowledgements between services do not change the version that people see.
#[test]
fn an_acknowledgement_of_the_executor_changes_no_visible_version() {
    let mut world = asked(addressed_to(HoldKind::Handoff, &["@user.ada"]));
    let seen = world.act("ada", RequestAction::TakeOver).unwrap();
    world.acknowledge_close(CloseReply::Applied);
    assert!(world.view().version > seen.version);
    let ada = world.caller("ada");
    let version = Some(seen.version - 1);
    let refused = world
        .decide_with(ada.clone(), complete(), version)
        .unwrap_err();
    assert_eq!(refused.code, "version_conflict");
    world
        .decide_with(ada, complete(), Some(seen.version))
        .unwrap();
    assert_eq!(world.view().status, RequestStatus::Completed);
}

/// S0-AC7: a late timeout ended the run first. The person who took it over is notified of the withdrawal.
#[test]
fn a_take_over_of_an_ended_run_is_withdrawn() {
    let mut world = asked(addressed_to(HoldKind::Handoff, &["@user.ada"]));
    world.act("ada", RequestAction::TakeOver).unwrap();
    world.acknowledge_close(CloseReply::RunEnded);
    let view = world.view();
    assert_eq!(view.status, RequestStatus::Withdrawn);
    assert_eq!(view.effect, Some(Effect::RunEnded));
    let expected = (RequestEventKind::Withdrawn, vec!["@user.ada".to_owned()]);
    assert_eq!(world.request_events().last(), Some(&expected));
    assert_eq!(world.decide_as("ada", complete()).unwrap_err().status, 409);
}

/// S2-R4: an acceptance takes a request that several users must agree on from no voter. All of them are reminded.
#[test]
fn an_accepted_vote_stays_with_all_voters() {
    let by_two = |to: &[&str]| HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..addressed_to(HoldKind::Approval, to)
    };
    for (to, notified) in [(&["@role.ops"][..], "@role.ops"), (&[], "@role.owner")] {
        let mut world = asked(by_two(to));
        world.user("otto", &["member", "ops"]);
        world.user("otti", &["owner"]);
        let first = if to.is_empty() { "olga" } else { "oscar" };
        world.act(first, RequestAction::Accept).unwrap();
        world.now = world.due().unwrap();
        world.fire();
        let (kind, reminded) = world.request_events().pop().unwrap();
        assert_eq!(kind, RequestEventKind::Escalated);
        assert!(reminded.contains(&notified.to_owned()), "{reminded:?}");
        let second = if to.is_empty() { "otti" } else { "otto" };
        for name in [first, second] {
            world.decide_as(name, Decision::approve(None)).unwrap();
        }
        assert_eq!(world.view().status, RequestStatus::Decided);
    }
}

/// Mend C-13: nobody is reminded of a run that a person has taken over. Where no person has it any more,
/// the ladder runs again.
#[test]
fn taking_over_stops_the_ladder() {
    let mut world = asked(addressed_to(HoldKind::Handoff, &["@role.ops"]));
    assert!(world.due().is_some());
    world.act("oscar", RequestAction::TakeOver).unwrap();
    assert_eq!(world.due(), None, "no rung, no deadline");
    world.act("oscar", reassign("@user.ada")).unwrap();
    assert_eq!(world.due(), None, "another person has it");
    world.act("ada", reassign("@role.ops")).unwrap();
    assert!(world.due().is_some(), "nobody in particular has it");

    let take_over = HoldSpec {
        reason: Some(OPERATOR_TAKEOVER.to_owned()),
        ..addressed_to(HoldKind::Handoff, &["@user.oscar"])
    };
    let world = asked(take_over);
    assert_eq!(world.view().status, RequestStatus::TakenOver);
    assert_eq!(world.due(), None);
}
