//! The one function that decides.

use chrono::{DateTime, Utc};
use holdpoint_contracts::scheduler::SetAnswer;

use super::{Alarm, Answer, DueAnswer, Effect, HORIZON, Input, Key, Phase, Verdict};

/// Decides what an input does to an alarm. Total and pure.
pub(crate) fn decide(state: Option<&Alarm>, input: &Input, now: DateTime<Utc>) -> Verdict {
    match (state, input) {
        (Some(alarm), Input::Set { rev, .. }) if *rev <= alarm.rev => {
            unchanged(Answer::Wish(SetAnswer::Stale))
        }
        (Some(_) | None, Input::Set { key, rev, due }) => set(state, key, *rev, *due, now),
        (Some(alarm), Input::Due { rev, .. }) => match alarm.phase {
            Phase::Pending(due) if alarm.rev == *rev && due <= now => fire(alarm, due),
            Phase::Pending(_) if alarm.rev == *rev => unchanged(Answer::Due(DueAnswer::Early)),
            Phase::Pending(_) | Phase::Fired | Phase::Cleared => {
                unchanged(Answer::Due(DueAnswer::Stale))
            }
        },
        (None, Input::Due { .. }) => unchanged(Answer::Due(DueAnswer::Stale)),
    }
}

fn set(
    state: Option<&Alarm>,
    key: &Key,
    rev: u64,
    due: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Verdict {
    let alarm = Alarm {
        key: key.clone(),
        version: state.map_or(0, |alarm| alarm.version) + 1,
        rev,
        phase: due.map_or(Phase::Cleared, Phase::Pending),
    };
    // Beyond the horizon the row is enough: the sweeper comes by before it is due.
    let near = due.filter(|due| *due - now <= HORIZON);
    let effects = near.map(|due| Effect::Arm {
        shard: key.shard(),
        due,
    });
    Verdict {
        change: Some((alarm, effects.into_iter().collect())),
        answer: Answer::Wish(SetAnswer::Set),
    }
}

fn fire(alarm: &Alarm, due: DateTime<Utc>) -> Verdict {
    let fired = Effect::Fired {
        key: alarm.key.clone(),
        rev: alarm.rev,
        due,
    };
    let alarm = Alarm {
        version: alarm.version + 1,
        phase: Phase::Fired,
        ..alarm.clone()
    };
    Verdict {
        change: Some((alarm, vec![fired])),
        answer: Answer::Due(DueAnswer::Fired),
    }
}

fn unchanged(answer: Answer) -> Verdict {
    Verdict {
        change: None,
        answer,
    }
}
