//! A rehearsal: the run of an agent for one contact, on a clock of its own (S0-AC5).
//!
//! It gives the inputs of a real run to the same `decide`. Its effects change only what is in memory, so nothing is
//! sent or stored. A script says what people, tools and contacts do.

pub mod audience;
mod call_results;
pub mod child_plans;
mod child_runs;
mod in_memory_run;
mod ladder;
mod open_request;
mod people;
pub mod policies;
mod recorder;
mod rungs;
mod sample;
pub mod script;
pub mod setup;
pub mod standing_approvals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::rehearsal::{
    RUN_DAYS_MAX, RehearsalContact, RehearsalLimit, RehearsedRun,
};
use holdpoint_contracts::run::{RunStatus, StepStatus};
use holdpoint_ids::{ContactId, RunId};

use crate::domain::model::plan::Plan;
use crate::domain::model::run::{Run, Signal};
use crate::domain::model::time::after;
use crate::domain::rehearsal::in_memory_run::{ExternalChange, InMemoryRun};
use crate::domain::rehearsal::script::fits;
use crate::domain::rehearsal::setup::RehearsalSetup;

/// Rehearses the run of one contact. `None`: `may_continue` said no.
///
/// # Errors
/// The script has an answer that the request does not take; one sentence.
pub fn rehearse(
    setup: &RehearsalSetup,
    contact: &RehearsalContact,
    may_continue: &dyn Fn() -> bool,
) -> Result<Option<RehearsedRun>, String> {
    let run = RunId::of_rehearsal(&contact.id, setup.start_at.timestamp_millis());
    rehearse_as(run, setup, contact, may_continue)
}

/// As [`rehearse`], with the id of the run: the waits between attempts are derived from it.
pub(crate) fn rehearse_as(
    run: RunId,
    setup: &RehearsalSetup,
    contact: &RehearsalContact,
    may_continue: &dyn Fn() -> bool,
) -> Result<Option<RehearsedRun>, String> {
    let mut state = InMemoryRun::new(run, setup, contact);
    let mut changes = changes_of(setup, &contact.id);
    state.start();
    let mut rounds = 0;
    while let Some(next) = next_input(&state, &changes) {
        if !may_continue() {
            return Ok(None);
        }
        state.stopped_by = limit_reached(setup, &state, next, rounds);
        if state.stopped_by.is_some() {
            break;
        }
        rounds += 1;
        match next {
            NextInput::Work => state.work()?,
            NextInput::Change(at) => {
                state.now = state.now.max(at);
                if let Some((_, change)) = changes.pop_first() {
                    state.change(change);
                }
            }
            NextInput::Due(at) => {
                state.now = state.now.max(at);
                state.do_next()?;
            }
        }
    }
    Ok(Some(finished(setup, contact, state)))
}

/// What happens next in a rehearsed run.
#[derive(Debug, Clone, Copy)]
enum NextInput {
    /// A worker takes a call, or a child run starts or ends.
    Work,
    /// The contact changes, or a signal comes.
    Change(DateTime<Utc>),
    /// A timer or an answer is due.
    Due(DateTime<Utc>),
}

/// None: the run has ended, or nothing wakes it any more.
fn next_input(state: &InMemoryRun<'_>, changes: &Changes) -> Option<NextInput> {
    if state.run().is_none_or(Run::is_final) {
        return None;
    }
    if state.has_work() {
        return Some(NextInput::Work);
    }
    let due = state.next_due().map(|(at, _)| at);
    let change = changes.first_key_value().map(|((at, _), _)| *at);
    // A change at the same instant comes first: the condition after a wait sees it.
    match (change, due) {
        (Some(change), Some(due)) if change > due => Some(NextInput::Due(due)),
        (Some(change), _) => Some(NextInput::Change(change)),
        (None, due) => due.map(NextInput::Due),
    }
}

