//! Asking again (issue 4): a new request that names the old one, once nobody has answered that.
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{AskAgain, RequestStatus, RequestView};
use holdpoint_contracts::hold::{HoldOutcome, HoldSpec, OnTimeout, Policy};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::HoldId;

use super::world::{World, hold, input_spec, minute, open, respond, spec};
use crate::domain::{Answer, RequestInput};

/// Opened by oscar of ops, for an hour.
fn opened(spec: HoldSpec) -> World {
    let mut world = World::alone();
    let caller = world.caller("oscar");
    let input = RequestInput::Open {
        caller,
        spec: Box::new(spec),
        timeout_ms: 3_600_000,
    };
    world.put(input).unwrap();
    world
}

/// Asks the world's request again, as another world of the same people.
fn again(world: &World, by: &str, change: impl FnOnce(&mut AskAgain)) -> Result<World, Problem> {
    let mut next = world.clone();
    next.others.insert(world.id, world.request.clone().unwrap());
    next.id = HoldId::standalone();
    next.request = None;
    let mut wanted = AskAgain {
        id: next.id,
        again: world.id,
        to: None,
        timeout_ms: None,
    };
    change(&mut wanted);
    let caller = next.caller(by);
    let answer = next.put(RequestInput::AskAgain { caller, wanted })?;
    assert!(matches!(answer, Answer::Request(_)));
    Ok(next)
}

fn view(world: &World) -> RequestView {
    world.view()
}

#[test]
fn what_nobody_answered_in_time_is_asked_again_as_it_was() {
    let mut world = opened(HoldSpec {
        context: serde_json::json!({ "version": "4.2" }),
        ..input_spec()
    });
    world.now = minute(60);
    world.fire();
    let old = view(&world);
    assert_eq!(old.status, RequestStatus::Expired);
    assert_eq!(old.actions, ["ask_again"]);
    let next = again(&world, "oscar", |_| ()).unwrap();
    let new = view(&next);
    assert_eq!(new.asks_again, Some(old.id));
    assert_ne!(new.id, old.id);
    assert_eq!(new.status, RequestStatus::Open);
    assert_eq!(
        (&new.question, &new.to, &new.context),
        (&old.question, &old.to, &old.context)
    );
    assert_eq!(new.options, old.options);
    assert_eq!(new.deadline, Some(minute(120)), "as long as before");
    let mut next = next;
    assert!(next.say("ada", respond("yes")).is_ok());

    let other = again(&world, "oscar", |wanted| {
        wanted.to = Some(vec!["@user.ada".to_owned()]);
        wanted.timeout_ms = Some(60_000);
    });
    let other = view(&other.unwrap());
    assert_eq!(other.to, ["@user.ada"]);
    assert_eq!(other.deadline, Some(minute(61)));
    let nobody = again(&world, "oscar", |wanted| {
        wanted.to = Some(vec!["@user.nobody".to_owned()]);
    });
    assert_eq!(
        nobody.unwrap_err().errors[0].pointer.as_deref(),
        Some("/spec/to/0")
    );
}

/// What was taken back, and what could not be put to anybody, has no answer either; a default that
/// counted because nobody answered is none of a person's.
#[test]
fn what_has_no_answer_of_a_person_is_asked_again() {
    let mut world = opened(input_spec());
    let caller = world.caller("oscar");
    world.put(RequestInput::Withdraw { caller }).unwrap();
    assert!(again(&world, "oscar", |_| ()).is_ok());

    let mut world = opened(HoldSpec {
        on_timeout: OnTimeout::Default,
        default: Some("no".into()),
        ..input_spec()
    });
    world.now = minute(60);
    world.fire();
    assert_eq!(view(&world).response, Some("no".into()));
    assert!(again(&world, "oscar", |_| ()).is_ok());
}

/// A decision stands; what is open is not asked twice; a run's goes with its run.
#[test]
fn what_stands_or_is_a_runs_is_not_asked_again() {
    let code = |world: &World| again(world, "oscar", |_| ()).map(drop).unwrap_err().code;
    let mut world = opened(input_spec());
    assert_eq!(code(&world), "still_open");
    world.say("ada", respond("no")).unwrap();
    assert_eq!(view(&world).outcome, Some(HoldOutcome::Answered));
    let problem = again(&world, "oscar", |_| ()).map(drop).unwrap_err();
    assert_eq!(problem.code, "already_decided");
    assert!(
        problem.detail.contains("answered by ada"),
        "{}",
        problem.detail
    );
    assert!(view(&world).actions.is_empty());

    let mut timer = spec(HoldKind::Timer);
    timer.to = Vec::new();
    let mut world = opened(timer);
    world.now = minute(60);
    world.fire();
    assert_eq!(code(&world), "wrong_kind");

    let mut world = World::new();
    world.id = hold(1);
    world.wish(1, open(60));
    world.now = minute(60);
    world.fire();
    let problem = again(&world, "oscar", |_| ()).map(drop).unwrap_err();
    assert_eq!(problem.code, "not_standalone");
    assert!(
        problem.detail.contains("belongs to a run"),
        "{}",
        problem.detail
    );
}

/// Only whoever asked, or an operator: what is asked again carries all that was told with it.
#[test]
fn nobody_else_asks_it_again() {
    let mut world = opened(input_spec());
    world.now = minute(60);
    world.fire();
    let refused = again(&world, "bob", |_| ()).map(drop).unwrap_err();
    assert_eq!((refused.status, &*refused.code), (403, "forbidden"));
}

/// Whoever wanted it is still barred, also where somebody else asks again for them.
#[test]
fn asking_again_for_somebody_lets_them_not_decide_it() {
    let mut world = opened(HoldSpec {
        policy: Policy {
            need: 1,
            not_requester: true,
        },
        ..spec(HoldKind::Approval)
    });
    world.now = minute(60);
    world.fire();
    world.user("bob", &["operator"]);
    let mut next = again(&world, "bob", |_| ()).unwrap();
    assert_eq!(view(&next).asked_by, ["bob", "oscar"]);
    let approve = holdpoint_contracts::handoff::Decision::Approve { comment: None };
    assert_eq!(
        next.say("oscar", approve.clone()).unwrap_err().code,
        "not_requester"
    );
    assert!(next.say("ada", approve).is_ok());
}
