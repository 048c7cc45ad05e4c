//! Examples and properties of schedules.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::executor::{ScheduledStart, ScheduledStartReply};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::scheduler::{FireOutcome, Overlap, ScheduleSpec};
use holdpoint_decision::{Decider as _, Lookup, Outcome, Undecided};
use holdpoint_ids::{RunId, ScheduleName};
use proptest::prelude::*;
use serde_json::json;

use super::super::model::schedule::SCHEDULES_MAX;
use super::super::*;

fn at(minute: i64) -> DateTime<Utc> {
    "2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::minutes(minute)
}

fn name() -> ScheduleName {
    "daily".parse().unwrap()
}

fn key() -> Key {
    Key {
        workspace: "acme".parse().unwrap(),
        owner: Owner::Scheduler,
        id: name().to_string(),
    }
}

fn spec(cron: &str, overlap: Overlap) -> ScheduleSpec {
    serde_json::from_value(json!({
        "name": name(), "agent": "quick", "cron": cron, "overlap": overlap,
    }))
    .unwrap()
}

fn put(cron: &str) -> Input {
    put_spec(spec(cron, Overlap::Start))
}

fn put_spec(spec: ScheduleSpec) -> Input {
    Input::PutSchedule(Box::new(SchedulePut {
        key: key(),
        spec,
        by: Actor("ada".into()),
    }))
}

fn delete() -> Input {
    Input::DeleteSchedule {
        key: key(),
        name: name(),
    }
}

fn answered(rev: u64, answer: StartAnswer) -> Input {
    Input::StartAnswered {
        key: key(),
        rev,
        answer,
    }
}

const STARTED: StartAnswer = StartAnswer::Replied(ScheduledStartReply::Started);

/// A schedule and all that it has caused.
#[derive(Default)]
struct World {
    timer: Option<Timer>,
    starts: Vec<(u64, ScheduledStart)>,
}

impl World {
    fn of(cron: &str) -> Self {
        let mut world = Self::default();
        world.take(&put(cron), at(0)).unwrap();
        world
    }

    fn take(&mut self, input: &Input, now: DateTime<Utc>) -> Result<(), Refusal> {
        let names = &|_: &Need| Lookup::Missing;
        match SchedulerDomain::decide(self.timer.as_ref(), input, names, now) {
            Ok(Outcome::Decided(decided)) => {
                for effect in decided.effects {
                    match effect {
                        Effect::Start { rev, start, .. } => self.starts.push((rev, *start)),
                        Effect::Arm { due, .. } => {
                            assert_eq!(decided.state.phase, Phase::Pending(due));
                        }
                        Effect::Fired { .. } => panic!("a schedule has no owner to notify"),
                    }
                }
                self.timer = Some(decided.state);
                Ok(())
            }
            Ok(Outcome::Unchanged(_)) => Ok(()),
            Err(Undecided::Refused(refusal)) => Err(refusal),
            Err(Undecided::NeedsMore(needs)) => panic!("{needs:?}"),
        }
    }

    /// The wheel reports the timer.
    fn fire(&mut self, now: DateTime<Utc>) {
        let rev = self.timer.as_ref().unwrap().rev;
        self.take(&Input::Due { key: key(), rev }, now).unwrap();
    }

    fn schedule(&self) -> &Schedule {
        self.timer.as_ref().unwrap().schedule.as_ref().unwrap()
    }

    fn fired_at(&self) -> Vec<DateTime<Utc>> {
        self.starts
            .iter()
            .map(|(_, start)| start.fired_at)
            .collect()
    }
}

#[test]
fn a_fire_starts_one_run_and_sets_the_next_timer() {
    let mut world = World::of("*/10 * * * *");
    world.fire(at(9));
    assert!(world.starts.is_empty(), "early");
    let rev = world.timer.as_ref().unwrap().rev;
    world.fire(at(10));
    world.take(&Input::Due { key: key(), rev }, at(10)).unwrap();
    assert_eq!(world.fired_at(), [at(10)], "the second report is old");
    let schedule = world.schedule();
    assert_eq!(schedule.next_fire, Some(at(20)));
    assert_eq!(
        schedule.last.as_ref().unwrap().outcome,
        FireOutcome::Starting
    );
    let (rev, run) = (world.starts[0].0, world.starts[0].1.run);
    world.take(&answered(rev, STARTED), at(10)).unwrap();
    let view = world.schedule().view();
    assert_eq!(
        (view.last_outcome, view.last_run),
        (Some(FireOutcome::Started), Some(run))
    );
    assert_eq!(world.timer.as_ref().unwrap().phase, Phase::Pending(at(20)));
}

