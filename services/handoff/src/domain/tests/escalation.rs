//! The ladder of a request (S4-R15 for holds on people).

use holdpoint_contracts::handoff::{Decision, RequestAction, RequestStatus};
use holdpoint_contracts::hold::{
    HoldOutcome, HoldSpec, HoldState, OnTimeout, Priority, Rung, RungAct,
};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use proptest::prelude::*;
use serde_json::json;

use super::world::{World, minute, spec};

fn rung(minutes: u64, act: RungAct, to: &[&str]) -> Rung {
    Rung {
        after_ms: minutes * 60_000,
        act,
        to: to.iter().map(|one| (*one).to_owned()).collect(),
    }
}

fn state(spec: &HoldSpec, deadline: Option<i64>) -> HoldState {
    HoldState::Open {
        spec: Box::new(spec.clone()),
        deadline: deadline.map(minute),
    }
}

fn laddered(ladder: Vec<Rung>) -> (World, HoldSpec) {
    let spec = HoldSpec {
        ladder,
        on_timeout: OnTimeout::Escalate,
        ..spec(HoldKind::Approval)
    };
    let mut world = World::new();
    world.desired_state(1, state(&spec, Some(600)));
    (world, spec)
}

/// Fires the timer at the minute that it is set to.
fn fire_at(world: &mut World, at: i64) {
    assert_eq!(world.due(), Some(minute(at)));
    world.now = minute(at);
    world.fire();
}

/// S4-R15: each rung fires once and has its effect.
#[test]
fn rungs_fire_in_order_and_each_once() {
    let (mut world, _) = laddered(vec![
        rung(30, RungAct::Broaden, &["@user.bob"]),
        rung(10, RungAct::Notify, &["@role.ops"]),
        rung(20, RungAct::Raise, &["@role.ops"]),
        rung(40, RungAct::Reassign, &["@user.bob"]),
    ]);
    fire_at(&mut world, 10);
    let ops = vec!["@role.ops".to_owned()];
    assert_eq!(
        world.request_events().last().unwrap(),
        &(RequestEventKind::Escalated, ops)
    );
    fire_at(&mut world, 20);
    assert_eq!(world.view().priority, Priority::High);
    fire_at(&mut world, 30);
    assert_eq!(world.view().assignee, None);
    fire_at(&mut world, 40);
    assert_eq!(world.view().assignee.as_deref(), Some("bob"));
    assert_eq!(world.due(), Some(minute(600)), "its deadline");
    fire_at(&mut world, 600);
    assert_eq!(world.view().status, RequestStatus::Open, "it stays");
    fire_at(&mut world, 40 + 24 * 60);
    let (kind, to) = world.request_events().pop().unwrap();
    assert_eq!(
        (kind, to.len()),
        (RequestEventKind::Escalated, 0),
        "it ends at the owners"
    );
    assert_eq!(world.request.unwrap().timer.due, None);
}

/// API, `on_timeout: escalate`: at a deadline before the next rung, that rung fires once. If no rung is left, the
/// owners are notified. No rung ends a request that stays open.
#[test]
fn at_the_deadline_the_next_rung_fires_and_the_request_stays_open() {
    let (mut world, _) = laddered(vec![
        rung(10, RungAct::Notify, &["@role.ops"]),
        rung(700, RungAct::Broaden, &["@user.bob"]),
        rung(800, RungAct::Fail, &[]),
    ]);
    fire_at(&mut world, 10);
    fire_at(&mut world, 600);
    let expected = (RequestEventKind::Escalated, vec!["@user.bob".to_owned()]);
    assert_eq!(world.request_events().last(), Some(&expected));
    let view = world.view();
    assert_eq!((view.status, view.also), (RequestStatus::Open, expected.1));
    assert!(view.escalated_at.is_some());
    fire_at(&mut world, 800);
    assert_eq!(world.view().status, RequestStatus::Expired);

    for ladder in [vec![], vec![rung(700, RungAct::Fail, &[])]] {
        let (mut world, _) = laddered(ladder);
        fire_at(&mut world, 600);
        assert_eq!(
            world.request_events().last(),
            Some(&(RequestEventKind::Escalated, vec![]))
        );
        assert_eq!(world.view().status, RequestStatus::Open);
    }
}

