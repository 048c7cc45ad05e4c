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
use holdpoint_contracts::rehearsal::{RehearsalContact, RehearsedRun};
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_ids::{ContactId, RunId};

use crate::domain::model::run::{Run, Signal};
use crate::domain::model::time::after;
use crate::domain::rehearsal::stage::Stage;
use crate::domain::rehearsal::world::{Change, World};

/// Most inputs of one rehearsed run. A run that needs more is shown as it is then.
const INPUTS_MAX: usize = 20_000;

/// Longest rehearsed time. A run that still waits then is shown as it is then.
const HORIZON: TimeDelta = TimeDelta::days(400);

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
    for _ in 0..INPUTS_MAX {
        if !may_continue() {
            return Ok(None);
        }
        if world.run.as_ref().is_none_or(Run::is_final) {
            break;
        }
        if world.work()? {
            continue;
        }
        let next = world.next_due().map(|(at, _)| at);
        let change = changes.first_key_value().map(|((at, _), _)| *at);
        // A change at the same instant comes first: the condition after a wait sees it.
        let is_change = change.is_some_and(|change| next.is_none_or(|next| change <= next));
        let Some(at) = next.into_iter().chain(change).min() else {
            break;
        };
        if at - stage.start_at > HORIZON {
            break;
        }
        world.now = world.now.max(at);
        match is_change.then(|| changes.pop_first()).flatten() {
            Some((_, change)) => world.change(change)?,
            None => world.do_next()?,
        }
    }
    Ok(Some(finished(stage, contact, world)))
}

/// What the script says of the contact, by its instant and its place.
fn changes_of(stage: &Stage, contact: &ContactId) -> BTreeMap<(DateTime<Utc>, usize), Change> {
    let script = &stage.script;
    let is_for = |wanted: &Option<ContactId>| wanted.as_ref().is_none_or(|it| it == contact);
    let fields = script.contacts.iter().filter(|rule| is_for(&rule.contact));
    let fields = fields.map(|rule| (rule.after, Change::Contact(rule.set.clone())));
    let signals = script.signals.iter().filter(|rule| is_for(&rule.contact));
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
    // The run ended before their workers could start.
    for dispatch in &world.dispatched {
        world.recorder.withdraw_call(&dispatch.step);
    }
    let steps_reached = steps_reached(stage, &world);
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
