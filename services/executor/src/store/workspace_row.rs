//! Table `workspace_scopes`: commands that apply to all runs of a workspace.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_store::{StateRow as _, StoreError, is_sqlite};
use sea_orm::ActiveValue::Set;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;

use crate::domain::WorkspaceScope;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "workspace_scopes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub is_followed: bool,
}

state_row!(WorkspaceScope, |scope, stored| ActiveModel {
    workspace: Set(scope.workspace.to_string()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
    is_followed: Set(scope.scope.is_followed()),
});

/// Scopes for a decision: on Postgres a command for the workspace waits until the decisions that read
/// the row before it are committed, so that its pages see what they did.
pub(crate) async fn load_shared(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<WorkspaceScope>, StoreError> {
    let keys: Vec<_> = workspaces.iter().map(ToString::to_string).collect();
    let found = Entity::load_shared(db, &keys).await?;
    let known: BTreeSet<_> = found.iter().map(|scope| &scope.workspace).collect();
    let missing: BTreeSet<_> = workspaces
        .iter()
        .copied()
        .filter(|workspace| !known.contains(workspace))
        .collect();
    if is_sqlite(db) || missing.is_empty() {
        return Ok(found);
    }
    // A missing row cannot be locked, so the first command for the workspace would not wait.
    let fresh: Vec<_> = missing.into_iter().map(WorkspaceScope::fresh).collect();
    // Table `workspace_scopes` has no instants.
    Entity::add(db, &fresh, DateTime::<Utc>::UNIX_EPOCH).await?;
    Entity::load_shared(db, &keys).await
}

/// The scope of a workspace for a read, without a lock.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Option<WorkspaceScope>, StoreError> {
    Entity::first(db, Entity::find_by_id(workspace.to_string())).await
}

/// Workspaces whose runs do not all follow their scope yet.
pub(crate) async fn to_sync(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<WorkspaceScope>, StoreError> {
    let query = Entity::find()
        // SQLite uses the partial index only for the same expression as in the index.
        .filter(Expr::col(Column::IsFollowed).not())
        .order_by_asc(Column::Workspace);
    Entity::page(db, query, limit).await
}
