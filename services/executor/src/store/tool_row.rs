//! Table `tools`.

use std::sync::Arc;

use holdpoint_ids::{ToolName, Workspace};
use holdpoint_store::{StateRow as _, StoreError, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect, Select};

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
pub(super) async fn counts(
    db: &Transaction,
    workspaces: &[&Workspace],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::new();
    for workspace in workspaces {
        let count = live(workspace).count(db).await?;
        let need = Need::ToolCount((*workspace).clone());
        found.push((need, Fact::Value(Arc::new(count.into()))));
    }
    Ok(found)
}

fn live(workspace: &Workspace) -> Select<Entity> {
    Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.deleted_at.is_null())
}
