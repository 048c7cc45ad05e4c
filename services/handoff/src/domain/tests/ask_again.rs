//! Asking again (issue 4): a new request for one that ended without an answer, and that names it.

use chrono::TimeDelta;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{AskAgain, Decision, RequestStatus, RequestView};
use holdpoint_contracts::hold::{Assign, HoldOutcome, HoldSpec, OnTimeout, Policy};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::TIMEOUT_MS;
use holdpoint_holds::limits::{OPTION_CHARS_MAX, RECIPIENTS_MAX, TEXT_CHARS_MAX};

use super::world::{World, hold, input_spec, minute, open, respond, spec};
use crate::domain::{Reply, RequestInput};

/// A hold that oscar of ops opened, with a timeout of one hour.
pub(super) fn opened(spec: HoldSpec) -> World {
    opened_in(World::alone(), spec)
}

fn opened_in(mut world: World, spec: HoldSpec) -> World {
    let caller = world.caller("oscar");
    world.open_as(caller, spec, 3_600_000).unwrap();
    world
}

/// Asks the world's request again. The new request is in another world with the same users.
fn again(world: &World, by: &str, change: impl FnOnce(&mut AskAgain)) -> Result<World, Problem> {
    ask_again_after(world, None, by, change)
}

/// The same, after an earlier caller may have asked again.
pub(super) fn ask_again_after(
    world: &World,
    before: Option<&World>,
    by: &str,
    change: impl FnOnce(&mut AskAgain),
) -> Result<World, Problem> {
    let mut next = world.clone();
    next.others.insert(world.id, world.request.clone().unwrap());
    next.id = world.id.asked_again();
    next.request = before.and_then(|before| before.request.clone());
    let mut wanted = AskAgain {
        id: next.id,
        again: world.id,
        to: None,
        timeout_ms: None,
    };
    change(&mut wanted);
    let caller = next.caller(by);
    let answer = next.put(RequestInput::AskAgain(caller, wanted))?;
    assert!(matches!(answer, Reply::Request(_)));
    Ok(next)
}

fn view(world: &World) -> RequestView {
    world.view()
}

