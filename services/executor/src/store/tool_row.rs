//! Table `tools`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{ToolName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, guarded, readable};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect, Select};

use crate::domain::{Key, Tool};

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

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("tools", error)
}

fn read(row: &Model) -> Result<Tool, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

/// Tools by workspace and name; forgotten ones too.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    wanted: &BTreeMap<&Workspace, Vec<&ToolName>>,
) -> Result<Vec<Tool>, StoreError> {
    let mut tools = Vec::new();
    for (workspace, names) in wanted {
        for chunk in names.chunks(ROWS_PER_STATEMENT) {
            let rows = Entity::find()
                .filter(COLUMN.workspace.eq(workspace.as_str()))
                .filter(COLUMN.name.is_in(chunk.iter().map(|name| name.as_str())))
                .all(db)
                .await?;
            for row in &rows {
                tools.push(read(row)?);
            }
        }
    }
    Ok(tools)
}

/// Tools by name, after one.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<Tool>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.deleted_at.is_null())
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

/// Which of these tools are registered.
pub(crate) async fn registered(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    names: &[&str],
) -> Result<HashSet<String>, StoreError> {
    let mut found = HashSet::new();
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let query = live_names(workspace).filter(COLUMN.name.is_in(chunk.iter().copied()));
        found.extend(query.into_tuple::<String>().all(db).await?);
    }
    Ok(found)
}

/// The first names of registered tools, in their order.
pub(crate) async fn names(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    limit: u64,
) -> Result<Vec<String>, StoreError> {
    let query = live_names(workspace).order_by_asc(Column::Name);
    Ok(query.limit(limit).into_tuple().all(db).await?)
}

/// Names of registered tools, without their states.
fn live_names(workspace: &Workspace) -> Select<Entity> {
    Entity::find()
        .select_only()
        .column(Column::Name)
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.deleted_at.is_null())
}

pub(crate) async fn save(
    db: &impl ConnectionTrait,
    tools: &[(&Tool, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let mut losers = Vec::new();
    for chunk in tools.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(tool, read)| active(tool, *read, now));
        let won: HashSet<_> = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded(
                "tools",
                &["workspace", "name"],
                &["state", "deleted_at"],
            ))
            .exec_with_returning_keys(db)
            .await?
            .into_iter()
            .collect();
        let lost = chunk.iter().filter(|(tool, _)| {
            !won.contains(&(tool.workspace.to_string(), tool.spec.name.to_string()))
        });
        losers.extend(
            lost.map(|(tool, _)| Key::Tool(tool.workspace.clone(), tool.spec.name.clone())),
        );
    }
    Ok(losers)
}

fn active(tool: &Tool, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(tool.workspace.to_string()),
        name: Set(tool.spec.name.to_string()),
        version: Set(i64::try_from(tool.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        state: Set(serde_json::to_string(tool).map_err(broken)?),
        deleted_at: Set(tool.deleted.then_some(now)),
    })
}
