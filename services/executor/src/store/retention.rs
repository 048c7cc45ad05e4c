//! Deletes runs that are past their retention, page by page. Requests stay: they are the record of decisions.

use chrono::{DateTime, Utc};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::{ConnectionTrait, QueryOrder as _, QuerySelect as _};

use super::suspension::snapshot_row;
use super::{history_row, lease_event_row, run_row, run_value_row, step_row};

/// Runs of one page. A run may have thousands of rows in other tables, and callers wait for the commit.
const RUNS: u64 = 50;

/// Whether a run ended before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!page(db, before, 1).await?.is_empty())
}

/// Deletes the runs that ended first. Each table costs one statement. Runs come first, as in a save, so that two
/// replicas cannot deadlock.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    before: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    let Some(before) = before else {
        return Ok(());
    };
    let runs = page(db, before, RUNS).await?;
    if runs.is_empty() {
        return Ok(());
    }
    // Another replica may have retried a run since. That run is kept.
    let deleted = run_row::Entity::delete_many()
        .filter(run_row::Column::Id.is_in(runs))
        .filter(run_row::COLUMN.ended_at.lt(before));
    let deleted = deleted.exec_with_returning(db).await?;
    let runs: Vec<_> = deleted.into_iter().map(|run| run.id).collect();
    delete::<run_value_row::Entity>(db, run_value_row::Column::RunId, &runs).await?;
    delete::<step_row::Entity>(db, step_row::Column::RunId, &runs).await?;
    delete::<history_row::Entity>(db, history_row::Column::RunId, &runs).await?;
    delete::<snapshot_row::Entity>(db, snapshot_row::Column::RunId, &runs).await?;
    delete::<lease_event_row::Entity>(db, lease_event_row::Column::RunId, &runs).await
}

async fn page(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Uuid>, StoreError> {
    let runs = run_row::Entity::find()
        .select_only()
        .column(run_row::Column::Id)
        .filter(run_row::COLUMN.ended_at.lt(before))
        .order_by_asc(run_row::Column::EndedAt)
        .limit(limit);
    Ok(runs.into_tuple().all(db).await?)
}

async fn delete<E: EntityTrait>(
    db: &impl ConnectionTrait,
    column: E::Column,
    runs: &[Uuid],
) -> Result<(), StoreError> {
    let of_runs = E::delete_many().filter(column.is_in(runs.iter().copied()));
    of_runs.exec(db).await?;
    Ok(())
}