#[test]
fn an_expired_request_is_asked_again_as_it_was() {
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
    assert!(next.decide_as("ada", respond("yes")).is_ok());

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

/// A withdrawn or unassignable request has no answer, and neither does a request that ended with its default.
#[test]
fn a_request_without_an_answer_of_a_person_is_asked_again() {
    let mut world = opened(input_spec());
    let caller = world.caller("oscar");
    world.withdraw_as(caller, None).unwrap();
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

/// A decision is final, an open request is not asked twice, and the request of a run ends with its run.
#[test]
fn a_decided_request_or_one_of_a_run_is_not_asked_again() {
    let code = |world: &World| again(world, "oscar", |_| ()).map(drop).unwrap_err().code;
    let mut world = opened(input_spec());
    assert_eq!(code(&world), "still_open");
    world.decide_as("ada", respond("no")).unwrap();
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
    world.desired_state(1, open(60));
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

/// Only the opener or an operator asks again, because the new request contains the content of the old one.
#[test]
fn only_the_opener_or_an_operator_asks_again() {
    let mut world = opened(input_spec());
    world.now = minute(60);
    world.fire();
    let refused = again(&world, "bob", |_| ()).map(drop).unwrap_err();
    assert_eq!((refused.status, &*refused.code), (403, "forbidden"));
}

/// A-H5: naming another person as requester does not let the opener decide their own request.
#[test]
fn the_opener_for_a_requester_is_excluded_too() {
    let mut world = opened(HoldSpec {
        policy: Policy {
            need: 1,
            not_requester: true,
        },
        requester: Some("bob".to_owned()),
        ..spec(HoldKind::Approval)
    });
    world.user("bob", &["operator"]);
    let approve = Decision::approve(None);
    for barred in ["oscar", "bob"] {
        let refused = world.decide_as(barred, approve.clone()).unwrap_err();
        assert_eq!(refused.code, "not_requester", "{barred}");
    }
    assert!(world.decide_as("ada", approve).is_ok());
}

/// The requester stays excluded if another user asks again.
#[test]
fn the_first_requester_stays_excluded_when_an_operator_asks_again() {
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
    let approve = Decision::approve(None);
    assert_eq!(
        next.decide_as("oscar", approve.clone()).unwrap_err().code,
        "not_requester"
    );
    assert!(next.decide_as("ada", approve).is_ok());
}

/// Issue 4, ask again: one of two callers opens the new request. The other one gets it, even after its answer.
#[test]
fn the_second_caller_who_asks_again_gets_the_first_new_request() {
    let mut old = opened(input_spec());
    old.user("bob", &["operator"]);
    old.now = minute(60);
    old.fire();
    let mut next = again(&old, "oscar", |_| ()).unwrap();
    let id = next.id;
    let second = ask_again_after(&old, Some(&next), "bob", |_| ()).unwrap();
    assert_eq!(view(&second), view(&next));
    let same = ask_again_after(&old, Some(&next), "bob", |wanted| {
        wanted.to = Some(view(&next).to);
        wanted.timeout_ms = Some(3_600_000);
    });
    assert_eq!(view(&same.unwrap()), view(&next));
    let others: [fn(&mut AskAgain); 2] = [
        |wanted| wanted.to = Some(vec!["@user.ada".to_owned()]),
        |wanted| wanted.timeout_ms = Some(60_000),
    ];
    for other in others {
        let problem = ask_again_after(&old, Some(&next), "bob", other).map(drop);
        let problem = problem.unwrap_err();
        assert_eq!((problem.status, &*problem.code), (409, "asked_again"));
        assert_eq!(problem.data["id"], id.to_string());
        assert!(
            problem.detail.contains(&id.to_string()),
            "{}",
            problem.detail
        );
    }
    let nobody = ask_again_after(&old, Some(&next), "ada", |_| ()).map(drop);
    assert_eq!(nobody.unwrap_err().status, 403);
    next.decide_as("ada", respond("yes")).unwrap();
    let late = ask_again_after(&old, Some(&next), "bob", |_| ()).unwrap();
    assert_eq!(view(&late).decided_by.as_deref(), Some("ada"));
}

/// A request is asked again once. If the new request ends too, the caller asks the new one again.
#[test]
fn a_new_request_that_ended_is_asked_again_itself() {
    let mut old = opened(input_spec());
    old.now = minute(60);
    old.fire();
    let mut next = again(&old, "oscar", |_| ()).unwrap();
    next.now = minute(120);
    next.fire();
    let problem = ask_again_after(&old, Some(&next), "oscar", |_| ()).map(drop);
    let problem = problem.unwrap_err();
    assert_eq!(problem.code, "asked_again");
    let says = format!("which has ended too; ask `{}` again", next.id);
    assert!(problem.detail.contains(&says), "{}", problem.detail);
    let third = again(&next, "oscar", |_| ()).unwrap();
    assert_ne!(third.id, next.id);
    assert_eq!(view(&third).asks_again, Some(next.id));
}

/// A requester who was disabled since is still named and excluded, which is not an error.
#[test]
fn a_disabled_requester_does_not_prevent_asking_again() {
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
    world.users.get_mut("oscar").unwrap().active = false;
    let mut next = again(&world, "bob", |_| ()).unwrap();
    assert_eq!(view(&next).asked_by, ["bob", "oscar"]);
    next.users.get_mut("oscar").unwrap().active = true;
    let approve = Decision::approve(None);
    assert_eq!(
        next.decide_as("oscar", approve).unwrap_err().code,
        "not_requester"
    );
}

/// `World::decide` limits rounds like the kernel: a named policy, its role and the loads are loaded in few rounds.
#[test]
fn asking_again_by_a_policy_is_decided_in_few_rounds() {
    let mut world = World::alone();
    super::policies::of_ops(&mut world, "big");
    let spec = HoldSpec {
        to: Vec::new(),
        policies: vec!["big".parse().unwrap()],
        assign: Assign::LeastLoaded,
        ..spec(HoldKind::Approval)
    };
    let mut world = opened_in(world, spec);
    world.now = minute(120);
    world.fire();
    world.user("bob", &["operator"]);
    world.user("anna", &["ops"]);
    let next = again(&world, "bob", |_| ()).unwrap();
    assert_eq!(view(&next).assignee.as_deref(), Some("anna"));
}

/// Mend A-H5: an opener stays excluded after another user has asked again.
#[test]
fn the_first_opener_stays_excluded_when_another_user_asks_again() {
    let mut world = World::alone();
    // Operators may ask again for other openers.
    for name in ["ada", "otto"] {
        world.user(name, &["operator"]);
    }
    let asked = HoldSpec {
        policy: Policy {
            need: 1,
            not_requester: true,
        },
        requester: Some("bob".to_owned()),
        to: vec![
            "@user.oscar".to_owned(),
            "@user.ada".to_owned(),
            "@user.otto".to_owned(),
            "@role.owner".to_owned(),
        ],
        ..spec(HoldKind::Approval)
    };
    let mut world = opened_in(world, asked);
    for by in ["ada", "otto"] {
        world.now += TimeDelta::hours(1);
        world.fire();
        assert_eq!(view(&world).status, RequestStatus::Expired);
        let caller = world.caller(by);
        let mut next = world.clone();
        next.others.insert(world.id, world.request.clone().unwrap());
        next.id = world.id.asked_again();
        next.request = None;
        let wanted = AskAgain {
            id: next.id,
            again: world.id,
            to: None,
            timeout_ms: None,
        };
        next.put(RequestInput::AskAgain(caller, wanted)).unwrap();
        world = next;
    }
    for name in ["oscar", "ada", "otto"] {
        let said = world.decide_as(name, Decision::approve(None));
        assert_eq!(said.unwrap_err().code, "not_requester", "{name}");
    }
}

/// Mend C: the limits have become lower since the request was opened. It is asked again as it was, because
/// nobody can edit it, and its people could answer it before.
#[test]
fn an_old_request_beyond_the_limits_is_asked_again_as_it_was() {
    let mut world = opened(input_spec());
    let old = world.request.as_mut().unwrap();
    let spec = old.spec.as_mut().unwrap();
    spec.options = vec!["yes".to_owned(), "x".repeat(OPTION_CHARS_MAX + 1)];
    spec.question = "x".repeat(TEXT_CHARS_MAX + 1);
    old.timeout_ms = TIMEOUT_MS.end() + 1;
    let expected = spec.clone();
    world.now = minute(60);
    world.fire();
    let mut next = again(&world, "oscar", |_| ()).unwrap();
    let new = view(&next);
    assert_eq!(
        (new.options, new.question),
        (expected.options.clone(), expected.question)
    );
    let timeout = TimeDelta::milliseconds(i64::try_from(TIMEOUT_MS.end() + 1).unwrap());
    assert_eq!(new.deadline, Some(minute(60) + timeout));
    assert!(next.decide_as("ada", respond(&expected.options[1])).is_ok());
}

/// The limits of today count for what the caller states, even if the old request is beyond them.
#[test]
fn a_stated_recipient_or_timeout_beyond_the_limits_is_refused_by_its_field() {
    let mut world = opened(input_spec());
    let old = world.request.as_mut().unwrap();
    old.spec.as_mut().unwrap().to = vec!["@user.ada".to_owned(); RECIPIENTS_MAX + 1];
    old.timeout_ms = TIMEOUT_MS.end() + 1;
    world.now = minute(60);
    world.fire();
    let changes: [fn(&mut AskAgain); 2] = [
        |wanted| wanted.to = Some(vec!["@user.oscar".to_owned(); RECIPIENTS_MAX + 1]),
        |wanted| wanted.timeout_ms = Some(TIMEOUT_MS.end() + 1),
    ];
    for (change, pointer) in changes.into_iter().zip(["/spec/to", "/timeout_ms"]) {
        let refused = again(&world, "oscar", change).map(drop).unwrap_err();
        let pointers: Vec<_> = refused
            .errors
            .iter()
            .filter_map(|error| error.pointer.as_deref())
            .collect();
        assert_eq!((refused.status, pointers), (422, vec![pointer]));
    }
}
