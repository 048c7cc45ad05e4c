//! A rehearsal: the run of an agent for one contact, on a clock of its own (S0-AC5).
//!
//! It gives the inputs of a real run to the same `decide`. Its effects change only what is in memory, so nothing is
//! sent or stored. A script says what people, tools and contacts do.

mod call_results;
mod open_request;
mod people;
mod recorder;
mod sample;
pub mod script;
pub mod stage;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::{RehearsalContact, RehearsalLimit, RehearsedRun};
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_ids::{ContactId, RunId};

use crate::domain::model::run::{Run, Signal};
use crate::domain::model::time::after;
use crate::domain::rehearsal::script::fits;
use crate::domain::rehearsal::stage::Stage;
use crate::domain::rehearsal::world::{Change, World};

/// Most rounds of one rehearsed run: calls, timers, answers and changes.
const ROUNDS_MAX: usize = 20_000;

/// Longest rehearsed time.
const TIME_MAX: TimeDelta = TimeDelta::days(400);

/// Rehearses the run of one contact. `None`: `may_continue` said no.
///
/// # Errors
/// The script has an answer that the request does not take; one sentence.
pub fn rehearse(
    stage: &Stage,
    contact: &RehearsalContact,
    may_continue: &dyn Fn() -> bool,
) -> Result<Option<RehearsedRun>, String> {
    let run = RunId::of_rehearsal(&contact.id, stage.start_at.timestamp_millis());
    rehearse_as(run, stage, contact, may_continue)
}

/// As [`rehearse`], with the id of the run: the waits between attempts are derived from it.
pub(crate) fn rehearse_as(
    run: RunId,
    stage: &Stage,
    contact: &RehearsalContact,
    may_continue: &dyn Fn() -> bool,
) -> Result<Option<RehearsedRun>, String> {
    let mut world = World::new(run, stage, contact);
    let mut changes = changes_of(stage, &contact.id);
    world.start()?;
    let mut rounds = 0;
    while let Some(next) = next_input(&world, &changes) {
        if !may_continue() {
            return Ok(None);
        }
        world.stopped_by = limit_reached(stage, &world, next, rounds);
        if world.stopped_by.is_some() {
            break;
        }
        rounds += 1;
        match next {
            NextInput::Work => world.work()?,
            NextInput::Change(at) => {
                world.now = world.now.max(at);
                if let Some((_, change)) = changes.pop_first() {
                    world.change(change)?;
                }
            }
            NextInput::Due(at) => {
                world.now = world.now.max(at);
                world.do_next()?;
            }
        }
    }
    Ok(Some(finished(stage, contact, world)))
}

/// What happens next in a rehearsed run.
#[derive(Debug, Clone, Copy)]
enum NextInput {
    /// A worker takes a call, or a child run ends.
    Work,
    /// The contact changes, or a signal comes.
    Change(DateTime<Utc>),
    /// A timer or an answer is due.
    Due(DateTime<Utc>),
}

/// None: the run has ended, or nothing wakes it any more.
fn next_input(world: &World<'_>, changes: &Changes) -> Option<NextInput> {
    if world.run.as_ref().is_none_or(Run::is_final) {
        return None;
    }
    if world.has_work() {
        return Some(NextInput::Work);
    }
    let due = world.next_due().map(|(at, _)| at);
    let change = changes.first_key_value().map(|((at, _), _)| *at);
    // A change at the same instant comes first: the condition after a wait sees it.
    match (change, due) {
        (Some(change), Some(due)) if change > due => Some(NextInput::Due(due)),
        (Some(change), _) => Some(NextInput::Change(change)),
        (None, due) => due.map(NextInput::Due),
    }
}

fn limit_reached(
    stage: &Stage,
    world: &World<'_>,
    next: NextInput,
    rounds: usize,
) -> Option<RehearsalLimit> {
    let at = match next {
        NextInput::Work => world.now,
        NextInput::Change(at) | NextInput::Due(at) => at,
    };
    if at - stage.start_at > TIME_MAX {
        return Some(RehearsalLimit::Time);
    }
    if rounds >= ROUNDS_MAX {
        return Some(RehearsalLimit::Rounds);
    }
    world.is_full().then_some(RehearsalLimit::Memory)
}

/// Changes from outside of the run, by their instant and place.
type Changes = BTreeMap<(DateTime<Utc>, usize), Change>;

/// What the script says of the contact, by its instant and its place.
fn changes_of(stage: &Stage, contact: &ContactId) -> Changes {
    let script = &stage.script;
    let fields = script.contacts.iter();
    let fields = fields.filter(|rule| fits(rule.contact.as_ref(), contact));
    let fields = fields.map(|rule| (rule.after, Change::Contact(rule.set.clone())));
    let signals = script.signals.iter();
    let signals = signals.filter(|rule| fits(rule.contact.as_ref(), contact));
    let signals = signals.map(|rule| {
        let signal = Signal {
            name: rule.signal.clone(),
            data: rule.data.clone(),
            key: None,
        };
        (rule.after, Change::Signal(signal))
    });
    let all = fields.chain(signals).enumerate();
    all.map(|(place, (ms, change))| ((after(stage.start_at, ms), place), change))
        .collect()
}

fn finished(stage: &Stage, contact: &RehearsalContact, mut world: World<'_>) -> RehearsedRun {
    for dispatch in &world.dispatched {
        world.recorder.withdraw_call(dispatch);
    }
    let steps_reached = steps_reached(stage, &world);
    let stopped_by = world.stopped_by;
    let recorded = world.recorder.finish();
    let view = match (&world.run, world.refused) {
        (Some(run), _) => run.view(world.now),
        // Every run starts, or its start is refused.
        (None, refused) => {
            return refused_run(stage, contact, refused.unwrap_or_else(Problem::internal));
        }
    };
    RehearsedRun {
        contact: contact.id.clone(),
        status: view.status,
        code: view.failure.map(|failure| failure.code),
        message: view.message,
        ended_at: view.ended_at,
        steps_reached,
        calls: recorded.calls,
        requests: recorded.requests,
        stopped_by,
        timeline: recorded.events,
        events_left: recorded.left,
    }
}

/// A run whose start is refused, for example because an input is missing.
fn refused_run(stage: &Stage, contact: &RehearsalContact, refused: Problem) -> RehearsedRun {
    RehearsedRun {
        contact: contact.id.clone(),
        status: RunStatus::Failed,
        code: Some(refused.code),
        message: format!("The run cannot start: {}", refused.detail),
        ended_at: Some(stage.start_at),
        steps_reached: Vec::new(),
        calls: BTreeMap::new(),
        requests: BTreeMap::new(),
        stopped_by: None,
        timeline: Vec::new(),
        events_left: 0,
    }
}

fn steps_reached(stage: &Stage, world: &World<'_>) -> Vec<String> {
    let steps = world.run.as_ref().map_or(&[][..], |run| &run.steps);
    let planned = stage.plan.plan.steps.iter().zip(steps);
    let reached = planned.filter(|(planned, step)| {
        let has_not_begun = matches!(
            step.phase.status(),
            StepStatus::Planned | StepStatus::Skipped | StepStatus::Cancelled
        );
        // Of a step that was skipped by its deadline or a rejection, the history has more.
        !has_not_begun || world.recorder.has_acted(&planned.id)
    });
    reached.map(|(planned, _)| planned.id.clone()).collect()
}
