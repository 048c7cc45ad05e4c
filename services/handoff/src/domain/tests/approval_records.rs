//! What the closure of an approval says of its votes, so that the right can be checked again (S2-R4).

use holdpoint_contracts::handoff::{Decision, RequestAction};
use holdpoint_contracts::hold::{ApprovalRecord, HoldSpec, Policy};
use serde_json::json;

use super::standing_approvals::{gated, open, standing};
use super::world::World;
use crate::domain::Vote;

/// A gated call with these recipients.
fn addressed_to(to: &[&str]) -> HoldSpec {
    HoldSpec {
        to: to.iter().map(|to| (*to).to_owned()).collect(),
        ..gated(&json!({ "amount": 10 }))
    }
}

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    world.user("otto", &["operator"]);
    world.desired_state(1, open(spec));
    world
}

fn approve(world: &mut World, name: &str) {
    world.decide_as(name, Decision::approve(None)).unwrap();
}

/// The votes of the only closure.
fn votes(world: &World) -> Vec<(String, Vec<String>)> {
    let closed = world.closed();
    let record = closed[0].approval.clone().unwrap();
    let votes = record.votes.into_iter();
    votes.map(|vote| (vote.by, vote.addressed_by)).collect()
}

fn vote(by: &str, addressed_by: &[&str]) -> (String, Vec<String>) {
    let to = addressed_by.iter().map(|to| (*to).to_owned());
    (by.to_owned(), to.collect())
}

/// Gate: the recipients that named the voter are the voter's right.
#[test]
fn a_closure_says_by_which_recipients_a_voter_was_named() {
    for (to, by, named) in [
        (&["@role.ops", "@user.bob"][..], "oscar", &["@role.ops"][..]),
        (
            &["@role.ops", "@user.oscar"],
            "oscar",
            &["@role.ops", "@user.oscar"],
        ),
        (&["@role.ops"], "otto", &[]),
        (&[], "olga", &[]),
        (&["@user.ada"], "ada", &["@user.ada"]),
    ] {
        let mut world = asked(addressed_to(to));
        approve(&mut world, by);
        assert_eq!(votes(&world), [vote(by, named)], "{by} of {to:?}");
    }
}

/// Gate: accepting the request makes the member of a role its assignee. The right ends with the role nevertheless.
#[test]
fn an_acceptance_is_not_a_right_that_outlasts_the_role() {
    let mut world = asked(addressed_to(&["@role.ops"]));
    world.act("oscar", RequestAction::Accept).unwrap();
    approve(&mut world, "oscar");
    assert_eq!(votes(&world), [vote("oscar", &["@role.ops"])]);
}

/// Gate: an owner who has accepted the request decides as an owner, and not as its assignee.
#[test]
fn an_acceptance_is_not_a_right_that_outlasts_an_owner() {
    for to in [&[][..], &["@role.ops"][..]] {
        let mut world = asked(addressed_to(to));
        world.act("olga", RequestAction::Accept).unwrap();
        approve(&mut world, "olga");
        assert_eq!(votes(&world), [vote("olga", &[])]);
    }
}

/// Gate: a person to whom it was delegated is named in person.
#[test]
fn a_delegate_is_named_in_person() {
    let mut world = asked(addressed_to(&["@role.ops"]));
    let to = "@user.bob".to_owned();
    world.act("oscar", RequestAction::Delegate { to }).unwrap();
    approve(&mut world, "bob");
    assert_eq!(votes(&world), [vote("bob", &["@user.bob"])]);
}

/// Gate: all voters count, each with the recipients at the time of the vote.
#[test]
fn a_closure_has_the_votes_of_all_voters() {
    let mut world = asked(HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..addressed_to(&["@role.ops"])
    });
    approve(&mut world, "oscar");
    let to = "@user.ada".to_owned();
    world.act("otto", RequestAction::Reassign { to }).unwrap();
    approve(&mut world, "ada");
    let expected = [vote("oscar", &["@role.ops"]), vote("ada", &["@user.ada"])];
    assert_eq!(votes(&world), expected);
}

/// Gate: a standing approval is a vote with the right of its creator.
#[test]
fn a_standing_approval_votes_with_the_right_of_its_creator() {
    let mut world = World::new();
    world.user("ada", &["member", "ops"]);
    world.standing = vec![standing(1)];
    world.desired_state(1, open(addressed_to(&["@role.ops"])));
    assert_eq!(votes(&world), [vote("ada", &["@role.ops"])]);
}

/// A rejection permits no call, so that there is nothing to check again.
#[test]
fn a_rejection_has_no_votes() {
    let mut world = asked(addressed_to(&["@role.ops"]));
    let reason = "too dear".to_owned();
    world
        .decide_as("oscar", Decision::Reject { reason })
        .unwrap();
    assert_eq!(world.closed()[0].approval, None::<ApprovalRecord>);
}

/// A stored vote without recipients counts for all recipients of the request.
#[test]
fn a_vote_of_an_older_version_is_read() {
    let stored = json!({ "by": "oscar", "at": "2026-01-01T00:00:00Z" });
    let older: Vote = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(older.addressed_by, None);
    assert_eq!(serde_json::to_value(&older).unwrap(), stored);
    let mut world = asked(HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..addressed_to(&["@role.ops", "@user.bob"])
    });
    world.request.as_mut().unwrap().progress.votes = vec![older];
    approve(&mut world, "bob");
    let expected = [
        vote("oscar", &["@role.ops", "@user.bob"]),
        vote("bob", &["@user.bob"]),
    ];
    assert_eq!(votes(&world), expected);
}
