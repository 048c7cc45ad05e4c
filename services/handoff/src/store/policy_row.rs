//! Table `policies`: approval and escalation policies, which requests name.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_ids::{PolicyName, Workspace};
use holdpoint_store::{BrokenRow as _, StateRow, StoreError, StoredState};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::Policy;

/// Most policies of a list. The domain allows fewer in a workspace.
const LISTED_MAX: u64 = 1_000;

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

impl StateRow for Entity {
    type State = Policy;

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(policy: &Policy) -> u64 {
        policy.version
    }

    fn row(policy: &Policy, stored: StoredState) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(policy.workspace.to_string()),
            name: Set(policy.name.to_string()),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            is_deleted: Set(policy.deleted),
            state: Set(stored.state),
            updated_at: Set(stored.now),
        })
    }
}

pub(crate) async fn named(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&PolicyName],
) -> Result<Vec<Policy>, StoreError> {
    let keys = names
        .iter()
        .map(|name| (workspace.to_string(), name.to_string()));
    Entity::load_states(db, &keys.collect::<Vec<_>>()).await
}

/// The policies that requests can name, in the order of their names.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Vec<Policy>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.is_deleted.eq(false))
        .order_by_asc(Column::Name);
    Entity::page(db, query, LISTED_MAX).await
}

/// The names of the policies that requests can name. A workspace without any has an empty set.
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
        let names = found.entry(workspace.parse().map_err(Entity::broken)?);
        names
            .or_default()
            .insert(name.parse().map_err(Entity::broken)?);
    }
    Ok(found.into_iter().collect())
}
