//! What an operation does with one run of it: its action takes effect at most once, and its result is kept.

use chrono::{DateTime, Utc};
use holdpoint_contracts::operation::{OperationState, RunAction, RunFilter, RunResult};
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::NAME_CHARS_MAX;

use crate::domain::decision::{Decided, Decision, Lookup, LookupFn, Outcome, Undecided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::{OperationItem, RunInput};
use crate::domain::model::operation::{Operation, OperationResult};
use crate::domain::model::run::{
    LABEL_CHARS_MAX, Run, SIGNAL_BYTES_MAX, SIGNAL_KEY_CHARS_MAX, Signal,
};
use crate::domain::need::{Aggregate, Fact, Key, Need};
use crate::domain::refusal::{REASON_CHARS_MAX, Refusal};

/// The input of an action for each of its runs.
#[must_use]
pub fn input_of_action(operation: &Operation) -> RunInput {
    let by = operation.by.clone();
    match operation.action.clone() {
        RunAction::Pause { waiting } => RunInput::Pause { by, waiting },
        RunAction::Resume { mode } => RunInput::Resume {
            by,
            mode,
            step: None,
        },
        RunAction::Cancel { reason } => RunInput::Cancel { by, reason },
        RunAction::Suspend { reason } => RunInput::Suspend { by, reason },
        RunAction::Retry { from_step } => RunInput::Retry {
            by,
            from: from_step,
        },
        RunAction::Migrate { version } => RunInput::Migrate { by, version },
        RunAction::Signal { name, data, key } => {
            let signal = Signal { name, data, key };
            RunInput::Signal { by, signal }
        }
    }
}

/// Refuses what would be refused for every run.
///
/// # Errors
/// [`Refusal`]: a text is too long, or a label has no value.
pub fn check_action(action: &RunAction, filter: &RunFilter) -> Result<(), Refusal> {
    let is_short = |text: &str, most| text.chars().count() <= most;
    let is_label =
        |(name, value)| is_short(name, LABEL_CHARS_MAX) && is_short(value, LABEL_CHARS_MAX);
    if let Some(label) = &filter.label
        && !label.split_once('=').is_some_and(is_label)
    {
        return Err(Refusal::InvalidFilter);
    }
    match action {
        RunAction::Cancel { reason } | RunAction::Suspend { reason } => {
            if !is_short(reason.as_deref().unwrap_or_default(), REASON_CHARS_MAX) {
                return Err(Refusal::ReasonTooLong);
            }
        }
        RunAction::Retry { from_step } => {
            if !is_short(from_step.as_deref().unwrap_or_default(), NAME_CHARS_MAX) {
                return Err(Refusal::NameTooLong("from_step"));
            }
        }
        RunAction::Signal { name, data, key } => {
            if !is_short(name, NAME_CHARS_MAX) {
                return Err(Refusal::NameTooLong("name"));
            }
            let chars = key.as_deref().map_or(1, |key| key.chars().count());
            if !(1..=SIGNAL_KEY_CHARS_MAX).contains(&chars) {
                return Err(Refusal::InvalidSignalKey);
            }
            let bytes = json_bytes(data);
            if bytes > SIGNAL_BYTES_MAX {
                return Err(Refusal::SignalTooLarge(bytes));
            }
        }
        RunAction::Pause { .. } | RunAction::Resume { .. } | RunAction::Migrate { .. } => {}
    }
    Ok(())
}

/// Decides the action for one run and adds its result, unless the run has one. A refusal is a result too, so the
/// version of the run rises with each result: of two replicas one has written it.
///
/// # Errors
/// [`Undecided::NeedsMore`] only: a rejection is a result.
pub(crate) fn decide_once(
    item: &OperationItem,
    run: &Run,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
    decide: impl FnOnce() -> Decision,
) -> Decision {
    let mut needs = needs(item);
    needs.retain(|need| matches!(lookup(need), Lookup::NotLoaded));
    if !needs.is_empty() {
        // Loaded together with the needs of the action.
        if let Err(Undecided::NeedsMore(more)) = decide() {
            needs.extend(more);
        }
        return Err(Undecided::NeedsMore(needs));
    }
    if is_done(item, lookup) {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    }
    let outcome = match disabled_user(item, lookup) {
        Some(refusal) => Err(refusal.into()),
        None => decide(),
    };
    let (decided, result, code) = match outcome {
        Ok(Outcome::Decided(decided)) => {
            let reply = decided.reply.try_as_changed_ref();
            let result = match reply {
                Some(reply) if !reply.changed => RunResult::Unchanged,
                Some(_) | None => RunResult::Changed,
            };
            (*decided, result, None)
        }
        Ok(Outcome::Unchanged(_)) => (kept(run), RunResult::Unchanged, None),
        Err(Undecided::Refused(refusal)) => {
            let code = refusal.problem().code;
            (kept(run), RunResult::Refused, Some(code))
        }
        Err(Undecided::NeedsMore(more)) => return Err(Undecided::NeedsMore(more)),
    };
    let result = OperationResult {
        operation: item.operation,
        run: run.id,
        result,
        code,
        at: now,
    };
    Ok(Outcome::Decided(Box::new(with_result(decided, result))))
}

fn needs(item: &OperationItem) -> Vec<Need> {
    let own = [
        Need::State(Key::Operation(item.operation)),
        Need::OperationResult(item.operation, item.run),
    ];
    own.into_iter().chain(user_need(item)).collect()
}

fn user_need(item: &OperationItem) -> Option<Need> {
    let user = item.user.clone()?;
    Some(Need::User(item.workspace.clone(), user))
}

/// Whether the run has its result, or the operation was cancelled. The last page ends the operation in the same
/// batch, perhaps before its runs are decided, so a completed operation still acts on them.
fn is_done(item: &OperationItem, lookup: LookupFn<'_>) -> bool {
    let is_cancelled = match lookup(&Need::State(Key::Operation(item.operation))) {
        Lookup::Found(Fact::Operation(it)) => it.state() == OperationState::Cancelled,
        Lookup::Found(_) | Lookup::Missing | Lookup::NotLoaded => true,
    };
    let result = lookup(&Need::OperationResult(item.operation, item.run));
    is_cancelled || matches!(result, Lookup::Found(_))
}

/// An operation counts while its user is active.
fn disabled_user(item: &OperationItem, lookup: LookupFn<'_>) -> Option<Refusal> {
    match lookup(&user_need(item)?) {
        Lookup::Found(Fact::User(found)) if !found.is_active => {
            item.user.clone().map(Refusal::Disabled)
        }
        Lookup::Found(_) | Lookup::Missing | Lookup::NotLoaded => None,
    }
}

/// The run as it was. Only its version rises.
fn kept(run: &Run) -> Decided {
    Decided {
        state: Aggregate::Run(Run {
            version: run.version + 1,
            ..run.clone()
        }),
        effects: Vec::new(),
        facts: Vec::new(),
        reply: Reply::Nothing(()),
    }
}

fn with_result(mut decided: Decided, result: OperationResult) -> Decided {
    let need = Need::OperationResult(result.operation, result.run);
    decided.facts.push((need, Fact::Count(1)));
    decided.effects.push(Effect::OperationResult(result));
    decided
}