/// Issue 17: of missed fires only the latest one starts.
#[test]
fn of_missed_fires_the_latest_starts() {
    let mut world = World::of("*/10 * * * *");
    world.fire(at(57));
    assert_eq!(world.fired_at(), [at(50)]);
    assert_eq!(world.schedule().next_fire, Some(at(60)));
}

#[test]
fn a_clock_that_was_set_back_repeats_no_fire() {
    let mut world = World::of("*/10 * * * *");
    world.fire(at(10));
    world.take(&put("*/5 * * * *"), at(2)).unwrap();
    assert_eq!(world.schedule().next_fire, Some(at(15)));
}

#[test]
fn a_change_keeps_the_time_of_the_next_fire_unless_the_times_change() {
    let mut world = World::of("*/10 * * * *");
    let mut other = spec("*/10 * * * *", Overlap::Start);
    other.input = json!({ "n": 2 });
    world.take(&put_spec(other), at(13)).unwrap();
    assert_eq!(
        world.schedule().next_fire,
        Some(at(10)),
        "it is overdue and still fires"
    );
    world.fire(at(13));
    assert_eq!(world.starts[0].1.input, json!({ "n": 2 }));
    world.take(&put("0 * * * *"), at(13)).unwrap();
    assert_eq!(world.schedule().next_fire, Some(at(60)));
    let version = world.schedule().version;
    world.take(&put("0 * * * *"), at(14)).unwrap();
    assert_eq!(world.schedule().version, version, "nothing has changed");
}

#[test]
fn a_schedule_of_a_deleted_name_starts_other_runs() {
    let mut world = World::of("*/10 * * * *");
    world.fire(at(10));
    world.take(&delete(), at(11)).unwrap();
    assert_eq!(world.timer.as_ref().unwrap().phase, Phase::Cleared);
    world
        .take(&answered(world.starts[0].0, STARTED), at(11))
        .unwrap();
    let gone = world.take(&delete(), at(11)).unwrap_err();
    assert_eq!(
        (gone.problem().status, gone),
        (404, Refusal::NoSchedule(name()))
    );
    world.take(&put("*/10 * * * *"), at(11)).unwrap();
    assert_eq!(world.schedule().view().last_run, None);
    world.fire(at(20));
    let other = RunId::of_schedule(
        &key().workspace,
        &name(),
        at(0).timestamp_millis(),
        at(20).timestamp_millis(),
    );
    assert_ne!(world.starts[1].1.run, other);
}

/// API, `overlap: skip`: the executor decides by the last run, and no start overtakes another.
#[test]
fn an_exclusive_schedule_has_one_start_at_a_time() {
    let mut world = World::default();
    let exclusive = put_spec(spec("*/10 * * * *", Overlap::Skip));
    world.take(&exclusive, at(0)).unwrap();
    world.fire(at(10));
    world.fire(at(20));
    assert_eq!(world.fired_at(), [at(10)], "the first has no answer");
    assert_eq!(
        world.schedule().last.as_ref().unwrap().outcome,
        FireOutcome::Skipped
    );
    let (rev, first) = (world.starts[0].0, world.starts[0].1.run);
    world.take(&answered(rev, STARTED), at(21)).unwrap();
    let view = world.schedule().view();
    assert_eq!(
        (view.last_outcome, view.last_run),
        (Some(FireOutcome::Skipped), Some(first))
    );
    world.fire(at(30));
    assert_eq!(world.starts[1].1.unless_open, Some(first));
}

#[test]
fn a_refused_start_is_kept_as_the_last_error() {
    let mut world = World::of("*/10 * * * *");
    world.fire(at(10));
    let refused = StartAnswer::Refused("x".repeat(5_000));
    world
        .take(&answered(world.starts[0].0, refused), at(10))
        .unwrap();
    let view = world.schedule().view();
    assert_eq!(
        (view.last_outcome, view.last_run),
        (Some(FireOutcome::Refused), None)
    );
    assert_eq!(view.last_error.unwrap().len(), 1_000);
}

