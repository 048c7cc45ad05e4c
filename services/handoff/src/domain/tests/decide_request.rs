//! Who may decide, valid answers, and the refusal of a late decision.

use holdpoint_auth::AuthError;
use holdpoint_contracts::handoff::{Decision, Effect as DecisionEffect};
use holdpoint_contracts::hold::{CloseReply, HoldState};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::HoldKind;
use holdpoint_decision::Decider as _;
use serde_json::json;

use super::world::{World, gone, open, respond, signed, spec, unsigned};
use crate::domain::model::limits::LATE_MAX;
use crate::domain::{Aggregate, Caller, HandoffDomain, Proof, RequestInput};
use holdpoint_holds::limits::ANSWER_BYTES_MAX;

fn asked() -> World {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world
}

fn approval() -> World {
    let mut world = World::new();
    let spec = Box::new(spec(HoldKind::Approval));
    let deadline = None;
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

/// Races: two answers.
#[test]
fn the_first_decision_wins_and_the_late_caller_gets_the_winner() {
    let mut world = asked();
    let decided = world.decide_as("ada", respond("yes")).unwrap();
    assert!(decided.recorded);
    assert_eq!(decided.effect, DecisionEffect::Pending);
    let lost = world.decide_as("oscar", respond("no")).unwrap_err();
    assert_eq!((lost.status, lost.code.as_str()), (409, "already_decided"));
    assert!(lost.errors.is_empty());
    let winner = json!({ "by": "ada", "at": "2026-01-01T00:00:00.000Z", "outcome": "answered",
        "data": "yes" });
    assert_eq!(*lost.data, json!({ "winner": winner, "late": true }));
    let view = world.view();
    assert_eq!(view.response, Some(json!("yes")));
    assert_eq!((view.late.len(), view.late[0].by.as_str()), (1, "oscar"));
    assert_eq!(view.late[0].data["data"], json!("no"));
}

/// Races: same actor with the same content: 200 with the stored result.
#[test]
fn a_person_may_repeat_a_decision() {
    let mut world = asked();
    world.decide_as("ada", respond("yes")).unwrap();
    let version = world.view().version;
    let again = world.decide_as("ada", respond("yes")).unwrap();
    assert_eq!(again.request.version, version);
    assert_eq!(
        world.decide_as("ada", respond("no")).unwrap_err().status,
        409
    );
    // A late answer is kept once, however often it comes.
    world.decide_as("ada", respond("no")).unwrap_err();
    assert_eq!(world.view().late.len(), 1);
}

#[test]
fn late_answers_are_bounded() {
    let mut world = asked();
    world.decide_as("ada", respond("yes")).unwrap();
    for n in 0..LATE_MAX + 3 {
        let name = format!("op{n}");
        world.user(&name, &["operator"]);
        let lost = world.decide_as(&name, respond("no")).unwrap_err();
        assert_eq!(lost.data["late"], json!(n < LATE_MAX));
    }
    assert_eq!(world.view().late.len(), LATE_MAX);
}

#[test]
fn a_decision_on_a_withdrawn_request_is_refused() {
    let mut world = asked();
    world.desired_state(2, gone());
    let lost = world.decide_as("ada", respond("yes")).unwrap_err();
    assert_eq!(lost.data["winner"]["outcome"], "cancelled");
}

/// DESIGN, Identity: only a signed command of a recipient or an operator decides.
#[test]
fn only_active_recipients_and_operators_decide() {
    let mut world = asked();
    let status = |caller: Caller| match world.clone().decide_with(caller, respond("yes"), None) {
        Ok(_) => 200,
        Err(problem) => problem.status,
    };
    assert_eq!(status(unsigned("ada")), 403);
    assert_eq!(status(unsigned("service:executor")), 403);
    assert_eq!(status(signed("bob", &["member"])), 403, "not asked");
    assert_eq!(status(signed("nobody", &["owner"])), 403, "unknown here");
    assert_eq!(status(signed("ada", &["agent"])), 403, "an agent's token");
    assert_eq!(status(signed("bob", &["owner"])), 403, "not any more");
    assert_eq!(status(signed("ada", &["member"])), 200);
    assert_eq!(status(signed("oscar", &["member"])), 200, "by role");
    assert_eq!(status(signed("olga", &["owner"])), 200, "operates");
    assert_eq!(status(signed("olga", &["member"])), 403, "a lesser token");
    for bad in [AuthError::Forged, AuthError::Expired, AuthError::Malformed] {
        let caller = Caller {
            actor: Actor("ada".to_owned()),
            proof: Proof::Bad(bad),
        };
        assert_eq!(status(caller), 401);
    }
    world.users.get_mut("ada").unwrap().active = false;
    assert_eq!(
        world.decide_as("ada", respond("yes")).unwrap_err().status,
        403
    );
}

/// S3-R3
#[test]
fn an_answer_is_one_of_the_options() {
    let mut world = asked();
    let refused = world.decide_as("ada", respond("maybe")).unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (422, "invalid_answer")
    );
    let error = &refused.errors[0];
    assert_eq!(error.pointer.as_deref(), Some("/decision/respond/answer"));
    assert_eq!(error.message, "answer with one of: yes, no");
    assert_eq!(world.view().version, 1, "nothing has changed");
    world.decide_as("ada", respond("no")).unwrap();
}