/// Issue 4, "acknowledge and re-trigger": a user who acknowledged and does not act is notified again, and so are
/// the recipients of later rungs. The history counts the rounds.
#[test]
fn a_user_who_acknowledged_and_does_not_act_is_notified_again() {
    let (mut world, _) = laddered(vec![
        rung(10, RungAct::Notify, &["@role.ops"]),
        rung(25, RungAct::Notify, &[]),
    ]);
    fire_at(&mut world, 10);
    world.now = minute(12);
    let seen = world.act("ada", RequestAction::Acknowledge).unwrap();
    let note = seen.history.last().unwrap().note.clone().unwrap();
    assert!(note.starts_with("no reminders for 30 minutes"), "{note}");
    fire_at(&mut world, 42);
    let ops = (RequestEventKind::Escalated, vec!["@role.ops".to_owned()]);
    assert_eq!(world.request_events().last(), Some(&ops));
    fire_at(&mut world, 57);
    let notes: Vec<_> = world
        .view()
        .history
        .into_iter()
        .filter_map(|one| one.note)
        .collect();
    let count = |words: &str| notes.iter().filter(|note| note.contains(words)).count();
    assert_eq!(count("notified @role.ops"), 2, "{notes:?}");
    assert_eq!(
        count("round 2, after an acknowledgement: notified"),
        2,
        "{notes:?}"
    );
    fire_at(&mut world, 600);
    assert!(world.view().escalated_at.is_some());
}

fn notes(world: &World) -> Vec<String> {
    let history = world.view().history.into_iter();
    history.filter_map(|one| one.note).collect()
}

/// Issue 4, "acknowledge and re-trigger": a second round notifies, but has no effect twice. An accepted request
/// keeps its assignee and its priority.
#[test]
fn a_rung_has_its_effect_once_and_only_notifies_after_an_acknowledgement() {
    let (mut world, _) = laddered(vec![
        rung(10, RungAct::Raise, &["@role.ops"]),
        rung(20, RungAct::Reassign, &["@user.bob"]),
    ]);
    fire_at(&mut world, 10);
    fire_at(&mut world, 20);
    world.act("bob", RequestAction::Accept).unwrap();
    for seen in [22, 64] {
        world.now = minute(seen);
        world.act("bob", RequestAction::Acknowledge).unwrap();
        fire_at(&mut world, seen + 30);
        assert_eq!(world.view().priority, Priority::High);
        let ops = (RequestEventKind::Escalated, vec!["@role.ops".to_owned()]);
        assert_eq!(world.request_events().last(), Some(&ops));
        fire_at(&mut world, seen + 40);
        assert_eq!(world.view().assignee.as_deref(), Some("bob"));
        assert!(world.request.as_ref().unwrap().progress.accepted.is_some());
    }
    let last = notes(&world).pop().unwrap();
    let expected = "round 3, after an acknowledgement: notified @user.bob";
    assert_eq!(last, expected);
}

/// A rung that had not fired still has its effect, except that an accepted request is not reassigned.
#[test]
fn a_rung_that_had_not_fired_before_an_acknowledgement_has_its_effect_later() {
    for (accepts, has_it) in [(false, "bob"), (true, "ada")] {
        let (mut world, _) = laddered(vec![
            rung(10, RungAct::Notify, &["@role.ops"]),
            rung(20, RungAct::Reassign, &["@user.bob"]),
        ]);
        fire_at(&mut world, 10);
        world.now = minute(12);
        world.act("ada", RequestAction::Acknowledge).unwrap();
        if accepts {
            world.act("ada", RequestAction::Accept).unwrap();
        }
        fire_at(&mut world, 42);
        fire_at(&mut world, 52);
        assert_eq!(world.view().assignee.as_deref(), Some(has_it));
    }
}

