//! Who may decide, what is an answer, and what the loser is told.

use holdpoint_auth::AuthError;
use holdpoint_contracts::handoff::{Decision, Effect as DecisionEffect};
use holdpoint_contracts::hold::HoldState;
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::world::{World, gone, open, respond, signed, spec, unsigned};
use crate::domain::model::limits::LATE_MAX;
use crate::domain::{Caller, Proof};
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
fn the_first_wins_and_the_loser_is_told_who_when_and_what() {
    let mut world = asked();
    let decided = world.say("ada", respond("yes")).unwrap();
    assert!(decided.recorded);
    assert_eq!(decided.effect, DecisionEffect::Pending);
    let lost = world.say("oscar", respond("no")).unwrap_err();
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
fn the_same_person_may_say_the_same_again() {
    let mut world = asked();
    world.say("ada", respond("yes")).unwrap();
    let version = world.view().version;
    let again = world.say("ada", respond("yes")).unwrap();
    assert_eq!(again.request.version, version);
    assert_eq!(world.say("ada", respond("no")).unwrap_err().status, 409);
    // A late answer is kept once, however often it comes.
    world.say("ada", respond("no")).unwrap_err();
    assert_eq!(world.view().late.len(), 1);
}

#[test]
fn late_answers_are_bounded() {
    let mut world = asked();
    world.say("ada", respond("yes")).unwrap();
    for n in 0..LATE_MAX + 3 {
        let name = format!("op{n}");
        world.user(&name, &["operator"]);
        let lost = world.say(&name, respond("no")).unwrap_err();
        assert_eq!(lost.data["late"], json!(n < LATE_MAX));
    }
    assert_eq!(world.view().late.len(), LATE_MAX);
}

#[test]
fn who_answers_what_is_gone_is_told_so() {
    let mut world = asked();
    world.desired_state(2, gone());
    let lost = world.say("ada", respond("yes")).unwrap_err();
    assert_eq!(lost.data["winner"]["outcome"], "cancelled");
}

/// DESIGN, Identity: only by a signed word, only whoever is asked, or an operator.
#[test]
fn only_active_people_who_are_asked_decide() {
    let mut world = asked();
    let status = |caller: Caller| match world.clone().say_as(caller, respond("yes"), None) {
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
    assert_eq!(world.say("ada", respond("yes")).unwrap_err().status, 403);
}

/// S3-R3
#[test]
fn an_answer_is_one_of_the_options() {
    let mut world = asked();
    let refused = world.say("ada", respond("maybe")).unwrap_err();
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (422, "invalid_answer")
    );
    let error = &refused.errors[0];
    assert_eq!(error.pointer.as_deref(), Some("/decision/respond/answer"));
    assert_eq!(error.message, "answer with one of: yes, no");
    assert_eq!(world.view().version, 1, "nothing has changed");
    world.say("ada", respond("no")).unwrap();
}

#[test]
fn kinds_are_decided_each_in_their_way() {
    let approve = || Decision::Approve { comment: None };
    let reject = |reason: &str| Decision::Reject {
        reason: reason.to_owned(),
    };
    let code =
        |result: Result<_, holdpoint_contracts::Problem>| result.map(|_| ()).unwrap_err().code;
    assert_eq!(code(asked().say("ada", approve())), "wrong_kind");
    assert_eq!(code(asked().say("ada", reject("no"))), "wrong_kind");
    assert_eq!(code(approval().say("ada", respond("yes"))), "wrong_kind");
    assert_eq!(code(approval().say("ada", reject("  "))), "invalid_answer");
    let long = "x".repeat(ANSWER_BYTES_MAX);
    assert_eq!(code(approval().say("ada", reject(&long))), "invalid_answer");
    let rejected = approval().say("ada", reject("too dear")).unwrap();
    assert_eq!(rejected.request.response, Some(json!("too dear")));
    assert!(approval().say("ada", approve()).is_ok());
}

#[test]
fn whoever_has_seen_an_older_state_is_asked_to_look_again() {
    let mut world = asked();
    let caller = world.caller("ada");
    let stale = world.say_as(caller.clone(), respond("yes"), Some(7));
    assert_eq!(stale.unwrap_err().code, "version_conflict");
    assert!(world.say_as(caller, respond("yes"), Some(1)).is_ok());
}
