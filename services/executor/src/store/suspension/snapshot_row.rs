//! Table `snapshots`: the newest snapshot of each run that was suspended (S1-R2).

use std::collections::BTreeMap;
use std::sync::Arc;

use holdpoint_contracts::suspension::SnapshotView;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

use crate::domain::{Effect, Fact, Need};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "snapshots")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    pub snapshot_json: String,
    pub suspended_at: DateTimeUtc,
    pub complete: bool,
}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    runs: &[RunId],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(runs.len());
    for chunk in runs.chunks(ROWS_PER_STATEMENT) {
        let ids = chunk.iter().map(|run| run.uuid());
        let rows = Entity::find().filter(COLUMN.run_id.is_in(ids));
        for row in rows.all(db).await? {
            let view = read(&row)?;
            found.push((Need::Snapshot(view.run), Fact::Snapshot(Arc::new(view))));
        }
    }
    Ok(found)
}

/// The newest snapshot of a run; none: it was never suspended.
pub(crate) async fn of_run(
    db: &impl ConnectionTrait,
    run: RunId,
) -> Result<Option<SnapshotView>, StoreError> {
    let row = Entity::find_by_id(run.uuid()).one(db).await?;
    row.as_ref().map(read).transpose()
}

fn read(row: &Model) -> Result<SnapshotView, StoreError> {
    Ok(SnapshotView {
        run: RunId::from_uuid(row.run_id),
        snapshot_json: serde_json::from_str(&row.snapshot_json).map_err(Entity::broken)?,
        suspended_at: row.suspended_at,
        complete: row.complete,
    })
}

/// Writes the snapshots among effects. The last one of a run counts.
pub(crate) async fn upsert(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let snapshots = effects.iter().filter_map(Effect::try_as_snapshot_ref);
    let newest: BTreeMap<_, _> = snapshots.map(|view| (view.run, view)).collect();
    if newest.is_empty() {
        return Ok(());
    }
    let rows = newest.into_values().map(|view| {
        Ok(ActiveModel {
            run_id: Set(view.run.uuid()),
            snapshot_json: Set(serde_json::to_string(&view.snapshot_json).map_err(Entity::broken)?),
            suspended_at: Set(view.suspended_at),
            complete: Set(view.complete),
        })
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    let newest = OnConflict::column(Column::RunId)
        .update_columns([Column::SnapshotJson, Column::SuspendedAt, Column::Complete])
        .to_owned();
    insert_rows(db, rows, Some(&newest)).await
}
