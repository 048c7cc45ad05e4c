//! Table `agents`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;
use sea_orm::{QueryOrder, QuerySelect};

use crate::domain::{Agent, Key};

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

impl ActiveModelBehavior for ActiveModel {}

fn read(row: &Model) -> Result<Agent, StoreError> {
    serde_json::from_str(&row.state).map_err(|error| StoreError::broken("agents", error))
}

/// For a decision: on Postgres a command for the agent waits until the decisions that read the row
/// before it are committed, so that its pages see what they did.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&AgentName],
) -> Result<Vec<Agent>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.name.is_in(names.iter().map(|name| name.as_str())))
        .order_by_asc(Column::Name)
        .lock_shared()
        .all(db)
        .await?;
    rows.iter().map(read).collect()
}

/// For a read.
pub(crate) async fn named(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&AgentName],
) -> Result<Vec<Agent>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.name.is_in(names.iter().map(|name| name.as_str())))
        .all(db)
        .await?;
    rows.iter().map(read).collect()
}

/// Those with pages to come.
pub(crate) async fn to_follow(
    db: &impl ConnectionTrait,
    limit: u64,
) -> Result<Vec<Agent>, StoreError> {
    let rows = Entity::find()
        // In the words of its index.
        .filter(Expr::col(Column::IsFollowed).not())
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Name)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

/// Whether any agent of a workspace has pages to come.
pub(crate) async fn any_to_follow(
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

/// Agents by name, after one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Agent>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.status.ne("deleted"))
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    agents: &[(&Agent, u64)],
) -> Result<Vec<Key>, StoreError> {
    let mut losers = Vec::new();
    for chunk in agents.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(agent, read)| active(agent, *read));
        let won = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded(
                "agents",
                &["workspace", "name"],
                &["state", "updated_at", "status", "is_followed"],
            ))
            .exec_with_returning_keys(db)
            .await?;
        let lost = chunk.iter().filter(|(agent, _)| {
            !won.iter().any(|(workspace, name)| {
                workspace == agent.workspace.as_str() && name == agent.name.as_str()
            })
        });
        losers
            .extend(lost.map(|(agent, _)| Key::Agent(agent.workspace.clone(), agent.name.clone())));
    }
    Ok(losers)
}

fn active(agent: &Agent, read: u64) -> Result<ActiveModel, StoreError> {
    let broken = |error: &dyn std::fmt::Display| StoreError::broken("agents", error);
    Ok(ActiveModel {
        workspace: Set(agent.workspace.to_string()),
        name: Set(agent.name.to_string()),
        version: Set(i64::try_from(agent.version).map_err(|error| broken(&error))?),
        prior_version: Set(i64::try_from(read).map_err(|error| broken(&error))?),
        state: Set(serde_json::to_string(agent).map_err(|error| broken(&error))?),
        updated_at: Set(agent.updated_at),
        status: Set(agent.status().to_owned()),
        is_followed: Set(agent.scope.is_followed()),
    })
}