fn limit_reached(
    setup: &RehearsalSetup,
    state: &InMemoryRun<'_>,
    next: NextInput,
    rounds: usize,
) -> Option<RehearsalLimit> {
    let at = match next {
        NextInput::Work => state.now,
        NextInput::Change(at) | NextInput::Due(at) => at,
    };
    if at - setup.start_at > TimeDelta::days(RUN_DAYS_MAX) {
        return Some(RehearsalLimit::Time);
    }
    if rounds >= setup.limits.rounds {
        return Some(RehearsalLimit::Rounds);
    }
    state.is_full().then_some(RehearsalLimit::Memory)
}

/// Changes from outside of the run, by their instant and place.
type Changes = BTreeMap<(DateTime<Utc>, usize), ExternalChange>;

/// The changes of the script for this contact.
fn changes_of(setup: &RehearsalSetup, contact: &ContactId) -> Changes {
    let script = &setup.script;
    let fields = script.contacts.iter();
    let fields = fields.filter(|rule| fits(rule.contact.as_ref(), contact));
    let fields = fields.map(|rule| (rule.after, ExternalChange::Contact(rule.set.clone())));
    let signals = script.signals.iter();
    let signals = signals.filter(|rule| fits(rule.contact.as_ref(), contact));
    let signals = signals.map(|rule| {
        let signal = Signal {
            name: rule.signal.clone(),
            data: rule.data.clone(),
            key: None,
        };
        (rule.after, ExternalChange::Signal(signal))
    });
    let all = fields.chain(signals).enumerate();
    all.map(|(place, (ms, change))| ((after(setup.start_at, ms), place), change))
        .collect()
}

fn finished(
    setup: &RehearsalSetup,
    contact: &RehearsalContact,
    mut state: InMemoryRun<'_>,
) -> RehearsedRun {
    for dispatch in std::mem::take(&mut state.dispatched) {
        state.withdraw_call(&dispatch);
    }
    let plan = state.plan();
    let steps_reached = steps_reached(plan, &state);
    let generated = plan.steps.iter().skip(setup.plan.plan.steps.len());
    let generated_steps = generated.map(|step| step.id.clone()).collect();
    let stopped_by = state.stopped_by;
    let Some(view) = state.run().map(|run| run.view(state.now)) else {
        // Every run starts, or its start is refused.
        return refused_run(
            setup,
            contact,
            state.refused.unwrap_or_else(Problem::internal),
        );
    };
    let recorded = state.recorder.finish();
    RehearsedRun {
        contact: contact.id.clone(),
        status: view.status,
        code: view.failure.map(|failure| failure.code),
        message: view.message,
        ended_at: view.ended_at,
        steps_reached,
        generated_steps,
        calls: recorded.calls,
        requests: recorded.requests,
        users: recorded.users,
        empty_roles: recorded.empty_roles,
        standing_approvals: state.uses,
        stopped_by,
        timeline: recorded.events,
        events_left: recorded.left,
    }
}

/// A run whose start is refused, for example because an input is missing.
fn refused_run(
    setup: &RehearsalSetup,
    contact: &RehearsalContact,
    refused: Problem,
) -> RehearsedRun {
    RehearsedRun {
        contact: contact.id.clone(),
        status: RunStatus::Failed,
        code: Some(refused.code),
        message: format!("The run cannot start: {}", refused.detail),
        ended_at: Some(setup.start_at),
        steps_reached: Vec::new(),
        generated_steps: Vec::new(),
        calls: BTreeMap::new(),
        requests: BTreeMap::new(),
        users: BTreeMap::new(),
        empty_roles: BTreeSet::new(),
        standing_approvals: BTreeMap::new(),
        stopped_by: None,
        timeline: Vec::new(),
        events_left: 0,
    }
}

fn steps_reached(plan: &Plan, state: &InMemoryRun<'_>) -> Vec<String> {
    let steps = state.run().map_or(&[][..], |run| &run.steps);
    let planned = plan.steps.iter().zip(steps);
    let reached = planned.filter(|(planned, step)| {
        let has_not_begun = matches!(
            step.phase.status(),
            StepStatus::Planned | StepStatus::Skipped | StepStatus::Cancelled
        );
        // A step that its deadline or a rejection has skipped was reached.
        !has_not_begun || state.recorder.has_acted(&planned.id)
    });
    reached.map(|(planned, _)| planned.id.clone()).collect()
}
