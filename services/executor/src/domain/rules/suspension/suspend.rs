//! What a suspension does to a run: its pause, its snapshot and its event are one transition (S1-R7).

use std::collections::BTreeSet;

use holdpoint_contracts::history::EventType;
use holdpoint_contracts::run::PauseScope;
use holdpoint_contracts::suspension::SnapshotView;
use holdpoint_ids::NodeName;
use serde_json::json;

use crate::domain::decision::Undecided;
use crate::domain::effect::Effect;
use crate::domain::model::run::{InFlightStep, StepPhase, Suspension};
use crate::domain::rules::pauses::{freeze_run, is_of_run};
use crate::domain::rules::suspension::new_snapshot::new_snapshot;
use crate::domain::transition::RunTransition;

/// Reason of a suspension by a worker that shuts down (S1-R5).
pub(crate) const SHUTDOWN: &str = "shutdown";

/// Suspends a run that is not suspended. Holds freeze as with a pause.
pub(crate) fn suspend(
    transition: &mut RunTransition<'_>,
    by: &str,
    reason: &str,
) -> Result<(), Undecided> {
    let snapshot = new_snapshot(transition, reason)?;
    if !transition.run.pauses.iter().any(is_of_run) {
        freeze_run(transition, PauseScope::Run, by);
    }
    let suspension = Suspension {
        at: transition.now,
        reason: reason.to_owned(),
        by: by.to_owned(),
        in_flight: in_flight_steps(transition),
    };
    let complete = suspension.is_complete(&transition.run);
    transition.run.suspension = Some(Box::new(suspension));
    transition.snapshot = Some(Box::new(SnapshotView {
        run: transition.run.id,
        snapshot_json: snapshot,
        suspended_at: transition.now,
        complete,
    }));
    let message = transition.run.message(transition.now);
    let data = json!({ "run_id": transition.run.id, "reason": reason, "by": by });
    transition.event(EventType::RunSuspended, None, message, data);
    probe_nodes(transition);
    Ok(())
}

fn in_flight_steps(transition: &RunTransition<'_>) -> Vec<InFlightStep> {
    let steps = transition.run.steps.iter();
    let granted = steps.filter(|step| matches!(step.phase, StepPhase::Granted(_)));
    let in_flight = granted.map(|step| InFlightStep {
        step: step.id.clone(),
        dispatch: step.dispatch,
        is_reported: false,
    });
    in_flight.collect()
}

/// Asks for heartbeats now: the reply tells the workers to report what they know. A long lease would make them too
/// late.
fn probe_nodes(transition: &mut RunTransition<'_>) {
    let steps = transition.run.steps.iter();
    let granted = steps.filter_map(|step| step.phase.try_as_granted_ref());
    let nodes: BTreeSet<NodeName> = granted.map(|grant| grant.node.clone()).collect();
    for node in nodes {
        transition.effect(Effect::ProbeNode { node });
    }
}
