//! Table `run_values`: the input of a run and the results of its steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;
use serde_json::Value;

use crate::domain::need::{GENERATED_PLAN, INPUT, PlanFact};
use crate::domain::plan::Plan;
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
    let rows = find_pairs::<Entity>(db, Column::RunId, Column::Name, wanted, place_of).await?;
    let found = rows.into_iter().map(|row| {
        let value: Value = serde_json::from_str(&row.value).map_err(Entity::broken)?;
        let need = Need::Value(RunId::from_uuid(row.run_id), row.name);
        Ok((need, Fact::Value(Arc::new(value))))
    });
    found.collect()
}

/// The plans that the planners of runs made.
pub(crate) async fn find_plans(
    db: &impl ConnectionTrait,
    runs: &[RunId],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let wanted: Vec<_> = runs.iter().map(|run| (*run, GENERATED_PLAN)).collect();
    let rows = find_pairs::<Entity>(db, Column::RunId, Column::Name, &wanted, place_of).await?;
    let found = rows.into_iter().map(|row| {
        let need = Need::GeneratedPlan(RunId::from_uuid(row.run_id));
        let plan = PlanFact::new(read_plan(&row)?);
        Ok((need, Fact::Plan(Arc::new(plan))))
    });
    found.collect()
}

/// The plan that the planner of a run made; absent after its deletion.
pub(crate) async fn plan_of(
    db: &impl ConnectionTrait,
    run: RunId,
) -> Result<Option<Plan>, StoreError> {
    let row = Entity::find_by_id((run.uuid(), GENERATED_PLAN.to_owned()))
        .one(db)
        .await?;
    row.as_ref().map(read_plan).transpose()
}

fn read_plan(row: &Model) -> Result<Plan, StoreError> {
    serde_json::from_str(&row.value).map_err(Entity::broken)
}

/// Rows by run and name. One query lists runs and names separately, because both databases search a list of
/// pairs slowly. Its other pairs are left out.
pub(super) async fn find_pairs<E: EntityTrait>(
    db: &impl ConnectionTrait,
    run: E::Column,
    name: E::Column,
    wanted: &[(RunId, &str)],
    place: impl Fn(&E::Model) -> (Uuid, &str),
) -> Result<Vec<E::Model>, StoreError> {
    let mut found = Vec::with_capacity(wanted.len());
    for chunk in wanted.chunks(ROWS_PER_STATEMENT) {
        let pairs: BTreeSet<_> = chunk
            .iter()
            .map(|(run, name)| (run.uuid(), *name))
            .collect();
        let runs: BTreeSet<_> = pairs.iter().map(|(run, _)| *run).collect();
        let names: BTreeSet<_> = pairs.iter().map(|(_, name)| *name).collect();
        let listed = E::find().filter(run.is_in(runs)).filter(name.is_in(names));
        let rows = listed.all(db).await?.into_iter();
        found.extend(rows.filter(|row| pairs.contains(&place(row))));
    }
    Ok(found)
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
