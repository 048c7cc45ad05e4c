//! The decision about one timer, with its schedule if it has one.

use chrono::{DateTime, Utc};
use holdpoint_contracts::Problem;
use holdpoint_contracts::scheduler::SetTimerReply;
use holdpoint_decision::Decider;

use super::commands::delete_schedule::delete_schedule;
use super::commands::put_schedule::put_schedule;
use super::commands::start_answered::record_answer;
use super::decision::{Decision, Fact, LookupFn, Need, Outcome, SchedulerDomain};
use super::effect::{DueReply, Effect, Reply};
use super::input::Input;
use super::model::{Key, Owner, Phase, Timer};
use super::refusal::Refusal;
use super::rules::fire_schedule::fire_schedule;
use super::transition::{arm, decided};

impl Decider for SchedulerDomain {
    type Key = Key;
    type State = Timer;
    type Input = Input;
    type Need = Need;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;
    type Reply = Reply;

    fn key(input: &Input) -> Key {
        input.key().clone()
    }

    fn decide(
        state: Option<&Timer>,
        input: &Input,
        lookup: LookupFn<'_>,
        now: DateTime<Utc>,
    ) -> Decision {
        let stale = Outcome::Unchanged(Reply::Due(DueReply::Stale));
        Ok(match (state, input) {
            (Some(timer), Input::Set { rev, .. }) if *rev <= timer.rev => {
                Outcome::Unchanged(Reply::Set(SetTimerReply::Stale))
            }
            (Some(_) | None, Input::Set { key, rev, due }) => set(state, key, *rev, *due, now),
            (Some(timer), Input::Due { rev, .. }) => match timer.phase {
                Phase::Pending(due) if timer.rev == *rev && due <= now => fire(timer, due, now),
                Phase::Pending(_) if timer.rev == *rev => {
                    Outcome::Unchanged(Reply::Due(DueReply::Early))
                }
                Phase::Pending(_) | Phase::Fired | Phase::Cleared => stale,
            },
            (None, Input::Due { .. }) => stale,
            (_, Input::PutSchedule(put)) => return put_schedule(state, put, lookup, now),
            (_, Input::DeleteSchedule { key, name }) => return delete_schedule(state, key, name),
            (_, Input::StartAnswered { rev, answer, .. }) => record_answer(state, *rev, answer),
        })
    }

    fn aggregate(_: &Need) -> Option<Key> {
        None
    }

    fn fact(_: &Timer) -> Option<Fact> {
        None
    }

    fn version(state: &Timer) -> u64 {
        state.version
    }

    fn is_hot(state: &Timer) -> bool {
        matches!(state.phase, Phase::Pending(_))
    }

    fn problem(refusal: &Refusal) -> Problem {
        refusal.problem()
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
        schedule: None,
    };
    let effects = arm(&timer, now).into_iter().collect();
    decided(timer, effects, Reply::Set(SetTimerReply::Set))
}

fn fire(timer: &Timer, due: DateTime<Utc>, now: DateTime<Utc>) -> Outcome {
    if let Some(schedule) = &timer.schedule {
        return fire_schedule(timer, schedule, due, now);
    }
    let fired = Effect::Fired {
        key: timer.key.clone(),
        rev: timer.rev,
        due,
    };
    let is_owned = timer.key.owner != Owner::Scheduler;
    let timer = Timer {
        version: timer.version + 1,
        phase: Phase::Fired,
        ..timer.clone()
    };
    let effects = is_owned.then_some(fired).into_iter().collect();
    decided(timer, effects, Reply::Due(DueReply::Fired))
}
