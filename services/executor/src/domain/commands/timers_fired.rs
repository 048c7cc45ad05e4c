//! `executor.timers_fired`: the scheduler reports a due timer (S0-AC2).

use holdpoint_contracts::executor::TimerReply;
use holdpoint_contracts::history::EventType;
use holdpoint_ids::HoldId;
use serde_json::json;

use crate::domain::effect::Reply;
use crate::domain::model::run::Timer;
use crate::domain::rules::next_steps::{redispatch_step, start_next_steps};
use crate::domain::rules::open_hold_needs::load_open_hold_needs;
use crate::domain::rules::timers::end_wait;
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// A timer is due (S0-AC2). A timer that was moved, frozen or cleared changes nothing: the due time in the
/// database decides, and the bus only wakes.
pub(crate) fn fire_timer<'a>(
    mut transition: RunTransition<'a>,
    hold: HoldId,
    rev: u64,
) -> RunDecision<'a> {
    let start = transition.run.delayed_start();
    if start.is_some_and(|(timer, _)| timer.hold == hold && timer.rev == rev) {
        transition.run.take_start_timer();
        start_next_steps(&mut transition)?;
        return transition.decided(Reply::Timer(TimerReply::Applied));
    }
    let waiting = transition.run.holds().find(|(_, open)| open.id == hold);
    let is_current = waiting.is_some_and(|(_, open)| match open.timer {
        Timer::Set { rev: set, .. } => set == rev,
        Timer::Frozen { .. } => false,
    });
    let Some(index) = waiting.filter(|_| is_current).and_then(|(step, _)| {
        transition
            .run
            .steps
            .iter()
            .position(|one| one.id == step.id)
    }) else {
        return Ok(RunOutcome::Unchanged(Reply::Timer(TimerReply::Stale)));
    };
    if waiting.is_some_and(|(_, open)| open.backoff.is_some()) {
        load_open_hold_needs(&transition, &[index])?;
        redispatch_step(&mut transition, index)?;
        return transition.decided(Reply::Timer(TimerReply::Applied));
    }
    if waiting.is_some_and(|(_, open)| open.signal.is_none() && open.child_runs.is_none()) {
        let step = transition.step(index).map(|step| step.id.clone());
        transition.event(
            EventType::RunResumed,
            step.as_deref(),
            "The wait is over; the run continues.".to_owned(),
            json!({ "hold": hold, "by": "timer" }),
        );
    }
    end_wait(&mut transition, index);
    start_next_steps(&mut transition)?;
    transition.decided(Reply::Timer(TimerReply::Applied))
}
