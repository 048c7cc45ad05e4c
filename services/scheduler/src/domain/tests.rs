//! Examples and properties of the core.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

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

fn wish(rev: u64, due: Option<i64>) -> Input {
    Input::Set {
        key: key(),
        rev,
        due: due.map(at),
    }
}

fn due(rev: u64) -> Input {
    Input::Due { key: key(), rev }
}

/// An alarm after some inputs, each at its instant, and all that followed.
fn after(inputs: &[(Input, i64)]) -> (Option<Alarm>, Vec<Effect>, Option<Answer>) {
    let (mut state, mut effects, mut answer) = (None, Vec::new(), None);
    for (input, now) in inputs {
        let verdict = decide(state.as_ref(), input, at(*now));
        if let Some((alarm, more)) = verdict.change {
            let version = state.as_ref().map_or(0, |alarm: &Alarm| alarm.version);
            assert_eq!(alarm.version, version + 1);
            state = Some(alarm);
            effects.extend(more);
        }
        answer = Some(verdict.answer);
    }
    (state, effects, answer)
}

fn fired(effects: &[Effect]) -> Vec<u64> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Fired { rev, .. } => Some(*rev),
            Effect::Arm { .. } => None,
        })
        .collect()
}

/// S0-AC8
#[test]
fn an_alarm_fires_at_its_instant_and_not_a_millisecond_before() {
    let (state, effects, answer) = after(&[(wish(1, Some(500)), 0), (due(1), 499)]);
    assert_eq!(answer, Some(Answer::Due(DueAnswer::Early)));
    assert_eq!(fired(&effects), Vec::<u64>::new());
    assert_eq!(state.unwrap().phase, Phase::Pending(at(500)));
    let (state, effects, _) = after(&[(wish(1, Some(500)), 0), (due(1), 500)]);
    assert_eq!(state.unwrap().phase, Phase::Fired);
    let told = Effect::Fired {
        key: key(),
        rev: 1,
        due: at(500),
    };
    assert_eq!(effects.last(), Some(&told));
}

/// S0-T5: around 2^31 and 2^32 ms (24.8 and 49.7 days), and at the longest wait, 90 days.
#[test]
fn a_long_alarm_fires_at_its_millisecond_and_not_before() {
    let around = |ms: i64| [ms - 1, ms, ms + 1];
    let lengths = [around(1 << 31), around(1 << 32), around(7_776_000_000)];
    for length in lengths.into_iter().flatten() {
        let set = (wish(1, Some(length)), 0);
        let (state, effects, answer) = after(&[set.clone(), (due(1), length - 1)]);
        assert_eq!(answer, Some(Answer::Due(DueAnswer::Early)));
        assert_eq!(fired(&effects), Vec::<u64>::new());
        assert_eq!(state.unwrap().phase, Phase::Pending(at(length)));
        let (state, effects, _) = after(&[set, (due(1), length)]);
        assert_eq!(state.unwrap().phase, Phase::Fired);
        assert_eq!(fired(&effects), [1]);
    }
}

#[test]
fn a_cleared_alarm_stays_as_a_tombstone_and_an_older_wish_does_nothing() {
    let (state, effects, answer) =
        after(&[(wish(2, None), 0), (wish(1, Some(5)), 1), (due(1), 10)]);
    assert_eq!(answer, Some(Answer::Due(DueAnswer::Stale)));
    assert_eq!(state.unwrap().phase, Phase::Cleared);
    assert_eq!(effects, []);
}

#[test]
fn a_moved_alarm_does_not_fire_at_its_old_instant() {
    let moved = [
        (wish(1, Some(5)), 0),
        (wish(2, Some(50)), 1),
        (due(1), 10),
        (due(2), 10),
    ];
    let (state, effects, _) = after(&moved);
    assert_eq!(state.unwrap().phase, Phase::Pending(at(50)));
    assert_eq!(fired(&effects), Vec::<u64>::new());
}

#[test]
fn only_alarms_within_the_horizon_are_armed() {
    let day = HORIZON.num_milliseconds();
    let (_, near, _) = after(&[(wish(1, Some(day)), 0)]);
    let arm = Effect::Arm {
        shard: key().shard(),
        due: at(day),
    };
    assert_eq!(near, [arm]);
    assert_eq!(after(&[(wish(1, Some(day + 1)), 0)]).1, []);
}

#[test]
fn an_answer_is_written_as_the_contract_says() {
    let text = serde_json::to_string(&Answer::Wish(SetAnswer::Stale)).unwrap();
    assert_eq!(text, "\"stale\"");
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        (1_u64..6, proptest::option::of(0_i64..100)).prop_map(|(rev, due)| wish(rev, due)),
        (1_u64..6).prop_map(due),
    ]
}

/// Inputs in an order, each some time after the one before.
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

/// Wishes of one owner: one due time a rev.
fn any_wishes() -> impl Strategy<Value = Vec<Input>> {
    proptest::collection::vec(proptest::option::of(0_i64..100), 1..6).prop_map(|dues| {
        dues.into_iter()
            .zip(1..)
            .map(|(due, rev)| wish(rev, due))
            .collect()
    })
}

proptest! {
    /// M-2: the bus may bring a wish twice, and in any order.
    #[test]
    fn wishes_in_any_order_and_twice_end_the_same(
        (wishes, shuffled) in any_wishes().prop_flat_map(|wishes| {
            let twice = [wishes.clone(), wishes.clone()].concat();
            (Just(wishes), Just(twice).prop_shuffle())
        })
    ) {
        let at_once = |wishes: Vec<Input>| wishes.into_iter().map(|it| (it, 0)).collect::<Vec<_>>();
        let straight = after(&at_once(wishes)).0.unwrap();
        let mixed = after(&at_once(shuffled)).0.unwrap();
        prop_assert_eq!((straight.rev, straight.phase), (mixed.rev, mixed.phase));
    }

    #[test]
    fn an_alarm_fires_at_most_once_a_rev_and_never_early(history in any_history()) {
        let (_, effects, _) = after(&history);
        let revs = fired(&effects);
        prop_assert_eq!(revs.iter().collect::<BTreeSet<_>>().len(), revs.len());
        let mut state = None;
        for (input, now) in history {
            let verdict = decide(state.as_ref(), &input, at(now));
            let Some((alarm, effects)) = verdict.change else { continue };
            for effect in effects {
                if let Effect::Fired { due, rev, .. } = effect {
                    let before: &Alarm = state.as_ref().unwrap();
                    prop_assert!(due <= at(now) && before.phase == Phase::Pending(due));
                    prop_assert_eq!((before.rev, alarm.phase), (rev, Phase::Fired));
                }
            }
            state = Some(alarm);
        }
    }

    /// Nothing waits without a waker: what was wanted last fires, or is cleared.
    #[test]
    fn after_its_due_time_no_alarm_is_left_pending(history in any_history()) {
        let (state, ..) = after(&history);
        let mut history = history;
        if let Some(alarm) = state {
            history.push((due(alarm.rev), 1_000));
            let end = after(&history).0.unwrap();
            prop_assert!(matches!(end.phase, Phase::Fired | Phase::Cleared));
        }
    }

    #[test]
    fn what_has_fired_or_is_cleared_absorbs_everything_but_a_newer_wish(
        history in any_history(), input in any_input()
    ) {
        if let (Some(alarm), ..) = after(&history) {
            let newer = matches!(&input, Input::Set { rev, .. } if *rev > alarm.rev);
            if !matches!(alarm.phase, Phase::Pending(_)) && !newer {
                prop_assert_eq!(decide(Some(&alarm), &input, at(5_000)).change, None);
            }
        }
    }
}
