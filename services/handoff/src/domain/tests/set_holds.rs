//! Desired states, timers, and acknowledgements of the executor.

use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::handoff::{Effect as DecisionEffect, RequestStatus};
use holdpoint_contracts::hold::{CloseReply, HoldOutcome, HoldState, OnTimeout, SetHoldReply};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::world::{World, frozen, gone, input_spec, minute, open, respond, spec};
use crate::domain::{Phase, RequestInput};

/// S0-AC4
#[test]
fn a_pause_keeps_the_time_left_at_its_instant() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    assert_eq!(world.due(), Some(minute(60)));
    world.now = minute(45);
    world.desired_state(2, frozen(20, 2_400_000));
    assert_eq!(world.due(), None, "its timer is cleared");
    let view = world.view();
    assert_eq!((view.deadline, view.remaining_ms), (None, Some(2_400_000)));
    assert_eq!(view.status, RequestStatus::Open);
    assert_eq!(world.fire_rev(1), TimerReply::Stale);
    world.now = minute(100);
    world.desired_state(3, open(140));
    assert_eq!(world.due(), Some(minute(140)));
}

/// S0-AC4
#[test]
fn an_answer_while_paused_is_kept_and_takes_effect_on_resume() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.desired_state(2, frozen(5, 3_300_000));
    let decided = world.decide_as("ada", respond("yes")).unwrap();
    assert_eq!(decided.effect, DecisionEffect::Pending);
    world.acknowledge_close(CloseReply::OnResume);
    assert_eq!(world.view().effect, Some(DecisionEffect::OnResume));
    assert_eq!(world.desired_state(3, open(90)), SetHoldReply::Decided);
    assert_eq!(world.closed().len(), 2, "the close is sent again on resume");
    world.acknowledge_close(CloseReply::Applied);
    assert_eq!(world.view().effect, Some(DecisionEffect::Applied));
}

/// DESIGN, the nine cells: timed out, frozen.
#[test]
fn a_pause_before_the_timeout_undoes_it_and_a_late_answer_counts() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.now = minute(60);
    assert_eq!(world.fire(), TimerReply::Applied);
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Timeout);
    assert_eq!(
        world.desired_state(2, frozen(59, 60_000)),
        SetHoldReply::Set
    );
    assert_eq!(world.view().effect, None);
    world.decide_as("oscar", respond("no")).unwrap();
    let last = world.closed().pop().unwrap();
    assert_eq!(
        (last.outcome, &last.data),
        (HoldOutcome::Answered, &json!("no"))
    );
    assert!(last.rev > world.closed()[0].rev);
}

#[test]
fn a_pause_after_the_timeout_changes_nothing() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.now = minute(60);
    world.fire();
    assert_eq!(
        world.desired_state(2, frozen(60, 0)),
        SetHoldReply::TimedOut
    );
    assert_eq!(world.view().status, RequestStatus::Expired);
}

/// The counter-example to "timed out, open: stays" (docs/decisions): the pause between was overtaken.
#[test]
fn a_deadline_that_was_moved_beyond_the_timeout_reopens_the_request() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.now = minute(60);
    world.fire();
    assert_eq!(world.desired_state(2, open(60)), SetHoldReply::TimedOut);
    assert_eq!(world.desired_state(4, open(90)), SetHoldReply::Set);
    assert_eq!(world.due(), Some(minute(90)));
    assert_eq!(
        world.desired_state(3, frozen(50, 600_000)),
        SetHoldReply::Stale
    );
    world.decide_as("ada", respond("yes")).unwrap();
}

#[test]
fn a_tombstone_of_an_unknown_hold_stays_withdrawn() {
    let mut world = World::new();
    assert_eq!(world.desired_state(7, gone()), SetHoldReply::Set);
    assert_eq!(world.desired_state(6, open(60)), SetHoldReply::Stale);
    assert_eq!(world.request.as_ref().unwrap().view(), None);
    let refused = world.decide_as("ada", respond("yes")).unwrap_err();
    assert_eq!(refused.status, 404);
}

#[test]
fn an_ended_run_marks_a_decision_that_was_not_applied() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.decide_as("ada", respond("yes")).unwrap();
    assert_eq!(world.desired_state(2, gone()), SetHoldReply::Decided);
    assert_eq!(world.view().effect, Some(DecisionEffect::RunEnded));
    assert_eq!(world.view().outcome, Some(HoldOutcome::Answered));
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.decide_as("ada", respond("yes")).unwrap();
    world.acknowledge_close(CloseReply::Applied);
    world.desired_state(2, gone());
    assert_eq!(world.view().effect, Some(DecisionEffect::Applied));
}