/// The executor may be of another release. The run may have started, so the next fire asks about it.
#[test]
fn an_unreadable_reply_does_not_stop_the_schedule() {
    let mut world = World::default();
    let exclusive = put_spec(spec("*/10 * * * *", Overlap::Skip));
    world.take(&exclusive, at(0)).unwrap();
    world.fire(at(10));
    let (rev, run) = (world.starts[0].0, world.starts[0].1.run);
    world
        .take(&answered(rev, StartAnswer::Unreadable), at(10))
        .unwrap();
    let view = world.schedule().view();
    assert_eq!(
        (view.last_outcome, view.last_run),
        (Some(FireOutcome::Refused), Some(run))
    );
    assert!(view.last_error.is_some());
    world.fire(at(20));
    assert_eq!(world.starts[1].1.unless_open, Some(run));
}

#[test]
fn one_schedule_too_many_is_refused() {
    let decide = |count: usize| {
        let names = (0..count)
            .map(|n| format!("s{n}").parse().unwrap())
            .collect();
        let found = move |_: &Need| Lookup::Found(Fact::Schedules(BTreeSet::clone(&names)));
        SchedulerDomain::decide(None, &put("@daily"), &found, at(0))
    };
    assert!(decide(SCHEDULES_MAX - 1).is_ok());
    let Err(Undecided::Refused(refusal)) = decide(SCHEDULES_MAX) else {
        panic!("not refused");
    };
    assert_eq!(refusal.problem().code, "too_many_schedules");
}

/// An input at a minute.
fn any_input() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop_oneof![Just("*/10 * * * *"), Just("5 * * * *"), Just("* * * * *")]
            .prop_flat_map(|cron| prop_oneof![Just(Overlap::Start), Just(Overlap::Skip)]
                .prop_map(move |overlap| Step::Put(spec(cron, overlap)))),
        1 => Just(Step::Delete),
        6 => Just(Step::Fire),
        4 => Just(Step::Answer),
        4 => (-20..200_i64).prop_map(Step::Move),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Put(ScheduleSpec),
    Delete,
    Fire,
    /// The executor answers the newest start.
    Answer,
    /// The clock moves by minutes.
    Move(i64),
}

proptest! {
    /// Each fire starts at most one run, never before its instant, and in order. A schedule always has a next fire.
    #[test]
    fn each_fire_starts_once(steps in proptest::collection::vec(any_input(), 1..60)) {
        let (mut world, mut now) = (World::default(), at(0));
        for step in steps {
            // No two schedules are created at one instant.
            now += TimeDelta::milliseconds(1);
            let before = world.starts.len();
            match step {
                Step::Put(spec) => world.take(&put_spec(spec), now).unwrap(),
                Step::Delete => {
                    world.take(&delete(), now).ok();
                }
                Step::Fire if world.timer.is_some() => world.fire(now),
                Step::Answer => {
                    if let Some((rev, _)) = world.starts.last() {
                        world.take(&answered(*rev, STARTED), now).unwrap();
                    }
                }
                Step::Move(minutes) => now += TimeDelta::minutes(minutes),
                Step::Fire => {}
            }
            prop_assert!(world.starts.len() <= before + 1);
            for (rev, start) in world.starts.iter().skip(before) {
                prop_assert!(start.fired_at <= now);
                prop_assert_eq!(i64::try_from(*rev).unwrap(), start.fired_at.timestamp_millis());
            }
            if let Some(timer) = &world.timer {
                let next = timer.schedule.as_ref().map(|schedule| schedule.next_fire);
                let is_pending = matches!(timer.phase, Phase::Pending(due) if next == Some(Some(due)));
                prop_assert_eq!(is_pending, timer.schedule.is_some(), "nothing waits without a waker");
            }
        }
        let runs: BTreeSet<_> = world.starts.iter().map(|(_, start)| start.run).collect();
        prop_assert_eq!(runs.len(), world.starts.len());
    }
}
