//! Table `policies`: what requests may name.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{PolicyName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::{Key, Policy};

const TABLE: &str = "policies";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "policies")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub version: i64,
    pub prior_version: i64,
    pub is_deleted: bool,
    pub state: String,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn read(row: &Model) -> Result<Policy, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&PolicyName],
) -> Result<Vec<Policy>, StoreError> {
    let mut policies = Vec::with_capacity(names.len());
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.name.is_in(chunk.iter().map(|name| name.as_str())))
            .all(db)
            .await?;
        for row in &rows {
            policies.push(read(row)?);
        }
    }
    Ok(policies)
}

/// Those that can be named, by name; a workspace has few.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Vec<Policy>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.is_deleted.eq(false))
        .order_by_asc(Column::Name)
        .all(db)
        .await?;
    Ok(readable(
        rows,
        u64::MAX,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// The names of those that can be named; a workspace without any is there with none.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeSet<PolicyName>)>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let of = workspaces.iter().map(|one| one.as_str());
    let rows = Entity::find()
        .filter(COLUMN.workspace.is_in(of))
        .filter(COLUMN.is_deleted.eq(false))
        .select_only()
        .column(Column::Workspace)
        .column(Column::Name)
        .into_tuple::<(String, String)>()
        .all(db)
        .await?;
    let mut found: BTreeMap<Workspace, BTreeSet<PolicyName>> = workspaces
        .iter()
        .map(|workspace| ((*workspace).clone(), BTreeSet::new()))
        .collect();
    for (workspace, name) in rows {
        let names = found.entry(workspace.parse().map_err(broken)?);
        names.or_default().insert(name.parse().map_err(broken)?);
    }
    Ok(found.into_iter().collect())
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    policies: &[(&Policy, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = ["is_deleted", "state", "updated_at"];
    let mut losers = Vec::new();
    for chunk in policies.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(one, read)| active(one, *read, now));
        let won: HashSet<(String, String)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "name"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        let has_lost =
            |one: &Policy| !won.contains(&(one.workspace.to_string(), one.name.to_string()));
        let lost = chunk.iter().filter(|(one, _)| has_lost(one));
        losers.extend(lost.map(|(one, _)| Key::Policy(one.workspace.clone(), one.name.clone())));
    }
    Ok(losers)
}

fn active(policy: &Policy, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(policy.workspace.to_string()),
        name: Set(policy.name.to_string()),
        version: Set(i64::try_from(policy.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        is_deleted: Set(policy.deleted),
        state: Set(serde_json::to_string(policy).map_err(broken)?),
        updated_at: Set(now),
    })
}
