//! Examples and properties of the core.

mod fire_times;
mod schedules;

use std::collections::BTreeSet;

use proptest::prelude::*;

use chrono::{DateTime, Utc};
use holdpoint_contracts::scheduler::SetTimerReply;
use holdpoint_decision::{Decider as _, Lookup, Outcome};

use super::*;

fn decide(state: Option<&Timer>, input: &Input, now: DateTime<Utc>) -> Outcome<SchedulerDomain> {
    SchedulerDomain::decide(state, input, &|_| Lookup::Missing, now).unwrap()
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + ms).unwrap()
}

fn key() -> Key {
    Key {
        workspace: "acme".parse().unwrap(),
        owner: Owner::Executor,
        id: "hold".into(),
    }
}

fn desired_state(rev: u64, due: Option<i64>) -> Input {
    Input::Set {
        key: key(),
        rev,
        due: due.map(at),
    }
}

fn due(rev: u64) -> Input {
    Input::Due { key: key(), rev }
}

/// The timer after inputs, each at its instant, with all effects and the last reply.
fn decide_all(inputs: &[(Input, i64)]) -> (Option<Timer>, Vec<Effect>, Option<Reply>) {
    let (mut state, mut effects, mut reply) = (None, Vec::new(), None);
    for (input, now) in inputs {
        reply = Some(match decide(state.as_ref(), input, at(*now)) {
            Outcome::Decided(decided) => {
                let version = state.as_ref().map_or(0, |timer: &Timer| timer.version);
                assert_eq!(decided.state.version, version + 1);
                state = Some(decided.state);
                effects.extend(decided.effects);
                decided.reply
            }
            Outcome::Unchanged(reply) => reply,
        });
    }
    (state, effects, reply)
}

fn fired(effects: &[Effect]) -> Vec<u64> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Fired { rev, .. } => Some(*rev),
            Effect::Arm { .. } | Effect::Start { .. } => None,
        })
        .collect()
}

/// S0-AC8
#[test]
fn a_timer_fires_at_its_instant_and_not_before() {
    let (state, effects, reply) = decide_all(&[(desired_state(1, Some(500)), 0), (due(1), 499)]);
    assert_eq!(reply, Some(Reply::Due(DueReply::Early)));
    assert_eq!(fired(&effects), Vec::<u64>::new());
    assert_eq!(state.unwrap().phase, Phase::Pending(at(500)));
    let (state, effects, _) = decide_all(&[(desired_state(1, Some(500)), 0), (due(1), 500)]);
    assert_eq!(state.unwrap().phase, Phase::Fired);
    let expected = Effect::Fired {
        key: key(),
        rev: 1,
        due: at(500),
    };
    assert_eq!(effects.last(), Some(&expected));
}

/// S0-T5: around 2^31 and 2^32 ms (24.8 and 49.7 days), and at the longest wait, 90 days.
#[test]
fn a_long_timer_fires_at_its_millisecond_and_not_before() {
    let around = |ms: i64| [ms - 1, ms, ms + 1];
    let lengths = [around(1 << 31), around(1 << 32), around(7_776_000_000)];
    for length in lengths.into_iter().flatten() {
        let set = (desired_state(1, Some(length)), 0);
        let (state, effects, reply) = decide_all(&[set.clone(), (due(1), length - 1)]);
        assert_eq!(reply, Some(Reply::Due(DueReply::Early)));
        assert_eq!(fired(&effects), Vec::<u64>::new());
        assert_eq!(state.unwrap().phase, Phase::Pending(at(length)));
        let (state, effects, _) = decide_all(&[set, (due(1), length)]);
        assert_eq!(state.unwrap().phase, Phase::Fired);
        assert_eq!(fired(&effects), [1]);
    }
}

#[test]
fn a_cleared_timer_stays_as_a_tombstone_and_an_older_desired_state_does_nothing() {
    let (state, effects, reply) = decide_all(&[
        (desired_state(2, None), 0),
        (desired_state(1, Some(5)), 1),
        (due(1), 10),
    ]);
    assert_eq!(reply, Some(Reply::Due(DueReply::Stale)));
    assert_eq!(state.unwrap().phase, Phase::Cleared);
    assert_eq!(effects, []);
}

#[test]
fn a_moved_timer_does_not_fire_at_its_old_instant() {
    let moved = [
        (desired_state(1, Some(5)), 0),
        (desired_state(2, Some(50)), 1),
        (due(1), 10),
        (due(2), 10),
    ];
    let (state, effects, _) = decide_all(&moved);
    assert_eq!(state.unwrap().phase, Phase::Pending(at(50)));
    assert_eq!(fired(&effects), Vec::<u64>::new());
}

