//! Table `schedules`: the schedule of each timer that has one. The guard is the row of the timer.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{ScheduleName, Workspace};
use holdpoint_store::{
    BrokenRow as _, ChangedState, ROWS_PER_STATEMENT, StateRow, StoreError, StoredState,
    Transaction,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use crate::domain::{Key, Owner, Schedule, Timer};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "schedules")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

impl StateRow for Entity {
    type State = Schedule;

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(schedule: &Schedule) -> u64 {
        schedule.version
    }

    fn row(schedule: &Schedule, stored: StoredState) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(schedule.workspace.to_string()),
            name: Set(schedule.spec.name.to_string()),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            state: Set(stored.state),
            updated_at: Set(stored.now),
        })
    }
}

/// Adds their schedules to timers of schedules. Other timers cost no statement.
pub(super) async fn add_schedules(
    db: &Transaction,
    timers: &mut [Timer],
) -> Result<(), StoreError> {
    let is_of_schedule = |timer: &&mut Timer| timer.key.owner == Owner::Scheduler;
    let of_schedules: Vec<_> = timers.iter_mut().filter(is_of_schedule).collect();
    if of_schedules.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = of_schedules
        .iter()
        .map(|timer| row_key(&timer.key))
        .collect();
    let found = Entity::load_states(db, &keys).await?.into_iter();
    let mut found: BTreeMap<_, _> = found
        .map(|schedule| {
            let key = (
                schedule.workspace.to_string(),
                schedule.spec.name.to_string(),
            );
            (key, schedule)
        })
        .collect();
    for timer in of_schedules {
        timer.schedule = found.remove(&row_key(&timer.key)).map(Box::new);
    }
    Ok(())
}

/// Saves the schedules of timers that were saved, and deletes those of deleted ones.
pub(super) async fn save_schedules(
    db: &Transaction,
    saved: &[ChangedState<'_, Timer, Key>],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let of_schedules = || saved.iter().filter(|one| one.key.owner == Owner::Scheduler);
    let deleted: Vec<_> = of_schedules()
        .filter(|one| one.state.schedule.is_none())
        .map(|one| row_key(one.key))
        .collect();
    if !deleted.is_empty() {
        let key = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Name)]);
        let delete = Entity::delete_many().filter(key.in_tuples(deleted));
        delete.exec(db).await?;
    }
    let kept: Vec<_> = of_schedules()
        .filter_map(|one| {
            Some(ChangedState {
                state: one.state.schedule.as_deref()?,
                key: one.key,
                read_version: one.read_version,
            })
        })
        .collect();
    Entity::save(db, &kept, now).await
}

/// The names of the schedules of workspaces. A workspace without any has an empty set.
pub(super) async fn list_names(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<BTreeMap<Workspace, BTreeSet<ScheduleName>>, StoreError> {
    let mut found: BTreeMap<Workspace, BTreeSet<ScheduleName>> = workspaces
        .iter()
        .map(|workspace| ((*workspace).clone(), BTreeSet::new()))
        .collect();
    for chunk in workspaces.chunks(ROWS_PER_STATEMENT) {
        let wanted = chunk.iter().map(|workspace| workspace.as_str());
        let rows: Vec<(String, String)> = Entity::find()
            .filter(COLUMN.workspace.is_in(wanted))
            .select_only()
            .columns([Column::Workspace, Column::Name])
            .into_tuple()
            .all(db)
            .await?;
        for (workspace, name) in rows {
            let workspace = workspace.parse().map_err(Entity::broken)?;
            let name = name.parse().map_err(Entity::broken)?;
            found.entry(workspace).or_default().insert(name);
        }
    }
    Ok(found)
}

/// Schedules of a workspace after a name, in the order of their names.
pub(crate) async fn list_schedules(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Schedule>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .order_by_asc(Column::Name);
    if let Some(after) = after {
        query = query.filter(COLUMN.name.gt(after));
    }
    Entity::page(db, query, limit).await
}

/// One schedule.
pub(crate) async fn find_schedule(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    name: &ScheduleName,
) -> Result<Option<Schedule>, StoreError> {
    let key = (workspace.to_string(), name.to_string());
    Ok(Entity::load_states(db, &[key]).await?.pop())
}

fn row_key(key: &Key) -> (String, String) {
    (key.workspace.to_string(), key.id.clone())
}
