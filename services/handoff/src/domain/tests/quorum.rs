//! Requests that need more approvals than users may give.

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decision, RequestStatus};
use holdpoint_contracts::hold::{HoldSpec, HoldState, Policy};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use proptest::prelude::*;

use super::world::{World, spec};

fn asked(to: &[&str], need: u32, not_requester: bool) -> HoldSpec {
    HoldSpec {
        to: to.iter().map(|one| (*one).to_owned()).collect(),
        policy: Policy {
            need,
            not_requester,
        },
        ..spec(HoldKind::Approval)
    }
}

/// A program opens the request with a user's token.
fn opened(world: &mut World, by: &str, spec: HoldSpec) -> Result<(), Problem> {
    let caller = world.caller(by);
    world.open_as(caller, spec, 60_000).map(drop)
}

/// A run opens the request.
fn desired(world: &mut World, spec: HoldSpec) {
    let (spec, deadline) = (Box::new(spec), None);
    world.desired_state(1, HoldState::Open { spec, deadline });
}

/// M-6, S2-R4: the refusal names the field, the error and the remedy.
#[test]
fn a_hold_that_no_user_can_decide_is_refused() {
    let barred =
        "no user may decide it (`not_requester` excludes `olga`); add recipients or omit it";
    let three = "it needs 3 approvals, and only 2 users may give one, including owners and operators; \
                 add recipients or require fewer approvals";
    for (spec, pointer, message) in [
        (asked(&[], 1, true), "/spec/policy/not_requester", barred),
        (asked(&["@role.ops"], 3, false), "/spec/policy/need", three),
    ] {
        let mut world = World::alone();
        let refused = opened(&mut world, "olga", spec).unwrap_err();
        assert_eq!((refused.status, &*refused.code), (422, "invalid_body"));
        let error = &refused.errors[0];
        assert_eq!(error.pointer.as_deref(), Some(pointer));
        assert_eq!(error.message, message);
        assert!(world.request.is_none());
    }
}

/// S2-R4: the owners are notified of a run's request that too few users may decide.
#[test]
fn a_runs_request_with_too_few_deciders_is_addressed_to_the_owners_too() {
    let mut world = World::new();
    desired(&mut world, asked(&["@role.ops"], 3, false));
    let to = vec!["@role.ops".to_owned(), "@role.owner".to_owned()];
    assert_eq!(world.request_events(), [(RequestEventKind::Opened, to)]);
    let note = world.view().history[1].note.clone().unwrap();
    assert!(
        note.starts_with("it needs 3 approvals, and only 2"),
        "{note}"
    );
    assert!(note.ends_with("or end the run"), "{note}");
    world.user("otto", &["member", "ops"]);
    for name in ["oscar", "otto", "olga"] {
        world.decide_as(name, Decision::approve(None)).unwrap();
    }
    assert_eq!(world.view().status, RequestStatus::Decided);
}

proptest! {
    /// The rule against every possible vote: a hold is refused exactly if the request stays undecided although all
    /// users approve.
    #[test]
    fn a_request_is_refused_exactly_if_all_users_together_cannot_decide_it(
        to in proptest::sample::subsequence(vec!["@user.ada", "@role.ops", "@role.owner", "@role.none"], 0..4),
        need in 1..6_u32,
        not_requester in any::<bool>(),
        requester in prop_oneof![Just("ada"), Just("oscar"), Just("bob"), Just("olga")],
        roles in proptest::collection::vec(
            prop_oneof![Just("ops"), Just("operator"), Just("admin"), Just("sales")], 0..4),
        is_named in any::<bool>(),
    ) {
        let mut world = World::new();
        for (number, role) in roles.iter().enumerate() {
            world.user(&format!("one-{number}"), &["member", *role]);
        }
        let by_name = HoldSpec {
            requester: Some(requester.to_owned()),
            ..asked(&to, need, not_requester)
        };
        let mut alone = World { users: world.users.clone(), ..World::alone() };
        let spec = if is_named { by_name.clone() } else { asked(&to, need, not_requester) };
        let refused = opened(&mut alone, requester, spec).is_err();
        desired(&mut world, by_name);
        let notes = world.view().history.into_iter().filter_map(|one| one.note);
        let is_told = notes.into_iter().any(|note| note.ends_with("or end the run"));
        for name in world.users.keys().cloned().collect::<Vec<_>>() {
            drop(world.decide_as(&name, Decision::approve(None)));
        }
        let is_decided = world.view().status == RequestStatus::Decided;
        prop_assert_eq!((refused, is_told), (!is_decided, !is_decided));
    }
}