/// The quiet time ends at the deadline at the latest. The history states when, and what follows.
#[test]
fn an_acknowledgement_names_a_deadline_that_precedes_the_next_rung() {
    let said = |world: &mut World| {
        world.act("ada", RequestAction::Acknowledge).unwrap();
        notes(world).pop().unwrap()
    };
    let (mut world, _) = laddered(vec![rung(10, RungAct::Notify, &["@role.ops"])]);
    fire_at(&mut world, 10);
    world.now = minute(569);
    assert!(said(&mut world).starts_with("no reminders for 30 minutes"));
    world.now = minute(571);
    assert_eq!(
        said(&mut world),
        "no reminders until the deadline at 2026-01-01T10:00:00.000Z; then the next people are notified, and it \
         stays open"
    );
    fire_at(&mut world, 600);
    assert!(said(&mut world).starts_with("no reminders for 30 minutes"));

    let asked = super::world::input_spec();
    let frozen = |minutes: u64| HoldState::Frozen {
        spec: Box::new(asked.clone()),
        since: minute(0),
        remaining_ms: Some(minutes * 60_000),
    };
    let mut world = World::new();
    world.desired_state(1, frozen(60));
    assert_eq!(
        said(&mut world),
        "no reminders until the deadline after the pause; then it ends without an answer"
    );
}

/// The quiet time is at least the time of the first rung, so that no reminder comes sooner.
#[test]
fn an_acknowledgement_never_brings_a_reminder_forward() {
    for (kind, hours) in [(HoldKind::Handoff, 24), (HoldKind::Input, 6)] {
        let mut world = World::new();
        world.desired_state(1, state(&spec(kind), None));
        world.act("ada", RequestAction::Acknowledge).unwrap();
        fire_at(&mut world, hours * 60);
        world.act("ada", RequestAction::Acknowledge).unwrap();
        fire_at(&mut world, 2 * hours * 60);
    }
}

/// A pause stops the clock of what was seen, too; and whoever gets it next begins anew.
#[test]
fn a_pause_extends_an_acknowledgement_and_a_reassignment_ends_it() {
    let (mut world, spec) = laddered(vec![rung(10, RungAct::Notify, &[])]);
    world.act("ada", RequestAction::Acknowledge).unwrap();
    let frozen = HoldState::Frozen {
        spec: Box::new(spec.clone()),
        since: minute(20),
        remaining_ms: Some(580 * 60_000),
    };
    world.now = minute(20);
    world.desired_state(2, frozen);
    world.now = minute(100);
    world.desired_state(3, state(&spec, Some(680)));
    assert_eq!(world.due(), Some(minute(110)));
    let to = "@user.bob".to_owned();
    world.act("ada", RequestAction::Reassign { to }).unwrap();
    fire_at(&mut world, 110);
    let last = world.view().history.pop().unwrap().note.unwrap();
    assert!(last.starts_with("notified"), "its first round: {last}");
}

#[test]
fn a_snooze_delays_the_reminder() {
    let (mut world, _) = laddered(vec![
        rung(10, RungAct::Notify, &[]),
        rung(15, RungAct::Notify, &[]),
    ]);
    let snooze = |for_ms| RequestAction::Snooze { for_ms };
    assert_eq!(world.act("ada", snooze(1_000)).unwrap_err().status, 422);
    world.act("ada", RequestAction::Accept).unwrap();
    let view = world.act("ada", snooze(3_600_000)).unwrap();
    assert_eq!(view.snoozed_until, Some(minute(60)), "nobody else has it");
    fire_at(&mut world, 60);
    assert_eq!(
        world.due(),
        Some(minute(65)),
        "later rungs keep their distance"
    );
    let to = "@user.ada".to_owned();
    let back = world.act("ada", RequestAction::Reassign { to }).unwrap();
    assert_eq!(
        (back.snoozed_until, back.snoozed_by.len()),
        (None, 0),
        "the request was reassigned"
    );
    let far = world.act("ada", snooze(86_400_000)).unwrap();
    assert_eq!(
        far.snoozed_until,
        Some(minute(600)),
        "never beyond the deadline"
    );
}

