//! Table `run_values`: the input of a run and the results of its steps.

use std::sync::Arc;

use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use serde_json::Value;

use super::find_pairs;
use crate::domain::need::INPUT;
use crate::domain::{Fact, Need};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "run_values")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub value: String,
}

impl ActiveModelBehavior for ActiveModel {}

fn place_of(row: &Model) -> (Uuid, &str) {
    (row.run_id, &row.name)
}

pub(crate) async fn find(
    db: &impl ConnectionTrait,
    wanted: &[(RunId, &str)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let rows = find_pairs::<Entity>(db, (Column::RunId, Column::Name), wanted, place_of).await?;
    let found = rows.into_iter().map(|row| {
        let value: Value = serde_json::from_str(&row.value).map_err(Entity::broken)?;
        let need = Need::Value(RunId::from_uuid(row.run_id), row.name);
        Ok((need, Fact::Value(Arc::new(value))))
    });
    found.collect()
}

/// The input of a run; absent after its deletion.
pub(crate) async fn input_of(
    db: &impl ConnectionTrait,
    run: RunId,
) -> Result<Option<Value>, StoreError> {
    let row = Entity::find_by_id((run.uuid(), INPUT.to_owned()))
        .one(db)
        .await?;
    row.map(|row| serde_json::from_str(&row.value).map_err(Entity::broken))
        .transpose()
}

pub(crate) fn active(run: RunId, name: &str, value: &Value) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        run_id: Set(run.uuid()),
        name: Set(name.to_owned()),
        value: Set(serde_json::to_string(value).map_err(Entity::broken)?),
    })
}

pub(crate) async fn insert(db: &Transaction, rows: Vec<ActiveModel>) -> Result<(), StoreError> {
    let newest = OnConflict::columns([Column::RunId, Column::Name])
        .update_column(Column::Value)
        .to_owned();
    insert_rows(db, rows, Some(&newest)).await
}