#[test]
fn only_timers_within_the_horizon_are_armed() {
    let day = HORIZON.num_milliseconds();
    let (_, near, _) = decide_all(&[(desired_state(1, Some(day)), 0)]);
    let arm = Effect::Arm {
        shard: key().shard(),
        due: at(day),
    };
    assert_eq!(near, [arm]);
    assert_eq!(decide_all(&[(desired_state(1, Some(day + 1)), 0)]).1, []);
}

#[test]
fn a_reply_is_serialized_as_the_contract_states() {
    let text = serde_json::to_string(&Reply::Set(SetTimerReply::Stale)).unwrap();
    assert_eq!(text, "\"stale\"");
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        (1_u64..6, proptest::option::of(0_i64..100)).prop_map(|(rev, due)| desired_state(rev, due)),
        (1_u64..6).prop_map(due),
    ]
}

/// Inputs, each some time after the one before.
fn any_history() -> impl Strategy<Value = Vec<(Input, i64)>> {
    proptest::collection::vec((any_input(), 0_i64..20), 0..30).prop_map(|steps| {
        let mut now = 0;
        steps
            .into_iter()
            .map(|(input, later)| {
                now += later;
                (input, now)
            })
            .collect()
    })
}

/// Desired states of one owner: one due time a rev.
fn any_desired_states() -> impl Strategy<Value = Vec<Input>> {
    proptest::collection::vec(proptest::option::of(0_i64..100), 1..6).prop_map(|dues| {
        dues.into_iter()
            .zip(1..)
            .map(|(due, rev)| desired_state(rev, due))
            .collect()
    })
}

proptest! {
    /// M-2: the bus may deliver a desired state twice and in any order.
    #[test]
    fn desired_states_in_any_order_and_twice_end_the_same(
        (desired_states, shuffled) in any_desired_states().prop_flat_map(|desired_states| {
            let twice = [desired_states.clone(), desired_states.clone()].concat();
            (Just(desired_states), Just(twice).prop_shuffle())
        })
    ) {
        let at_once = |desired_states: Vec<Input>| desired_states.into_iter().map(|it| (it, 0)).collect::<Vec<_>>();
        let straight = decide_all(&at_once(desired_states)).0.unwrap();
        let mixed = decide_all(&at_once(shuffled)).0.unwrap();
        prop_assert_eq!((straight.rev, straight.phase), (mixed.rev, mixed.phase));
    }

    #[test]
    fn a_timer_fires_at_most_once_a_rev_and_never_early(history in any_history()) {
        let (_, effects, _) = decide_all(&history);
        let revs = fired(&effects);
        prop_assert_eq!(revs.iter().collect::<BTreeSet<_>>().len(), revs.len());
        let mut state = None;
        for (input, now) in history {
            let Outcome::Decided(decided) = decide(state.as_ref(), &input, at(now)) else {
                continue;
            };
            let timer = decided.state;
            for effect in decided.effects {
                if let Effect::Fired { due, rev, .. } = effect {
                    let before: &Timer = state.as_ref().unwrap();
                    prop_assert!(due <= at(now) && before.phase == Phase::Pending(due));
                    prop_assert_eq!((before.rev, timer.phase), (rev, Phase::Fired));
                }
            }
            state = Some(timer);
        }
    }

    /// Nothing waits without a waker: the last desired timer fires or is cleared.
    #[test]
    fn no_timer_is_pending_after_its_due_time(history in any_history()) {
        let (state, ..) = decide_all(&history);
        let mut history = history;
        if let Some(timer) = state {
            history.push((due(timer.rev), 1_000));
            let end = decide_all(&history).0.unwrap();
            prop_assert!(matches!(end.phase, Phase::Fired | Phase::Cleared));
        }
    }

    #[test]
    fn only_a_newer_desired_state_changes_a_fired_or_cleared_timer(
        history in any_history(), input in any_input()
    ) {
        if let (Some(timer), ..) = decide_all(&history) {
            let newer = matches!(&input, Input::Set { rev, .. } if *rev > timer.rev);
            if !matches!(timer.phase, Phase::Pending(_)) && !newer {
                let decision = decide(Some(&timer), &input, at(5_000));
                prop_assert!(matches!(decision, Outcome::Unchanged(_)), "{decision:?}");
            }
        }
    }
}