/// Issue 4: a snooze hides the request from one user. Others keep it and are notified as before.
#[test]
fn a_snooze_hides_a_request_from_one_user_only() {
    let (mut world, _) = laddered(vec![rung(10, RungAct::Notify, &[])]);
    let snooze = |hours: u64| RequestAction::Snooze {
        for_ms: hours * 3_600_000,
    };
    world.act("ada", snooze(1)).unwrap();
    let view = world.act("oscar", snooze(2)).unwrap();
    let snoozes = view
        .snoozed_by
        .iter()
        .map(|one| (one.by.as_str(), one.until));
    let expected = [("ada", minute(60)), ("oscar", minute(120))];
    assert_eq!(snoozes.collect::<Vec<_>>(), expected);
    assert_eq!(view.snoozed_until, None, "nobody has it alone");
    fire_at(&mut world, 10);
    world.now = minute(61);
    let view = world.act("oscar", snooze(3)).unwrap();
    let snoozed_by: Vec<_> = view.snoozed_by.iter().map(|one| one.by.as_str()).collect();
    assert_eq!(snoozed_by, ["oscar"], "a snooze that has ended is removed");
    let view = world.act("ada", RequestAction::Accept).unwrap();
    assert!(view.snoozed_by.is_empty(), "it is hers");
}

/// Issue 4: a snooze is private, so that others still decide on the version that they have seen.
#[test]
fn a_snooze_does_not_change_the_version_that_others_decide_on() {
    let (mut world, _) = laddered(Vec::new());
    let seen = world.view().version;
    let view = world
        .act("ada", RequestAction::Snooze { for_ms: 3_600_000 })
        .unwrap();
    assert_eq!((view.version, view.unchanged_since), (seen + 1, Some(seen)));
    let mut decided = world.clone();
    let approve = Decision::approve(None);
    let by = world.caller("oscar");
    let said = decided.decide_with(by.clone(), approve.clone(), Some(seen));
    assert!(said.is_ok(), "{said:?}");
    let view = world.act("ada", RequestAction::Acknowledge).unwrap();
    assert_eq!(view.unchanged_since, None);
    let stale = world.decide_with(by, approve, Some(seen));
    assert_eq!(stale.unwrap_err().code, "version_conflict");
}

/// S0-AC4
#[test]
fn a_pause_keeps_the_time_left_of_every_rung() {
    let (mut world, spec) = laddered(vec![rung(10, RungAct::Notify, &[])]);
    world.now = minute(6);
    world.desired_state(
        2,
        HoldState::Frozen {
            spec: Box::new(spec.clone()),
            since: minute(4),
            remaining_ms: Some(596 * 60_000),
        },
    );
    assert_eq!(world.due(), None);
    world.now = minute(100);
    world.desired_state(3, state(&spec, Some(696)));
    assert_eq!(world.due(), Some(minute(106)));
}

#[test]
fn a_rung_may_end_a_request_and_only_a_later_deadline_reopens_it() {
    let (mut world, spec) = laddered(vec![rung(10, RungAct::Fail, &[])]);
    fire_at(&mut world, 10);
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Timeout);
    let late = world.decide_as("ada", Decision::approve(None)).unwrap_err();
    assert_eq!(late.code, "already_decided");
    assert!(late.detail.contains("timed out"), "{}", late.detail);
    world.desired_state(2, state(&spec, Some(600)));
    assert_eq!(world.view().status, RequestStatus::Expired);
    world.desired_state(3, state(&spec, Some(700)));
    assert_eq!(world.view().status, RequestStatus::Open);
    let mut asked = super::world::input_spec();
    asked.default = Some(json!("no"));
    // The request of a run ends like its timeout.
    asked.on_timeout = OnTimeout::Default;
    asked.ladder = vec![rung(10, RungAct::AnswerDefault, &[])];
    let mut world = World::new();
    world.desired_state(1, state(&asked, None));
    fire_at(&mut world, 10);
    let closed = world.closed()[0];
    assert_eq!(
        (closed.outcome, &closed.data),
        (HoldOutcome::Timeout, &json!("no"))
    );
    assert_eq!(closed.by, "service:scheduler");
}

