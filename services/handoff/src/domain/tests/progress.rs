//! Handoffs and what people do with requests before they end.

use holdpoint_contracts::handoff::{
    Completion, Decision, Disposition, Effect as DecisionEffect, OutcomeType, RequestAction,
    RequestStatus,
};
use holdpoint_contracts::hold::{
    Assign, CloseReply, HoldOutcome, HoldSpec, HoldState, OPERATOR_TAKEOVER, Policy, SetHoldReply,
};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::world::{World, minute, respond, spec};
use crate::domain::{Phase, Recipient, RequestInput};

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let (spec, deadline) = (Box::new(spec), Some(minute(60)));
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn handoff() -> HoldSpec {
    HoldSpec {
        to: vec!["@user.ada".to_owned()],
        ..spec(HoldKind::Handoff)
    }
}

fn complete(notes: &str) -> Decision {
    Decision::Complete(Completion {
        notes: notes.to_owned(),
        outcome_type: OutcomeType::Resolved,
        disposition: Disposition::ReturnToAgent,
    })
}

fn reassign(to: &str) -> RequestAction {
    let to = to.to_owned();
    RequestAction::Reassign { to }
}

fn status(world: &World) -> RequestStatus {
    world.view().status
}

/// Barge-in: whoever took the run over has it from the beginning; a pause changes nothing of that.
#[test]
fn a_run_that_an_operator_took_over_has_an_owner_at_once() {
    let spec = HoldSpec {
        reason: Some(OPERATOR_TAKEOVER.to_owned()),
        ..handoff()
    };
    let state = |spec: &HoldSpec| HoldState::Open {
        spec: Box::new(spec.clone()),
        deadline: None,
    };
    let mut world = World::new();
    world.desired_state(1, state(&spec));
    let view = world.view();
    assert_eq!(view.status, RequestStatus::TakenOver);
    assert_eq!(view.assignee.as_deref(), Some("ada"));
    assert!(world.closed().is_empty(), "the executor knows");
    let since = minute(5);
    let frozen = HoldState::Frozen {
        spec: Box::new(spec.clone()),
        since,
        remaining_ms: None,
    };
    world.desired_state(2, frozen);
    world.desired_state(3, state(&spec));
    assert_eq!(status(&world), RequestStatus::TakenOver);
    let refused = world.decide_as("bob", complete("mine")).unwrap_err();
    assert_eq!(refused.status, 403);
    world.decide_as("ada", complete("done")).unwrap();
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Completed);
}

/// S0-AC6, S0-AC7: offered, accepted, taken over, completed.
#[test]
fn the_executor_gets_the_take_over_and_the_end_of_a_handoff() {
    let mut world = asked(handoff());
    assert_eq!(status(&world), RequestStatus::Offered);
    assert_eq!(world.view().assignee.as_deref(), Some("ada"));
    world.act("ada", RequestAction::Accept).unwrap();
    assert_eq!(status(&world), RequestStatus::Accepted);
    assert_eq!(world.due(), Some(minute(60)));
    world.now = minute(10);
    let view = world.act("ada", RequestAction::TakeOver).unwrap();
    assert_eq!(
        (view.status, view.deadline),
        (RequestStatus::TakenOver, None)
    );
    assert_eq!(view.effect, Some(DecisionEffect::Pending));
    let taken = world.closed()[0].clone();
    assert_eq!(
        (taken.outcome, taken.by.as_str()),
        (HoldOutcome::TakenOver, "ada")
    );
    assert_eq!(world.due(), None, "no reminder, and no timeout");
    world.acknowledge_close(CloseReply::Applied);
    assert_eq!(world.view().effect, Some(DecisionEffect::Applied));
    assert_eq!(world.view().outcome, None, "it has not ended");
    world
        .decide_as("ada", complete("called them\u{7}"))
        .unwrap();
    assert_eq!(status(&world), RequestStatus::Completed);
    let done = world.closed()[1];
    assert!(done.rev > taken.rev);
    assert_eq!(
        done.data,
        json!({
            "notes": "called them", "outcome_type": "resolved", "disposition": "return_to_agent",
        })
    );
    assert_eq!(world.due(), None);
    let actions: Vec<_> = world
        .history()
        .into_iter()
        .map(|(action, _)| action)
        .collect();
    assert_eq!(actions, ["opened", "accepted", "taken_over", "completed"]);
    let kinds: Vec<_> = world
        .request_events()
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    let all = [
        RequestEventKind::Opened,
        RequestEventKind::TakenOver,
        RequestEventKind::Decided,
    ];
    assert_eq!(kinds, all);
}

/// S0-AC7: one button may do both.
#[test]
fn a_handoff_is_completed_without_being_taken_over() {
    let mut world = asked(handoff());
    world.decide_as("ada", complete("")).unwrap();
    assert_eq!(world.view().outcome, Some(HoldOutcome::Completed));
    let late = world.act("ada", RequestAction::TakeOver).unwrap_err();
    assert_eq!((late.status, late.code.as_str()), (409, "already_decided"));
    assert_eq!(late.data["winner"]["by"], "ada");
}

