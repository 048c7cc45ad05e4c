//! Inbound hooks. Their secrets are stored in plain text, because checking a signature needs them.

pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use chrono::{DateTime, Utc};
use holdpoint_auth::WebhookSecret;
use holdpoint_ids::{HookName, UserName, Workspace};
use holdpoint_store::{BrokenRow as _, StoreError, begin_write, readable};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseConnection, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, TryInsertResult,
};

use super::commands::{self, GivenAnswer};

/// An address to which programs outside post signed commands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hook {
    pub(crate) name: HookName,
    pub(crate) secret: WebhookSecret,
    /// The user on whose behalf it acts.
    pub(crate) made_by: UserName,
    pub(crate) created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    Done,
    NameTaken,
    /// The workspace has reached its limit.
    Full,
}

fn read(row: &row::Model) -> Result<Hook, StoreError> {
    Ok(Hook {
        name: row.name.parse().map_err(row::Entity::broken)?,
        secret: WebhookSecret::read(&row.secret).map_err(row::Entity::broken)?,
        made_by: row.made_by.parse().map_err(row::Entity::broken)?,
        created_at: row.created_at,
    })
}

/// Adds a hook with the answer to keep for repetitions, unless its name is taken or its workspace has reached the
/// limit.
pub(crate) async fn add(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    hook: &Hook,
    answer: Option<&GivenAnswer<'_>>,
    max: u64,
) -> Result<Added, StoreError> {
    let tx = begin_write(writer).await?;
    let count = row::Entity::find()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .count(&tx)
        .await?;
    if count >= max {
        return Ok(Added::Full);
    }
    let row = row::ActiveModel {
        workspace: Set(workspace.to_string()),
        name: Set(hook.name.to_string()),
        secret: Set(hook.secret.write()),
        made_by: Set(hook.made_by.to_string()),
        created_at: Set(hook.created_at),
    };
    let inserted = row::Entity::insert(row)
        .on_conflict_do_nothing()
        .exec_without_returning(&tx)
        .await?;
    if !matches!(inserted, TryInsertResult::Inserted(rows) if rows > 0) {
        return Ok(Added::NameTaken);
    }
    if let Some(answer) = answer {
        commands::keep_answer(&tx, answer).await?;
    }
    tx.commit().await?;
    Ok(Added::Done)
}

/// Hooks in the order of their names.
pub(crate) async fn list(
    readers: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<Vec<Hook>, StoreError> {
    let rows = row::Entity::find()
        .filter(row::Column::Workspace.eq(workspace.as_str()))
        .order_by_asc(row::Column::Name)
        .all(readers)
        .await?;
    Ok(readable(
        rows,
        u64::MAX,
        |row| row.name.clone(),
        |row| read(&row),
    ))
}

pub(crate) async fn find(
    readers: &DatabaseConnection,
    workspace: &Workspace,
    name: &HookName,
) -> Result<Option<Hook>, StoreError> {
    let key = (workspace.to_string(), name.to_string());
    let row = row::Entity::find_by_id(key).one(readers).await?;
    row.as_ref().map(read).transpose()
}

/// Deletes a hook; returns whether it existed.
pub(crate) async fn remove(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    name: &HookName,
) -> Result<bool, StoreError> {
    let key = (workspace.to_string(), name.to_string());
    let gone = row::Entity::delete_by_id(key).exec(writer).await?;
    Ok(gone.rows_affected > 0)
}
