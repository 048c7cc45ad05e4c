//! The calls of a run's tools, for its snapshot.

use std::sync::Arc;

use holdpoint_ids::RunId;
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::super::step_row::{COLUMN, Column, Entity, read};
use crate::domain::{Fact, Need, TOOL_CALLS_MAX, bounded_calls, calls_of_row};

/// Rows that are in memory at once. Each may have half a megabyte.
const PAGE: u64 = 10;

/// The newest calls of each run, oldest first.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    runs: &[RunId],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(runs.len());
    for run in runs {
        let mut calls = Vec::new();
        for page in 0.. {
            let rows = Entity::find()
                .filter(COLUMN.run_id.eq(run.uuid()))
                .filter(COLUMN.tool.is_not_null())
                .order_by_desc(Column::StartedAt)
                .order_by_desc(Column::StepId)
                .limit(PAGE)
                .offset(page * PAGE);
            let rows = rows.all(db).await?;
            let is_last = u64::try_from(rows.len()).is_ok_and(|count| count < PAGE);
            for row in rows {
                calls.extend(calls_of_row(read(row)?));
            }
            if is_last || calls.len() >= TOOL_CALLS_MAX {
                break;
            }
        }
        let calls = Fact::ToolCalls(Arc::new(bounded_calls(calls)));
        found.push((Need::ToolCalls(*run), calls));
    }
    Ok(found)
}