#[test]
fn a_desired_state_that_freezes_or_opens_keeps_what_people_did() {
    let mut world = asked(handoff());
    world.act("ada", RequestAction::TakeOver).unwrap();
    let desired_state = |since| HoldState::Frozen {
        spec: Box::new(handoff()),
        since: minute(since),
        remaining_ms: Some(60_000),
    };
    assert_eq!(world.desired_state(2, desired_state(5)), SetHoldReply::Set);
    assert_eq!(
        (status(&world), world.view().remaining_ms),
        (RequestStatus::TakenOver, None)
    );
    world.acknowledge_close(CloseReply::OnResume);
    let (spec, deadline) = (Box::new(handoff()), Some(minute(90)));
    world.desired_state(3, HoldState::Open { spec, deadline });
    assert_eq!(*world.phase(), Phase::Open { deadline: None });
    assert_eq!(world.closed().len(), 2, "the close is sent again on resume");
    assert_eq!(world.view().effect, Some(DecisionEffect::Pending));
}

/// The conflict names the person who was first.
#[test]
fn the_second_take_over_is_refused_with_the_name_of_the_owner() {
    let mut world = asked(spec(HoldKind::Handoff));
    world.act("oscar", RequestAction::TakeOver).unwrap();
    let version = world.view().version;
    assert_eq!(
        world.act("oscar", RequestAction::TakeOver).unwrap().version,
        version
    );
    let lost = world.act("ada", RequestAction::TakeOver).unwrap_err();
    assert_eq!(
        (lost.status, lost.code.as_str()),
        (409, "already_taken_over")
    );
    assert_eq!(lost.data["winner"]["by"], "oscar");
    assert_eq!(
        world.decide_as("ada", complete("")).unwrap_err().code,
        "already_taken_over"
    );
    assert_eq!(
        world.act("ada", RequestAction::Accept).unwrap_err().status,
        409
    );
    let (caller, version) = (world.caller("ada"), Some(1));
    let seen_before = world
        .decide_with(caller, complete(""), version)
        .unwrap_err();
    assert_eq!(
        seen_before.code, "already_taken_over",
        "the refusal names the first person"
    );
    world
        .decide_as("olga", complete("an operator may"))
        .unwrap();
}

#[test]
fn a_reassigned_request_belongs_to_its_new_assignee() {
    let mut world = asked(handoff());
    world.act("ada", reassign("@user.bob")).unwrap();
    assert_eq!(status(&world), RequestStatus::Reassigned);
    assert_eq!(
        world.request_events().last().unwrap(),
        &(RequestEventKind::Assigned, vec!["@user.bob".to_owned()])
    );
    assert_eq!(
        world.decide_as("ada", complete("")).unwrap_err().status,
        403
    );
    let refused = world.act("bob", reassign("@user.nobody")).unwrap_err();
    assert_eq!(
        refused.errors[0].message,
        "User nobody not found or inactive in workspace"
    );
    assert_eq!(
        world
            .act("bob", reassign("@role.empty"))
            .unwrap_err()
            .status,
        422
    );
    let to = "@user.ada".to_owned();
    world.act("bob", RequestAction::Delegate { to }).unwrap();
    assert_eq!(world.view().assignee.as_deref(), Some("bob"));
    world.decide_as("ada", complete("")).unwrap();
}

/// S0-R1, literally.
#[test]
fn a_request_for_an_inactive_user_ends_at_once() {
    for (kind, begins) in [
        (HoldKind::Handoff, "Handoff failed: "),
        (HoldKind::Approval, ""),
    ] {
        let mut spec = spec(kind);
        spec.to = vec!["@user.ghost".to_owned()];
        let mut world = World::new();
        let state = HoldState::Open {
            spec: Box::new(spec),
            deadline: None,
        };
        assert_eq!(world.desired_state(1, state.clone()), SetHoldReply::Decided);
        let closed = world.closed()[0];
        let message = format!("{begins}User ghost not found or inactive in workspace");
        assert_eq!(
            closed.data,
            json!({ "code": "assignee_inactive", "message": message })
        );
        assert_eq!(closed.outcome, HoldOutcome::Cancelled);
        assert_eq!(closed.by, "service:handoff");
        assert_eq!(status(&world), RequestStatus::Withdrawn);
        assert_eq!(
            world.desired_state(2, state),
            SetHoldReply::Decided,
            "it stays"
        );
    }
}

#[test]
fn a_request_for_a_role_without_active_members_goes_to_the_owners() {
    let mut spec = spec(HoldKind::Approval);
    spec.to = vec!["@role.empty".to_owned()];
    let mut world = asked(spec);
    assert_eq!(world.view().to, [""; 0]);
    let note = world.view().history[1].note.clone().unwrap();
    assert!(
        note.contains("@role.empty; addressed to the owners"),
        "{note}"
    );
    world.decide_as("olga", Decision::approve(None)).unwrap();
}

