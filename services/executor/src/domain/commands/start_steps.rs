//! `executor.start_steps`: a worker asks whether it may start a delivered step.

use holdpoint_contracts::steps::Grant;
use holdpoint_ids::NodeName;

use crate::domain::effect::Reply;
use crate::domain::model::run::{StepGrant, StepPhase};
use crate::domain::model::time::millis_between;
use crate::domain::transition::{RowData, RunDecision, RunOutcome, RunTransition};

/// What a worker wants to start.
pub(crate) struct Delivery {
    pub(crate) dispatch: u64,
    /// How often it was delivered.
    pub(crate) count: u64,
    pub(crate) without_lease: bool,
}

/// Answers a worker that wants to start a delivered step. `go` is a committed row.
pub(crate) fn start_delivered_step<'a>(
    mut transition: RunTransition<'a>,
    node: &NodeName,
    step: &str,
    delivery: &Delivery,
) -> RunDecision<'a> {
    let index = transition.position(step)?;
    let current = transition
        .step(index)
        .filter(|step| step.dispatch == delivery.dispatch);
    let Some(current) = current else {
        return Ok(granted(Grant::Drop));
    };
    let handed = match &current.phase {
        // Paused: it is dispatched anew on resume.
        StepPhase::Queued(_) if !transition.run.moves() => return Ok(granted(Grant::Drop)),
        // An idempotent step on its first delivery needs no row: a repetition does no harm, and it can still
        // be refused.
        StepPhase::Queued(handed)
            if delivery.without_lease && handed.idempotent && delivery.count <= 1 =>
        {
            return Ok(granted(Grant::GoWithoutLease));
        }
        StepPhase::Queued(handed) => handed.clone(),
        // The reply to its first request was lost. A pause since then lets it finish.
        StepPhase::Granted(held) if held.node == *node && held.delivery == delivery.count => {
            return Ok(granted(Grant::Go));
        }
        StepPhase::Uncertain(_) => return Ok(granted(Grant::Uncertain)),
        // The lease decides which worker has it, not the bus. When the lease ends, the step is dispatched
        // again.
        StepPhase::Granted(_)
        | StepPhase::Planned
        | StepPhase::Waiting(_)
        | StepPhase::AwaitingPerson(_)
        | StepPhase::Parked(_)
        | StepPhase::Completed { .. }
        | StepPhase::Failed { .. }
        | StepPhase::Skipped { .. }
        | StepPhase::Cancelled { .. } => return Ok(granted(Grant::Drop)),
    };
    transition.run.clocks.queued_ms += millis_between(handed.at, transition.now);
    let grant = StepGrant {
        handed,
        node: node.clone(),
        delivery: delivery.count,
        since: transition.now,
    };
    transition.set_phase(index, StepPhase::Granted(grant), RowData::default());
    transition.decided(Reply::Grant(Grant::Go))
}

const fn granted<'a>(grant: Grant) -> RunOutcome<'a> {
    RunOutcome::Unchanged(Reply::Grant(grant))
}