#[test]
fn a_rung_for_a_disabled_user_notifies_the_owners() {
    let (mut world, _) = laddered(vec![rung(10, RungAct::Reassign, &["@user.bob"])]);
    world.users.get_mut("bob").unwrap().active = false;
    fire_at(&mut world, 10);
    assert_eq!(
        world.request_events().pop().unwrap(),
        (RequestEventKind::Escalated, vec![])
    );
}

fn any_rung() -> impl Strategy<Value = Rung> {
    let act = prop_oneof![
        Just(RungAct::Notify),
        Just(RungAct::Reassign),
        Just(RungAct::Raise),
        Just(RungAct::Broaden),
        Just(RungAct::AnswerDefault),
        Just(RungAct::Fail),
    ];
    let to = prop_oneof![
        Just(vec![]),
        Just(vec!["@user.bob"]),
        Just(vec!["@role.none"])
    ];
    (1..10_000_u64, act, to).prop_map(|(minutes, act, to)| rung(minutes, act, &to))
}

proptest! {
    /// DESIGN: nothing waits without a waker. Every ladder of every kind and priority ends with the owners, or with
    /// the end of the request.
    #[test]
    fn every_ladder_reaches_the_owners_or_ends_the_request(
        ladder in proptest::collection::vec(any_rung(), 0..6),
        priority in prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::Critical)],
        kind in prop_oneof![Just(HoldKind::Approval), Just(HoldKind::Input), Just(HoldKind::Handoff)],
    ) {
        let rungs = ladder.len();
        let spec = HoldSpec { ladder, priority, ..spec(kind) };
        let mut world = World::new();
        world.desired_state(1, state(&spec, None));
        let mut fired = 0;
        while let Some(due) = world.request.as_ref().unwrap().timer.due {
            world.now = due;
            world.fire();
            fired += 1;
        }
        prop_assert!((1..=rungs + 2).contains(&fired));
        let is_over = world.view().outcome.is_some();
        let is_known = world.request_events().iter().any(|(kind, to)| {
            *kind == RequestEventKind::Escalated && to.is_empty()
        });
        prop_assert!(is_over || is_known);
    }

    /// The same after any number of acknowledgements at any rung: the owners are notified after the last one, or the
    /// request has ended. Every rung fires once in a round.
    #[test]
    fn an_acknowledged_request_reaches_the_owners_too(
        ladder in proptest::collection::vec(any_rung(), 0..6),
        kind in prop_oneof![Just(HoldKind::Approval), Just(HoldKind::Input), Just(HoldKind::Handoff)],
        seen_after in proptest::collection::vec(0..4_usize, 1..4),
    ) {
        let rungs = ladder.len();
        let spec = HoldSpec { ladder, ..spec(kind) };
        let mut world = World::new();
        world.desired_state(1, state(&spec, None));
        for rungs_fired in seen_after {
            for _ in 0..rungs_fired {
                let Some(due) = world.request.as_ref().unwrap().timer.due else { break };
                world.now = due;
                world.fire();
            }
            if world.view().outcome.is_none() {
                world.act("olga", RequestAction::Acknowledge).unwrap();
                world.effects.retain(|one| !matches!(one, crate::domain::Effect::RequestEvent(..)));
            }
        }
        let mut fired = 0;
        while let Some(due) = world.request.as_ref().unwrap().timer.due {
            prop_assert!(due >= world.now);
            world.now = due;
            world.fire();
            fired += 1;
        }
        prop_assert!(fired <= rungs + 2);
        let is_over = world.view().outcome.is_some();
        let is_known = world.request_events().iter().any(|(kind, to)| {
            *kind == RequestEventKind::Escalated && to.is_empty()
        });
        prop_assert!(is_over || is_known);
    }
}