#[test]
fn each_kind_takes_only_its_own_decisions() {
    let approve = || Decision::approve(None);
    let reject = |reason: &str| Decision::Reject {
        reason: reason.to_owned(),
    };
    let code =
        |result: Result<_, holdpoint_contracts::Problem>| result.map(|_| ()).unwrap_err().code;
    assert_eq!(code(asked().decide_as("ada", approve())), "wrong_kind");
    assert_eq!(code(asked().decide_as("ada", reject("no"))), "wrong_kind");
    assert_eq!(
        code(approval().decide_as("ada", respond("yes"))),
        "wrong_kind"
    );
    assert_eq!(
        code(approval().decide_as("ada", reject("  "))),
        "invalid_answer"
    );
    let long = "x".repeat(ANSWER_BYTES_MAX);
    assert_eq!(
        code(approval().decide_as("ada", reject(&long))),
        "invalid_answer"
    );
    let revise = || Decision::Revise {
        instructions: "shorter".to_owned(),
    };
    assert_eq!(code(approval().decide_as("ada", revise())), "not_revisable");
    assert_eq!(code(asked().decide_as("ada", revise())), "wrong_kind");
    let rejected = approval().decide_as("ada", reject("too dear")).unwrap();
    assert_eq!(rejected.request.response, Some(json!("too dear")));
    assert!(approval().decide_as("ada", approve()).is_ok());
}

#[test]
fn a_decision_on_an_older_version_is_refused() {
    let mut world = asked();
    let caller = world.caller("ada");
    let stale = world.decide_with(caller.clone(), respond("yes"), Some(7));
    assert_eq!(stale.unwrap_err().code, "version_conflict");
    assert!(world.decide_with(caller, respond("yes"), Some(1)).is_ok());
}

/// Swift: a decided request is in memory until the executor and the scheduler have acknowledged its end.
#[test]
fn a_decided_request_is_cached_until_its_end_is_acknowledged() {
    let is_cached = |world: &World| {
        let request = world.request.clone().unwrap();
        HandoffDomain::is_hot(&Aggregate::Request(Box::new(request)))
    };
    for timer_is_first in [true, false] {
        let mut world = asked();
        assert!(!is_cached(&world), "it may wait for days");
        world.decide_as("ada", respond("yes")).unwrap();
        let rev = world.request.as_ref().unwrap().timer.rev;
        for is_timer in [timer_is_first, !timer_is_first] {
            assert!(is_cached(&world));
            if is_timer {
                world.put(RequestInput::TimerAcked { rev }).unwrap();
            } else {
                world.acknowledge_close(CloseReply::Applied);
            }
        }
        assert!(!is_cached(&world));
    }
}
