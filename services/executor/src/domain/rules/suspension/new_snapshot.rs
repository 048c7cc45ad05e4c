//! A new snapshot of a run replaces the last one. A step that has not ended keeps what its last call saved.

use holdpoint_contracts::suspension::Snapshot;

use crate::domain::decision::{Lookup, Undecided};
use crate::domain::model::run::Run;
use crate::domain::need::{Fact, Need};
use crate::domain::rules::suspension::kept_blobs::release_blobs;
use crate::domain::rules::suspension::snapshot::{load_tool_calls, snapshot_of};
use crate::domain::rules::suspension::supplements::{part_of, set_part};
use crate::domain::transition::RunTransition;

/// A snapshot for this decision, without new parts of workers.
pub(crate) fn new_snapshot(
    transition: &mut RunTransition<'_>,
    reason: &str,
) -> Result<Snapshot, Undecided> {
    let calls = load_tool_calls(transition)?;
    let mut snapshot = snapshot_of(&transition.run, reason, calls);
    let kept = steps_with_part(&transition.run);
    if !kept.is_empty() {
        let need = Need::Snapshot(transition.run.id);
        match transition.lookup(&need) {
            Lookup::NotLoaded => return Err(Undecided::NeedsMore(vec![need])),
            Lookup::Found(Fact::Snapshot(last)) => {
                for step in kept {
                    if let Some(part) = part_of(&last.snapshot_json, &step) {
                        set_part(&mut snapshot, &step, part);
                    }
                }
            }
            Lookup::Missing | Lookup::Found(_) => {}
        }
    }
    release_blobs(transition, &snapshot);
    Ok(snapshot)
}

/// What a new snapshot needs.
pub(crate) fn new_snapshot_needs(run: &Run) -> impl Iterator<Item = Need> + use<> {
    let last = !steps_with_part(run).is_empty();
    let last = last.then_some(Need::Snapshot(run.id));
    last.into_iter().chain([Need::ToolCalls(run.id)])
}

/// The steps that have not ended, and whose next call gets what the last one saved.
fn steps_with_part(run: &Run) -> Vec<String> {
    let steps = run.steps.iter();
    let kept = steps.filter(|step| step.saved_part.is_some() && !step.phase.is_settled());
    kept.map(|step| step.id.clone()).collect()
}
