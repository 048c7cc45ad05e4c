//! Approvals of one call before its step is reached (S2-R4).

use holdpoint_contracts::hold::{HoldSpec, Policy};
use serde_json::json;

use super::standing_approvals::{ask, early, gated, id, is_open, open, standing};
use super::world::{World, hold, minute};

/// Gate: an early approval covers one call of one run, and nothing else.
#[test]
fn an_early_approval_covers_its_call_only() {
    let call = || gated(&json!({ "amount": 100 }));
    let (world, uses) = ask(vec![early(|_| {})], call());
    assert_eq!(uses, [1]);
    assert!(!is_open(&world));
    let other_run = "run_01920000000070008000000000000099".parse().unwrap();
    let others = [
        early(|call| call.digest = "00".repeat(32)),
        early(|call| call.step = "step-03".to_owned()),
        early(|call| call.run = other_run),
    ];
    for other in others {
        let (world, uses) = ask(vec![other], call());
        assert!(uses.is_empty() && is_open(&world));
    }
    // Its creator has lost the right: people are asked.
    let mut gone = World::new();
    gone.standing = vec![early(|_| {})];
    gone.standing[0].approval.created_by = "nobody".parse().unwrap();
    gone.now = minute(5);
    gone.desired_state(1, open(call()));
    assert!(is_open(&gone));
    // A retry of the run asks again, and so does a void approval.
    let again = HoldSpec {
        asks_again: Some(hold(2)),
        ..call()
    };
    let (world, uses) = ask(vec![early(|_| {})], again);
    assert!(uses.is_empty() && is_open(&world));
}

/// Two people, or two clicks, may approve a call early. A retry of the run asks people about it again.
#[test]
fn a_surplus_early_approval_never_decides_a_later_request() {
    let mut used = early(|_| {});
    used.used = 1;
    let mut surplus = early(|_| {});
    surplus.approval.id = id(2);
    surplus.approval.created_by = "bob".parse().unwrap();
    let (world, uses) = ask(vec![used, surplus], gated(&json!({ "amount": 100 })));
    assert!(uses.is_empty() && is_open(&world));
}

/// It counts as one vote of its creator.
#[test]
fn an_early_approval_is_one_of_the_needed_votes() {
    let spec = HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..gated(&json!({ "amount": 100 }))
    };
    let (world, uses) = ask(vec![early(|_| {}), standing(2)], spec);
    assert_eq!(uses, [1], "ada votes once");
    assert!(is_open(&world));
}
