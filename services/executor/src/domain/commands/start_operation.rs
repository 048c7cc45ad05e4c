//! `executor.start_operation`, `cancel_operation`: an operator acts on all runs that match a filter. The sweep reports
//! each page of runs.

use chrono::{DateTime, Utc};
use holdpoint_contracts::message::Actor;
use holdpoint_contracts::operation::{OPERATION_RUNS_MAX, OPERATIONS_MAX};
use holdpoint_ids::{OperationId, RunId};

use crate::domain::decision::{Decided, Decision, InWorkspace, LookupFn, Outcome, decided};
use crate::domain::effect::{Effect, Reply};
use crate::domain::input::OperationInput;
use crate::domain::model::operation::{Operation, OperationPhase};
use crate::domain::need::{Aggregate, Fact, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::operation_items::check_action;
use crate::domain::rules::places::take_place;

pub(crate) fn change_operation(
    known: Option<&Operation>,
    of: InWorkspace<'_, OperationId>,
    input: &OperationInput,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let InWorkspace { workspace, id } = of;
    // An operation of another workspace does not exist for this one, but its id is taken.
    let own = known.filter(|it| it.workspace == *workspace);
    match (input, own) {
        (OperationInput::Start { .. }, Some(own)) => unchanged(own),
        (OperationInput::Start { .. }, None) if known.is_some() => {
            Err(Refusal::OperationIdTaken(id).into())
        }
        (
            OperationInput::Start {
                by,
                action,
                filter,
                matched,
            },
            None,
        ) => {
            check_action(action, filter)?;
            if *matched > OPERATION_RUNS_MAX {
                return Err(Refusal::TooManyRuns.into());
            }
            let need = Need::RunningOperations(workspace.clone());
            let place = take_place(need, OPERATIONS_MAX, Refusal::TooManyOperations, lookup)?;
            let fresh = Operation {
                id,
                workspace: workspace.clone(),
                version: 1,
                action: action.clone(),
                filter: filter.clone(),
                by: by.clone(),
                matched: *matched,
                created_at: now,
                taken: 0,
                cursor: None,
                phase: OperationPhase::Running,
            };
            changed(fresh, vec![Effect::OperationPending], vec![place])
        }
        (_, None) => Err(Refusal::OperationNotFound(id).into()),
        (OperationInput::Cancel { by }, Some(own)) => cancel(own, by, now),
        (OperationInput::Paged { after, upto, runs }, Some(own)) => {
            record_page(own, *after, *upto, *runs, now)
        }
    }
}

fn cancel(own: &Operation, by: &Actor, now: DateTime<Utc>) -> Decision {
    if !own.is_running() {
        return unchanged(own);
    }
    let phase = OperationPhase::Cancelled {
        at: now,
        by: by.clone(),
    };
    changed(next(own, phase), Vec::new(), Vec::new())
}

/// A page counts if it follows the newest one: another replica may have read the same page.
fn record_page(
    own: &Operation,
    after: Option<RunId>,
    upto: Option<RunId>,
    runs: u64,
    now: DateTime<Utc>,
) -> Decision {
    if !own.is_running() || own.cursor != after {
        return Ok(Outcome::Unchanged(Reply::Nothing(())));
    }
    let taken = own.taken + runs;
    let limit_reached = taken >= OPERATION_RUNS_MAX && upto.is_some();
    let phase = match upto {
        Some(_) if !limit_reached => OperationPhase::Running,
        Some(_) | None => OperationPhase::Completed {
            at: now,
            limit_reached,
        },
    };
    let paged = Operation {
        taken,
        cursor: upto.or(own.cursor),
        ..next(own, phase)
    };
    decided(Aggregate::Operation(paged), Vec::new(), Reply::Nothing(()))
}

fn next(own: &Operation, phase: OperationPhase) -> Operation {
    Operation {
        version: own.version + 1,
        phase,
        ..own.clone()
    }
}

fn changed(next: Operation, effects: Vec<Effect>, facts: Vec<(Need, Fact)>) -> Decision {
    let reply = Reply::Operation(Box::new(next.view()));
    Ok(Outcome::Decided(Box::new(Decided {
        state: Aggregate::Operation(next),
        effects,
        facts,
        reply,
    })))
}

fn unchanged(own: &Operation) -> Decision {
    Ok(Outcome::Unchanged(Reply::Operation(Box::new(own.view()))))
}
