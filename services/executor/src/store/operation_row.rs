//! Table `operations`: actions on all runs that match a filter.

use holdpoint_ids::{OperationId, Workspace};
use holdpoint_store::{StateRow as _, StoreError, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, Select};

use super::workspace_counts::counts_by_workspace;
use crate::domain::{Fact, Need, Operation};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "operations")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub workspace: String,
    pub status: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub ended_at: Option<DateTimeUtc>,
}

state_row!(Operation, |operation, stored| ActiveModel {
    id: Set(operation.id.uuid()),
    workspace: Set(operation.workspace.to_string()),
    status: Set(operation.state().as_str().to_owned()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
    ended_at: Set(operation.ended_at()),
});

pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: OperationId,
) -> Result<Option<Operation>, StoreError> {
    let query = Entity::find_by_id(id.uuid()).filter(COLUMN.workspace.eq(workspace.as_str()));
    Entity::first(db, query).await
}

/// Operations of a workspace, newest first, before the given one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    before: Option<OperationId>,
    limit: u64,
) -> Result<Vec<Operation>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.workspace.eq(workspace.as_str()));
    if let Some(before) = before {
        query = query.filter(COLUMN.id.lt(before.uuid()));
    }
    Entity::page(db, query.order_by_desc(Column::Id), limit).await
}

fn running() -> Select<Entity> {
    Entity::find().filter(COLUMN.ended_at.is_null())
}

/// Operations that are not finished, of all workspaces, oldest first.
pub(crate) async fn unfinished(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Operation>, StoreError> {
    Entity::page(db, running().order_by_asc(Column::Id), limit).await
}

/// How many operations of each workspace are not finished.
pub(super) async fn find_counts(
    db: &Transaction,
    workspaces: &[&Workspace],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let counts = counts_by_workspace(db, running(), Column::Workspace, workspaces).await?;
    let counts = counts.into_iter();
    Ok(counts
        .map(|(workspace, count)| (Need::RunningOperations(workspace), count))
        .collect())
}
