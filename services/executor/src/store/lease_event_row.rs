//! Table `lease_events`: which node had a step when (S4-R7). Rows are added and never changed.

use std::collections::BTreeMap;

use holdpoint_contracts::run::LeaseEvent;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "lease_events")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub step_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub dispatch: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub action: String,
    pub node: String,
    pub at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

pub(crate) fn active(
    run: RunId,
    step: &str,
    entry: &LeaseEvent,
) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        run_id: Set(run.uuid()),
        step_id: Set(step.to_owned()),
        dispatch: Set(i64::try_from(entry.dispatch).map_err(Entity::broken)?),
        action: Set(entry.action.as_str().to_owned()),
        node: Set(entry.node.to_string()),
        at: Set(entry.at),
    })
}

/// The lease events of a run, by step and in order.
pub(crate) async fn of_run(
    db: &impl ConnectionTrait,
    run: RunId,
) -> Result<BTreeMap<String, Vec<LeaseEvent>>, StoreError> {
    let query = Entity::find().filter(COLUMN.run_id.eq(run.uuid()));
    by_step(in_order(query).all(db).await?)
}

/// Those of some steps of a run.
pub(crate) async fn of_steps(
    db: &impl ConnectionTrait,
    run: RunId,
    steps: &[&str],
) -> Result<BTreeMap<String, Vec<LeaseEvent>>, StoreError> {
    let mut rows = Vec::new();
    for chunk in steps.chunks(ROWS_PER_STATEMENT) {
        let query = Entity::find()
            .filter(COLUMN.run_id.eq(run.uuid()))
            .filter(COLUMN.step_id.is_in(chunk.iter().copied()));
        rows.extend(in_order(query).all(db).await?);
    }
    by_step(rows)
}

fn in_order(query: Select<Entity>) -> Select<Entity> {
    query
        .order_by_asc(Column::Dispatch)
        .order_by_asc(Column::Action)
}

fn by_step(rows: Vec<Model>) -> Result<BTreeMap<String, Vec<LeaseEvent>>, StoreError> {
    let mut steps: BTreeMap<String, Vec<LeaseEvent>> = BTreeMap::new();
    for row in rows {
        let entry = LeaseEvent {
            action: Entity::word(row.action)?,
            node: row.node.parse().map_err(Entity::broken)?,
            at: row.at,
            dispatch: u64::try_from(row.dispatch).map_err(Entity::broken)?,
        };
        steps.entry(row.step_id).or_default().push(entry);
    }
    // Within a dispatch the grant precedes the release, even at the same instant.
    for entries in steps.values_mut() {
        entries.sort_by_key(|entry| {
            let is_release = entry.action == holdpoint_contracts::run::LeaseAction::Released;
            (entry.dispatch, is_release)
        });
    }
    Ok(steps)
}