#[test]
fn requests_of_a_disabled_user_are_reassigned() {
    let mut spec = spec(HoldKind::Handoff);
    spec.to = vec!["@role.ops".to_owned()];
    let mut world = asked(spec);
    world.act("oscar", RequestAction::Accept).unwrap();
    let lost = || RequestInput::RecipientLost {
        recipient: Recipient::User("oscar".parse().unwrap()),
    };
    let version = world.view().version;
    world.put(lost()).unwrap();
    assert_eq!(world.view().version, version, "who is active keeps it");
    world.users.get_mut("oscar").unwrap().active = false;
    world.user("otto", &["member", "ops"]);
    world.put(lost()).unwrap();
    let view = world.view();
    assert_eq!(
        (view.assignee, view.to),
        (None, vec!["@role.ops".to_owned()])
    );
    let note = view.history.last().unwrap().note.clone().unwrap();
    assert_eq!(note, "oscar was disabled; reassigned to @role.ops");
    world.users.get_mut("otto").unwrap().active = false;
    world.act("olga", reassign("@user.bob")).unwrap();
    world.users.get_mut("bob").unwrap().active = false;
    let recipient = Recipient::User("bob".parse().unwrap());
    world
        .put(RequestInput::RecipientLost { recipient })
        .unwrap();
    assert_eq!(world.view().to, [""; 0], "nobody is left but the owners");
}

#[test]
fn the_least_loaded_user_gets_a_request() {
    let mut world = World::new();
    world.user("otto", &["member", "ops"]);
    world.loads.insert("oscar".parse().unwrap(), 2);
    let mut spec = spec(HoldKind::Handoff);
    spec.to = vec!["@role.ops".to_owned()];
    spec.assign = Assign::LeastLoaded;
    let spec = Box::new(spec);
    let deadline = None;
    world.desired_state(1, HoldState::Open { spec, deadline });
    assert_eq!(world.view().assignee.as_deref(), Some("otto"));
    let to = vec!["@user.otto".to_owned()];
    assert_eq!(world.request_events(), [(RequestEventKind::Opened, to)]);
}

/// S2-R4: n of m users approve, each once, and the requester is excluded.
#[test]
fn several_users_must_agree_and_one_rejection_ends_it() {
    let policy = |need| HoldSpec {
        policy: Policy {
            need,
            not_requester: true,
        },
        requester: Some("bob".to_owned()),
        to: vec![
            "@user.ada".to_owned(),
            "@user.bob".to_owned(),
            "@role.ops".to_owned(),
        ],
        ..spec(HoldKind::Approval)
    };
    let approve = || Decision::approve(None);
    let mut world = asked(policy(2));
    let refused = world.decide_as("bob", approve()).unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (403, "not_requester")
    );
    let first = world.decide_as("ada", approve()).unwrap();
    assert_eq!(first.effect, DecisionEffect::Pending);
    let votes = first.request.votes.unwrap();
    assert_eq!((votes.have, votes.need), (1, 2));
    assert!(world.closed().is_empty());
    let again = world.decide_as("ada", approve()).unwrap();
    assert_eq!(again.request.version, first.request.version, "counts once");
    world.decide_as("oscar", approve()).unwrap();
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Approved);
    let mut world = asked(policy(3));
    world.decide_as("ada", approve()).unwrap();
    let reason = "no".to_owned();
    world
        .decide_as("oscar", Decision::Reject { reason })
        .unwrap();
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Rejected);
}

/// S3-R3
#[test]
fn an_answer_is_checked_against_the_form() {
    let mut form = spec(HoldKind::Input);
    form.options.clear();
    form.schema = Some(json!({
        "type": "object", "properties": { "amount": { "type": "integer" } }, "required": ["amount"],
    }));
    let mut world = asked(form);
    let answer = |answer| Decision::Respond { answer };
    let refused = world
        .decide_as("ada", answer(json!({ "amount": "x\u{0}" })))
        .unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (422, "invalid_answer")
    );
    let pointer = refused.errors[0].pointer.as_deref();
    assert_eq!(pointer, Some("/decision/respond/answer/amount"));
    world
        .decide_as("ada", answer(json!({ "amount": 3 })))
        .unwrap();
    let mut world = asked(spec(HoldKind::Approval));
    assert_eq!(
        world.decide_as("ada", respond("yes")).unwrap_err().code,
        "wrong_kind"
    );
}

#[test]
fn history_is_bounded_and_keeps_its_first_entry() {
    let mut world = asked(spec(HoldKind::Approval));
    for _ in 0..150 {
        world.act("ada", RequestAction::Acknowledge).unwrap();
    }
    let history = world.view().history;
    assert_eq!((history.len(), history[0].action.as_str()), (100, "opened"));
}