/// Mend B-13, found by the simulation: the executor took a timeout while its run was paused, resumed, and
/// desired it anew. Its answer to the old word confirmed that, and nobody would have woken the run.
#[test]
fn a_newer_desired_state_gets_a_new_close_while_an_older_close_is_on_its_way() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.now = minute(60);
    world.fire();
    let before = world.closed().last().unwrap().rev;
    assert_eq!(world.view().effect, Some(DecisionEffect::Pending));
    assert_eq!(world.desired_state(2, open(60)), SetHoldReply::TimedOut);
    let after = world.closed().last().unwrap().rev;
    assert!(after > before, "said anew");
    let reply = CloseReply::OnResume;
    world
        .put(RequestInput::CloseAcked { rev: before, reply })
        .unwrap();
    assert_eq!(world.view().effect, Some(DecisionEffect::Pending));
}

#[test]
fn an_acknowledgement_of_an_older_close_changes_nothing() {
    let mut world = World::new();
    world.desired_state(1, open(60));
    world.decide_as("ada", respond("yes")).unwrap();
    let reply = CloseReply::RunEnded;
    world
        .put(RequestInput::CloseAcked { rev: 1, reply })
        .unwrap();
    assert_eq!(world.view().effect, Some(DecisionEffect::Pending));
}

/// S3-R5
#[test]
fn each_on_timeout_has_its_effect_at_the_deadline() {
    let timed_out = |on_timeout: OnTimeout| {
        let mut world = World::new();
        let mut spec = input_spec();
        spec.on_timeout = on_timeout;
        spec.default = Some(json!("no"));
        let deadline = Some(minute(60));
        let spec = Box::new(spec);
        world.desired_state(1, HoldState::Open { spec, deadline });
        world.now = minute(60);
        let rev = world.request.as_ref().unwrap().timer.rev;
        assert_eq!(world.fire_rev(rev), TimerReply::Applied);
        assert_eq!(world.fire_rev(rev), TimerReply::Stale, "twice is once");
        world
    };
    for on_timeout in [OnTimeout::Fail, OnTimeout::Skip, OnTimeout::Continue] {
        let world = timed_out(on_timeout);
        let closed = world.closed()[0];
        assert_eq!(
            (closed.outcome, &closed.data),
            (HoldOutcome::Timeout, &json!(null))
        );
        assert_eq!(world.view().status, RequestStatus::Expired);
    }
    let world = timed_out(OnTimeout::Default);
    assert_eq!(world.closed()[0].data, json!("no"));
    assert_eq!(world.closed()[0].by, "service:scheduler");
    let mut world = timed_out(OnTimeout::Escalate);
    let view = world.view();
    assert_eq!(
        (view.status, view.escalated_at),
        (RequestStatus::Open, Some(minute(60)))
    );
    assert!(world.closed().is_empty());
    world.decide_as("ada", respond("yes")).unwrap();
    assert_eq!(world.closed()[0].outcome, HoldOutcome::Answered);
}

#[test]
fn an_escalated_request_is_not_timed_out_again_by_a_repeated_desired_state() {
    let mut world = World::new();
    let mut spec = input_spec();
    spec.on_timeout = OnTimeout::Escalate;
    let open = |deadline: i64| HoldState::Open {
        spec: Box::new(spec.clone()),
        deadline: Some(minute(deadline)),
    };
    world.desired_state(1, open(60));
    world.now = minute(61);
    world.fire();
    assert_eq!(world.due(), Some(minute(6 * 60)), "its first rung");
    let desired = world.effects.len();
    world.desired_state(2, open(60));
    assert_eq!(world.effects.len(), desired);
    world.desired_state(3, open(120));
    assert_eq!(world.due(), Some(minute(120)));
}

/// DESIGN: nothing waits without a waker; the default ladder ends at the owners.
#[test]
fn a_request_without_a_deadline_never_expires_and_reaches_the_owners() {
    let mut world = World::new();
    let spec = Box::new(input_spec());
    let deadline = None;
    world.desired_state(1, HoldState::Open { spec, deadline });
    assert_eq!(world.due(), Some(minute(6 * 60)));
    assert_eq!(world.fire_rev(7), TimerReply::Stale);
    for due in [6 * 60, 18 * 60] {
        world.now = minute(due);
        assert_eq!(world.due(), Some(world.now));
        world.fire();
    }
    assert_eq!(*world.phase(), Phase::Open { deadline: None });
    assert_eq!(world.request.as_ref().unwrap().timer.due, None);
    assert_eq!(
        world.request_events().last().unwrap(),
        &(RequestEventKind::Escalated, vec![])
    );
}

#[test]
fn desired_states_of_standalone_holds_and_timers_of_runs_are_refused() {
    let mut world = World::alone();
    let desired_state = RequestInput::SetDesired {
        rev: 1,
        state: open(60),
    };
    assert_eq!(world.put(desired_state).unwrap_err().code, "stands_alone");
    let mut world = World::new();
    let state = HoldState::Open {
        spec: Box::new(spec(HoldKind::Timer)),
        deadline: None,
    };
    let desired_state = RequestInput::SetDesired { rev: 1, state };
    assert_eq!(world.put(desired_state).unwrap_err().status, 422);
}
