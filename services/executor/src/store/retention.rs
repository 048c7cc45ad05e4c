//! Deletes runs that are past their retention, page by page. Requests stay: they are the record of decisions.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;
use sea_orm::{ConnectionTrait, QueryOrder as _, QuerySelect as _, QueryTrait as _};

use super::suspension::{blob_chunk_row, snapshot_row};
use super::{
    history_row, lease_event_row, operation_result_row, operation_row, run_limit_row, run_row,
    run_value_row, step_row,
};
use crate::domain::Effect;

/// Runs of one page. A run may have thousands of rows in other tables, and callers wait for the commit.
const RUNS: u64 = 50;

/// Steps of the runs of one page, unless the first run alone has more: a run may have thousands of children.
const STEPS: u64 = 20_000;

/// Results of one page. An operation has up to 100,000.
const RESULTS: u64 = 20_000;

/// Whether a run or an operation ended before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!page(db, before, 1).await?.is_empty() || expired_operation(db, before).await?.is_some())
}

/// Deletes a page of runs, and a page of the results of an operation.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    effects: &[Effect],
) -> Result<(), StoreError> {
    for effect in effects {
        if let Effect::DeleteExpiredRuns { before } = effect {
            delete_expired_runs(db, *before).await?;
            delete_expired_operation(db, *before).await?;
        }
    }
    Ok(())
}

async fn expired_operation(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<Option<Uuid>, StoreError> {
    let first = operation_row::Entity::find()
        .select_only()
        .column(operation_row::Column::Id)
        .filter(operation_row::COLUMN.ended_at.lt(before))
        .order_by_asc(operation_row::Column::EndedAt)
        .limit(1);
    Ok(first.into_tuple().one(db).await?)
}

/// Deletes a page of the results of the operation that ended first. The operation goes with the last page.
async fn delete_expired_operation(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    use operation_result_row::{COLUMN, Column, Entity};
    let Some(operation) = expired_operation(db, before).await? else {
        return Ok(());
    };
    let results = Entity::find()
        .select_only()
        .column(Column::RunId)
        .filter(COLUMN.operation.eq(operation));
    let page = results.clone().limit(RESULTS);
    Entity::delete_many()
        .filter(COLUMN.operation.eq(operation))
        .filter(Column::RunId.in_subquery(page.into_query()))
        .exec(db)
        .await?;
    // Another replica may have deleted this page, so the number of deleted rows does not tell the last page.
    operation_row::Entity::delete_many()
        .filter(operation_row::COLUMN.id.eq(operation))
        .filter(Expr::not_exists(results.into_query()))
        .exec(db)
        .await?;
    Ok(())
}

/// Deletes the runs that ended first. Each table costs one statement. Runs come first, as in a save, so that two
/// replicas cannot deadlock.
async fn delete_expired_runs(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let runs = page(db, before, RUNS).await?;
    if runs.is_empty() {
        return Ok(());
    }
    let runs = within_steps(runs.clone(), &step_row::counts(db, &runs).await?);
    // Another replica may have retried a run since. That run is kept.
    let deleted = run_row::Entity::delete_many()
        .filter(run_row::Column::Id.is_in(runs))
        .filter(run_row::COLUMN.ended_at.lt(before));
    let deleted = deleted.exec_with_returning(db).await?;
    let runs: Vec<_> = deleted.into_iter().map(|run| run.id).collect();
    delete_rows_of(db, &runs).await
}

/// Deletes the rows of an erasure: runs with all their rows.
pub(super) async fn delete_erased(
    db: &impl ConnectionTrait,
    runs: &[Uuid],
) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    delete::<run_row::Entity>(db, run_row::Column::Id, runs).await?;
    delete_rows_of(db, runs).await
}

/// Deletes what other tables have of these runs.
async fn delete_rows_of(db: &impl ConnectionTrait, runs: &[Uuid]) -> Result<(), StoreError> {
    delete::<run_value_row::Entity>(db, run_value_row::Column::RunId, runs).await?;
    delete::<step_row::Entity>(db, step_row::Column::RunId, runs).await?;
    delete::<history_row::Entity>(db, history_row::Column::RunId, runs).await?;
    delete::<run_limit_row::Entity>(db, run_limit_row::Column::RunId, runs).await?;
    delete::<snapshot_row::Entity>(db, snapshot_row::Column::RunId, runs).await?;
    delete::<blob_chunk_row::Entity>(db, blob_chunk_row::Column::RunId, runs).await?;
    delete::<lease_event_row::Entity>(db, lease_event_row::Column::RunId, runs).await
}

/// The first of these runs, as far as they have few steps together.
fn within_steps(mut runs: Vec<Uuid>, counts: &HashMap<Uuid, u64>) -> Vec<Uuid> {
    let mut steps = 0;
    let mut is_first = true;
    let fits = |run: &&Uuid| {
        steps += counts.get(run).copied().unwrap_or(0);
        std::mem::take(&mut is_first) || steps <= STEPS
    };
    let count = runs.iter().take_while(fits).count();
    runs.truncate(count);
    runs
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A page ends before the run whose steps are too many for it, and never before its first run.
    #[test]
    fn a_page_has_few_steps_or_one_run() {
        let runs: Vec<_> = (0..4_u128).map(Uuid::from_u128).collect();
        let page = |steps: [u64; 4]| {
            let counts = runs.iter().copied().zip(steps).collect();
            within_steps(runs.clone(), &counts).len()
        };
        assert_eq!(page([1, 1, 1, 1]), 4);
        assert_eq!(page([10_000, 10_000, 1, 1]), 2);
        assert_eq!(page([30_000, 1, 1, 1]), 1);
        assert_eq!(page([1, 30_000, 1, 1]), 1);
    }
}
