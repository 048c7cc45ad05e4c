//! Table `agent_versions`: plans, which are added and never changed.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_contracts::agent::{AgentVersionView, VERSIONS_MAX};
use holdpoint_ids::{AgentName, Workspace};
use holdpoint_store::{BrokenRow as _, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use crate::domain::plan::Plan;
use crate::domain::{Fact, Need, PlanFact};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agent_versions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub version: i32,
    pub plan: String,
    pub created_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn read(row: &Model) -> Result<Plan, StoreError> {
    serde_json::from_str(&row.plan).map_err(Entity::broken)
}

pub(crate) async fn one(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    agent: &AgentName,
    version: u32,
) -> Result<Option<Plan>, StoreError> {
    let Ok(version) = i32::try_from(version) else {
        return Ok(None);
    };
    let key = (workspace.to_string(), agent.to_string(), version);
    Entity::find_by_id(key)
        .one(db)
        .await?
        .as_ref()
        .map(read)
        .transpose()
}

/// The newest versions, newest first. Their plans are not read.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    agent: &AgentName,
) -> Result<Vec<AgentVersionView>, StoreError> {
    let rows: Vec<(i32, DateTime<Utc>)> = Entity::find()
        .select_only()
        .column(Column::Version)
        .column(Column::CreatedAt)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.agent.eq(agent.as_str()))
        .order_by_desc(Column::Version)
        .limit(VERSIONS_MAX)
        .into_tuple()
        .all(db)
        .await?;
    let views = rows.into_iter().map(|(version, created_at)| {
        Ok(AgentVersionView {
            version: u32::try_from(version).map_err(Entity::broken)?,
            created_at,
        })
    });
    views.collect()
}

/// The plans that a batch needs; there are few, and the kernel caches them.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    wanted: &[(&Workspace, &AgentName, u32)],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut any = Condition::any();
    for (workspace, agent, version) in wanted {
        let version = i32::try_from(*version).map_err(Entity::broken)?;
        let all = Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.agent.eq(agent.as_str()))
            .add(COLUMN.version.eq(version));
        any = any.add(all);
    }
    let rows = Entity::find().filter(any).all(db).await?;
    rows.iter()
        .map(|row| {
            let need = Need::Plan(
                row.workspace.parse().map_err(Entity::broken)?,
                row.agent.parse().map_err(Entity::broken)?,
                u32::try_from(row.version).map_err(Entity::broken)?,
            );
            Ok((need, Fact::Plan(Arc::new(PlanFact::new(read(row)?)))))
        })
        .collect()
}

pub(crate) fn active(
    workspace: &Workspace,
    agent: &AgentName,
    version: u32,
    plan: &Plan,
    now: DateTime<Utc>,
) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(workspace.to_string()),
        agent: Set(agent.to_string()),
        version: Set(i32::try_from(version).map_err(Entity::broken)?),
        plan: Set(serde_json::to_string(plan).map_err(Entity::broken)?),
        created_at: Set(now),
    })
}
