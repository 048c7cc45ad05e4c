//! Table `policies`: approval and escalation policies, which requests name.

use std::collections::BTreeSet;

use holdpoint_ids::{PolicyName, Workspace};
use holdpoint_store::{StateRow, StoreError, StoredState};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::name_groups::group_names;
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

/// The policies that requests can name, in the order of their names.
pub(crate) async fn list_policies(
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
pub(crate) async fn list_names(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<(Workspace, BTreeSet<PolicyName>)>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.is_deleted.eq(false))
        .select_only()
        .column(Column::Workspace)
        .column(Column::Name);
    group_names(db, query, Column::Workspace, workspaces).await
}
