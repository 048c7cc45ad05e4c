//! Table `agents`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, guarded};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
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
}

impl ActiveModelBehavior for ActiveModel {}

fn read(row: &Model) -> Result<Agent, StoreError> {
    serde_json::from_str(&row.state).map_err(|error| StoreError::broken("agents", error))
}

pub(crate) async fn load(
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

/// Agents by name, after one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Agent>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.name.gt(after.unwrap_or_default()))
        .order_by_asc(Column::Name)
        .limit(limit)
        .all(db)
        .await?;
    rows.iter().map(read).collect()
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
                &["state", "updated_at"],
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
    })
}
