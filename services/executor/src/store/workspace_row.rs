//! Table `workspace_scopes`: what was commanded for everything in a workspace.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::BTreeSet;

use holdpoint_ids::Workspace;
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, is_sqlite, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::{Key, WorkspaceScope};

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

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("workspace_scopes", error)
}

fn read(row: &Model) -> Result<WorkspaceScope, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

/// For a decision: on Postgres a command for the workspace waits until the decisions that read the
/// row before it are committed, so that its pages see what they did.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<WorkspaceScope>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let rows = lock_shared(db, workspaces).await?;
    // A row that is not there cannot be locked: the first command for the workspace would pass by.
    let is_there =
        |workspace: &Workspace| rows.iter().any(|row| row.workspace == workspace.as_str());
    let missing: BTreeSet<_> = workspaces
        .iter()
        .copied()
        .filter(|workspace| !is_there(workspace))
        .collect();
    if is_sqlite(db) || missing.is_empty() {
        return rows.iter().map(read).collect();
    }
    let fresh = missing
        .into_iter()
        .map(|workspace| active(&WorkspaceScope::fresh(workspace), 0));
    Entity::insert_many(fresh.collect::<Result<Vec<_>, _>>()?)
        .on_conflict_do_nothing()
        .exec_without_returning(db)
        .await?;
    let rows = lock_shared(db, workspaces).await?;
    rows.iter().map(read).collect()
}

async fn lock_shared(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<Model>, StoreError> {
    let names = workspaces.iter().map(|workspace| workspace.as_str());
    let query = Entity::find()
        .filter(COLUMN.workspace.is_in(names))
        .order_by_asc(Column::Workspace)
        .lock_shared();
    Ok(query.all(db).await?)
}

/// For a read.
pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Option<WorkspaceScope>, StoreError> {
    let row = Entity::find_by_id(workspace.to_string()).one(db).await?;
    row.as_ref().map(read).transpose()
}

/// Those with pages to come.
pub(crate) async fn to_follow(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<WorkspaceScope>, StoreError> {
    let rows = Entity::find()
        // In the words of its index.
        .filter(Expr::col(Column::IsFollowed).not())
        .order_by_asc(Column::Workspace)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.workspace.clone(),
        |row| read(&row),
    ))
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    scopes: &[(&WorkspaceScope, u64)],
) -> Result<Vec<Key>, StoreError> {
    let columns = ["state", "is_followed"];
    let mut losers = Vec::new();
    for chunk in scopes.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(scope, read)| active(scope, *read));
        let won = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded("workspace_scopes", &["workspace"], &columns))
            .exec_with_returning_keys(db)
            .await?;
        let lost = chunk
            .iter()
            .filter(|(scope, _)| !won.iter().any(|won| won == scope.workspace.as_str()));
        losers.extend(lost.map(|(scope, _)| Key::Workspace(scope.workspace.clone())));
    }
    Ok(losers)
}

fn active(scope: &WorkspaceScope, read: u64) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(scope.workspace.to_string()),
        version: Set(i64::try_from(scope.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        state: Set(serde_json::to_string(scope).map_err(broken)?),
        is_followed: Set(scope.scope.is_followed()),
    })
}
