//! The next state of a timer.

use chrono::{DateTime, Utc};
use holdpoint_decision::Decided;

use super::decision::Outcome;
use super::effect::{Effect, Reply};
use super::model::schedule::{Schedule, rev_of};
use super::model::{HORIZON, Key, Phase, Timer};

pub(crate) fn decided(state: Timer, effects: Vec<Effect>, reply: Reply) -> Outcome {
    Outcome::Decided(Box::new(Decided {
        state,
        effects,
        facts: Vec::new(),
        reply,
    }))
}

/// Arms a timer within the horizon. Beyond it the row is enough: a sweep arms it before it is due.
pub(crate) fn arm(timer: &Timer, now: DateTime<Utc>) -> Option<Effect> {
    let Phase::Pending(due) = timer.phase else {
        return None;
    };
    (due - now <= HORIZON).then(|| Effect::Arm {
        shard: timer.key.shard(),
        due,
    })
}

/// The timer of a schedule, one version later. `state` is the timer before.
pub(crate) fn timer_of(state: Option<&Timer>, key: &Key, mut schedule: Schedule) -> Timer {
    schedule.version = state.map_or(0, |timer| timer.version) + 1;
    Timer {
        key: key.clone(),
        version: schedule.version,
        rev: schedule.next_fire.map_or(0, rev_of),
        phase: schedule.next_fire.map_or(Phase::Fired, Phase::Pending),
        schedule: Some(Box::new(schedule)),
    }
}
