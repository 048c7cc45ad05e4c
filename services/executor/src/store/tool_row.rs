//! Table `tools`.

use holdpoint_ids::{ToolName, Workspace};
use holdpoint_store::{StateRow as _, StoreError, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect, Select};

use super::workspace_counts::counts_by_workspace;
use crate::domain::{Fact, Need, Tool};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tools")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub deleted_at: Option<DateTimeUtc>,
}

state_row!(Tool, |tool, stored| ActiveModel {
    workspace: Set(tool.workspace.to_string()),
    name: Set(tool.spec.name.to_string()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
    deleted_at: Set(tool.deleted.then_some(stored.now)),
});

/// Tools by workspace and name, deleted ones too.
pub(crate) async fn named(
    db: &impl ConnectionTrait,
    names: &[(&Workspace, ToolName)],
) -> Result<Vec<Tool>, StoreError> {
    let keys = names
        .iter()
        .map(|(workspace, name)| (workspace.to_string(), name.to_string()));
    Entity::load_states(db, &keys.collect::<Vec<_>>()).await
}

/// Tools in the order of their names, after the given name.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Tool>, StoreError> {
    let query = live(workspace)
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name);
    Entity::page(db, query, limit).await
}

/// The first names of registered tools, in their order.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<String>, StoreError> {
    let query = live(workspace).select_only().column(Column::Name);
    let query = query.order_by_asc(Column::Name).limit(limit);
    Ok(query.into_tuple().all(db).await?)
}

/// How many tools are registered in each workspace.
pub(super) async fn find_counts(
    db: &Transaction,
    workspaces: &[&Workspace],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let counts = counts_by_workspace(db, registered(), Column::Workspace, workspaces).await?;
    let counts = counts.into_iter();
    Ok(counts
        .map(|(workspace, count)| (Need::ToolCount(workspace), count))
        .collect())
}

fn registered() -> Select<Entity> {
    Entity::find().filter(COLUMN.deleted_at.is_null())
}

fn live(workspace: &Workspace) -> Select<Entity> {
    registered().filter(COLUMN.workspace.eq(workspace.as_str()))
}
