//! Table `agents`.

use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::{StateRow as _, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::Agent;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agents")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    pub version: i64,
    pub prior_version: i64,
    pub state: String,
    pub updated_at: DateTimeUtc,
    pub status: String,
    pub is_followed: bool,
}

// A decision loads agents shared: on Postgres a command for the agent waits until the decisions that
// read the row before it are committed, so that its pages see what they did.
state_row!(Agent, |agent, stored| ActiveModel {
    workspace: Set(agent.workspace.to_string()),
    name: Set(agent.name.to_string()),
    version: Set(stored.version),
    prior_version: Set(stored.prior_version),
    state: Set(stored.state),
    updated_at: Set(agent.updated_at),
    status: Set(agent.status().to_owned()),
    is_followed: Set(agent.scope.is_followed()),
});

/// Agents for a read, without a lock.
pub(crate) async fn named(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&AgentName],
) -> Result<Vec<Agent>, StoreError> {
    let keys = names
        .iter()
        .map(|name| (workspace.to_string(), name.to_string()));
    Entity::load_states(db, &keys.collect::<Vec<_>>()).await
}

/// Agents whose runs do not all follow their scope yet.
pub(crate) async fn to_sync(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Agent>, StoreError> {
    let query = Entity::find()
        // SQLite uses the partial index only for the same expression as in the index.
        .filter(Expr::col(Column::IsFollowed).not())
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Name);
    Entity::page(db, query, limit).await
}

/// Whether runs of any agent of a workspace do not follow their scope yet.
pub(crate) async fn any_to_sync(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<bool, StoreError> {
    let found = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.is_followed.eq(false))
        .limit(1)
        .all(db)
        .await?;
    Ok(!found.is_empty())
}

/// Agents in the order of their names, after the given name.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Agent>, StoreError> {
    let query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.status.ne("deleted"))
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name);
    Entity::page(db, query, limit).await
}
