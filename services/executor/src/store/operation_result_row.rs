//! Table `operation_results`: what an operation did with each run. Rows are added and never changed.

use std::collections::BTreeMap;

use holdpoint_contracts::operation::{ResultCounts, RunResult, RunResultView};
use holdpoint_ids::{OperationId, RunId};
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use sea_orm::{QueryOrder, QuerySelect, Select};

use crate::domain::{Effect, Fact, Need};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "operation_results")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub operation: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    pub result: String,
    pub code: Option<String>,
    pub at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

/// The results among effects. The first result of a run counts.
pub(crate) async fn insert(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let results = effects
        .iter()
        .filter_map(Effect::try_as_operation_result_ref);
    let rows: Vec<_> = results
        .map(|it| ActiveModel {
            operation: Set(it.operation.uuid()),
            run_id: Set(it.run.uuid()),
            result: Set(it.result.as_str().to_owned()),
            code: Set(it.code.clone()),
            at: Set(it.at),
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let first = OnConflict::columns([Column::Operation, Column::RunId])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&first)).await
}

/// Which of these runs have a result.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    wanted: &[(OperationId, RunId)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut by_operation: BTreeMap<OperationId, Vec<Uuid>> = BTreeMap::new();
    for (operation, run) in wanted {
        by_operation.entry(*operation).or_default().push(run.uuid());
    }
    let mut found = Vec::new();
    for (operation, runs) in by_operation {
        for chunk in runs.chunks(ROWS_PER_STATEMENT) {
            let rows: Vec<Uuid> = of(operation)
                .select_only()
                .column(Column::RunId)
                .filter(COLUMN.run_id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(db)
                .await?;
            let need = |run| Need::OperationResult(operation, RunId::from_uuid(run));
            found.extend(rows.into_iter().map(|run| (need(run), Fact::Count(1))));
        }
    }
    Ok(found)
}

/// Results by run, after the given one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    operation: OperationId,
    result: Option<RunResult>,
    after: Option<RunId>,
    limit: u64,
) -> Result<Vec<RunResultView>, StoreError> {
    let mut query = of(operation);
    if let Some(result) = result {
        query = query.filter(COLUMN.result.eq(result.as_str()));
    }
    if let Some(after) = after {
        query = query.filter(COLUMN.run_id.gt(after.uuid()));
    }
    let rows = query.order_by_asc(Column::RunId).limit(limit).all(db);
    let views = rows.await?.into_iter().map(|row| {
        Ok(RunResultView {
            run: RunId::from_uuid(row.run_id),
            result: Entity::word(row.result)?,
            code: row.code,
            at: row.at,
        })
    });
    views.collect()
}

pub(crate) async fn counts(
    db: &impl ConnectionTrait,
    operation: OperationId,
) -> Result<ResultCounts, StoreError> {
    let rows: Vec<(String, i64)> = of(operation)
        .select_only()
        .column(Column::Result)
        .column_as(Column::RunId.count(), "runs")
        .group_by(Column::Result)
        .into_tuple()
        .all(db)
        .await?;
    let mut counts = ResultCounts::default();
    for (result, runs) in rows {
        let runs = u64::try_from(runs).map_err(Entity::broken)?;
        match Entity::word(result)? {
            RunResult::Changed => counts.changed = runs,
            RunResult::Unchanged => counts.unchanged = runs,
            RunResult::Refused => counts.refused = runs,
        }
    }
    Ok(counts)
}

fn of(operation: OperationId) -> Select<Entity> {
    Entity::find().filter(COLUMN.operation.eq(operation.uuid()))
}
