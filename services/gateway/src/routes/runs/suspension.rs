//! `/runs/{run}/suspend` and `/runs/{run}/snapshot` (S1).

use axum::Json;
use holdpoint_contracts::run::ChangedRun;
use holdpoint_contracts::suspension::{GetSnapshot, SnapshotView, SuspendRun};
use holdpoint_ids::RunId;
use serde::Deserialize;

use crate::auth::may::Operate;
use crate::call::{Call, OptionalJson};
use crate::command_outcome::CommandResult;
use crate::problem::JsonResult;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuspendBody {
    reason: Option<String>,
}

/// Suspends the run (S1-R1).
pub(super) async fn suspend(
    call: Call<Operate, RunId, OptionalJson<SuspendBody>>,
) -> CommandResult<ChangedRun> {
    let (run, reason) = (call.id, call.body.reason);
    let command = SuspendRun { run, reason };
    call.caller.command(call.key, command).await
}

/// The newest snapshot, or `null`. It has values of tools, so only operators read it (S1-R6).
pub(super) async fn snapshot(call: Call<Operate, RunId>) -> JsonResult<Option<SnapshotView>> {
    let query = GetSnapshot { run: call.id };
    let Json(found) = call.caller.query(query).await?;
    Ok(Json(found))
}
