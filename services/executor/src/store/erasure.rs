//! Deletes the rows of erased contacts and runs, and what the kernel has kept of their messages.

use std::collections::BTreeMap;

use holdpoint_ids::Workspace;
use holdpoint_kernel::{Traces, erase_traces};
use holdpoint_store::{BrokenRow as _, StoreError, Transaction};

use super::{contact_row, retention};
use crate::domain::Effect;

/// Carries out the erasures among effects.
pub(super) async fn erase(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let mut runs = Vec::new();
    let mut traces: BTreeMap<&Workspace, Traces> = BTreeMap::new();
    for effect in effects {
        if let Effect::DeleteRun { workspace, run } = effect {
            runs.push(run.uuid());
            traces.entry(workspace).or_default().add_run(*run);
        } else if let Effect::EraseContactTraces { workspace, contact } = effect {
            let of_workspace = traces.entry(workspace).or_default();
            let added = of_workspace.add_contact(contact);
            added.map_err(contact_row::Entity::broken)?;
        }
    }
    retention::delete_erased(db, &runs).await?;
    for (workspace, traces) in traces {
        erase_traces(db, workspace, &traces).await?;
    }
    Ok(())
}
