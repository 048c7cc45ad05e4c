//! What happens when a schedule fires: one start, and the timer of the next fire.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::ScheduledStart;
use holdpoint_contracts::scheduler::{FireOutcome, Overlap};
use holdpoint_ids::RunId;

use crate::domain::decision::Outcome;
use crate::domain::effect::{DueReply, Effect, Reply};
use crate::domain::model::Timer;
use crate::domain::model::schedule::{Fire, PendingStart, Schedule, rev_of};
use crate::domain::rules::fire_times::FireTimes;
use crate::domain::transition::{arm, decided, timer_of};

/// Of the fires that were missed since `due`, only the latest one starts a run.
pub(crate) fn fire_schedule(
    timer: &Timer,
    schedule: &Schedule,
    due: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Outcome {
    let spec = &schedule.spec;
    // Stored schedules can be read. Without a zone that was removed since, nothing fires after this one.
    let times = FireTimes::read(&spec.cron, &spec.time_zone).ok();
    let at = times.as_ref().map_or(due, |times| times.latest(due, now));
    let mut next = Schedule {
        next_fire: times.and_then(|times| times.next_after(at.max(now))),
        ..schedule.clone()
    };
    // Until the executor replies, a start may have opened a run.
    let is_overlapping = spec.overlap == Overlap::Skip && schedule.pending.is_some();
    let mut effects = Vec::new();
    next.last = Some(if is_overlapping {
        Fire {
            at,
            outcome: FireOutcome::Skipped,
            error: Some("the start before has no answer yet".to_owned()),
        }
    } else {
        let start = start(schedule, at);
        let rev = rev_of(at);
        next.pending = Some(PendingStart {
            rev,
            run: start.run,
        });
        effects.push(Effect::Start {
            key: timer.key.clone(),
            rev,
            start: Box::new(start),
        });
        Fire {
            at,
            outcome: FireOutcome::Starting,
            error: None,
        }
    });
    let timer = timer_of(Some(timer), &timer.key, next);
    effects.extend(arm(&timer, now));
    decided(timer, effects, Reply::Due(DueReply::Fired))
}

fn start(schedule: &Schedule, at: DateTime<Utc>) -> ScheduledStart {
    let spec = &schedule.spec;
    let created_ms = schedule.created_at.timestamp_millis();
    let fired_ms = at.timestamp_millis();
    let is_exclusive = spec.overlap == Overlap::Skip;
    ScheduledStart {
        run: RunId::of_schedule(&schedule.workspace, &spec.name, created_ms, fired_ms),
        schedule: spec.name.clone(),
        agent: spec.agent.clone(),
        input: spec.input.clone(),
        fired_at: at,
        when_paused: spec.when_paused,
        unless_open: schedule.last_run.filter(|_| is_exclusive),
    }
}
