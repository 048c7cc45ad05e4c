//! The decision about one timer.

use std::convert::Infallible;

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::scheduler::SetTimerReply;
use holdpoint_decision::{self as decision, Decided, Decider, LookupFn};

use super::effect::{DueReply, Effect, Reply};
use super::input::Input;
use super::model::{HORIZON, Key, Phase, Timer};

type Outcome = decision::Outcome<SchedulerDomain>;

#[derive(Debug)]
pub struct SchedulerDomain;

impl Decider for SchedulerDomain {
    type Key = Key;
    type State = Timer;
    type Input = Input;
    type Need = Infallible;
    type Fact = ();
    type Effect = Effect;
    type Refusal = Infallible;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key().clone()
    }

    /// A timer refuses nothing.
    fn decide(
        state: Option<&Timer>,
        input: &Input,
        _: LookupFn<'_, Self>,
        now: DateTime<Utc>,
    ) -> decision::Decision<Self> {
        let stale = Outcome::Unchanged(Reply::Due(DueReply::Stale));
        Ok(match (state, input) {
            (Some(timer), Input::Set { rev, .. }) if *rev <= timer.rev => {
                Outcome::Unchanged(Reply::Set(SetTimerReply::Stale))
            }
            (Some(_) | None, Input::Set { key, rev, due }) => set(state, key, *rev, *due, now),
            (Some(timer), Input::Due { rev, .. }) => match timer.phase {
                Phase::Pending(due) if timer.rev == *rev && due <= now => fire(timer, due),
                Phase::Pending(_) if timer.rev == *rev => {
                    Outcome::Unchanged(Reply::Due(DueReply::Early))
                }
                Phase::Pending(_) | Phase::Fired | Phase::Cleared => stale,
            },
            (None, Input::Due { .. }) => stale,
        })
    }

    fn aggregate(need: &Infallible) -> Option<Key> {
        match *need {}
    }

    fn fact(_: &Timer) -> Option<()> {
        None
    }

    fn version(state: &Timer) -> u64 {
        state.version
    }

    fn is_hot(state: &Timer) -> bool {
        matches!(state.phase, Phase::Pending(_))
    }

    fn problem(refusal: &Infallible) -> Problem {
        match *refusal {}
    }
}

fn set(
    state: Option<&Timer>,
    key: &Key,
    rev: u64,
    due: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Outcome {
    let timer = Timer {
        key: key.clone(),
        version: state.map_or(0, |timer| timer.version) + 1,
        rev,
        phase: due.map_or(Phase::Cleared, Phase::Pending),
    };
    // Beyond the horizon the row is enough: a sweep arms it before it is due.
    let near = due.filter(|due| *due - now <= HORIZON);
    let effects = near.map(|due| Effect::Arm {
        shard: key.shard(),
        due,
    });
    decided(
        timer,
        effects.into_iter().collect(),
        Reply::Set(SetTimerReply::Set),
    )
}

fn fire(timer: &Timer, due: DateTime<Utc>) -> Outcome {
    let fired = Effect::Fired {
        key: timer.key.clone(),
        rev: timer.rev,
        due,
    };
    let timer = Timer {
        version: timer.version + 1,
        phase: Phase::Fired,
        ..timer.clone()
    };
    decided(timer, vec![fired], Reply::Due(DueReply::Fired))
}

fn decided(state: Timer, effects: Vec<Effect>, reply: Reply) -> Outcome {
    Outcome::Decided(Box::new(Decided {
        state,
        effects,
        facts: Vec::new(),
        reply,
    }))
}
