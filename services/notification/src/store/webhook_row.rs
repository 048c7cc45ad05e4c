//! Table `webhooks`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{WebhookFormat, WebhookStatus};
use holdpoint_ids::{WebhookId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, readable, upsert_if_version};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use crate::domain::{Key, Webhook, WebhookState};

const TABLE: &str = "webhooks";
const ACTIVE: &str = WebhookStatus::Active.as_str();
const DISABLED: &str = WebhookStatus::Disabled.as_str();
const REMOVED: &str = WebhookStatus::Removed.as_str();

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhooks")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub url: String,
    pub events: String,
    pub format: String,
    pub secret: String,
    pub status: String,
    pub created_by: String,
    pub created_at: DateTimeUtc,
    pub failing_since: Option<DateTimeUtc>,
    pub disabled_at: Option<DateTimeUtc>,
    pub last_error: Option<String>,
    pub configured_version: i64,
    pub version: i64,
    pub prior_version: i64,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn read(row: Model) -> Result<Webhook, StoreError> {
    let state = match (row.status.as_str(), row.disabled_at) {
        (ACTIVE, None) => WebhookState::Active {
            failing_since: row.failing_since,
        },
        (DISABLED, Some(since)) => WebhookState::Disabled { since },
        (REMOVED, None) => WebhookState::Removed,
        (other, _) => return Err(broken(format!("status `{other}`"))),
    };
    let format = WebhookFormat::ALL
        .into_iter()
        .find(|format| format.as_str() == row.format);
    Ok(Webhook {
        workspace: row.workspace.parse().map_err(broken)?,
        id: row.id.parse().map_err(broken)?,
        url: row.url,
        events: serde_json::from_str(&row.events).map_err(broken)?,
        format: format.ok_or_else(|| broken(format!("format `{}`", row.format)))?,
        secret: row.secret,
        created_by: row.created_by.parse().map_err(broken)?,
        created_at: row.created_at,
        state,
        last_error: row.last_error,
        configured_version: u64::try_from(row.configured_version).map_err(broken)?,
        version: u64::try_from(row.version).map_err(broken)?,
    })
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    keys: &[(&Workspace, WebhookId)],
) -> Result<Vec<Webhook>, StoreError> {
    let mut found = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let one = |(workspace, id): &(&Workspace, WebhookId)| {
            Condition::all()
                .add(COLUMN.workspace.eq(workspace.as_str()))
                .add(COLUMN.id.eq(id.to_string()))
        };
        let any = chunk.iter().map(one).fold(Condition::any(), Condition::add);
        for row in Entity::find().filter(any).all(db).await? {
            found.push(read(row)?);
        }
    }
    Ok(found)
}

/// A page of the webhooks of a workspace that were not removed, oldest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<WebhookId>,
    limit: u64,
) -> Result<Vec<Webhook>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.status.ne(REMOVED));
    if let Some(after) = after {
        query = query.filter(COLUMN.id.gt(after.to_string()));
    }
    let rows = query
        .order_by_asc(Column::Id)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(rows, limit, |row| row.id.clone(), read))
}

/// Enabled webhooks of all workspaces, page by page.
pub(crate) async fn enabled(
    db: &impl ConnectionTrait,
    after: Option<&(Workspace, WebhookId)>,
    limit: u64,
) -> Result<Vec<Webhook>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.status.eq(ACTIVE));
    if let Some((workspace, id)) = after {
        let same_workspace = Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.id.gt(id.to_string()));
        let later = Condition::any()
            .add(COLUMN.workspace.gt(workspace.as_str()))
            .add(same_workspace);
        query = query.filter(later);
    }
    let rows = query
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Id)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    let name = |row: &Model| format!("{}/{}", row.workspace, row.id);
    Ok(readable(rows, limit, name, read))
}

/// Saves them under their guards; returns those that lost.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    all: &[(&Webhook, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = [
        "url",
        "events",
        "format",
        "secret",
        "status",
        "failing_since",
        "disabled_at",
        "last_error",
        "configured_version",
        "updated_at",
    ];
    let mut losers = Vec::new();
    for chunk in all.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(one, read)| active(one, *read, now));
        let won: HashSet<(String, String)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(upsert_if_version(TABLE, &["workspace", "id"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        for (one, _) in chunk {
            if !won.contains(&(one.workspace.to_string(), one.id.to_string())) {
                losers.push(Key::Webhook(one.workspace.clone(), one.id));
            }
        }
    }
    Ok(losers)
}

fn active(one: &Webhook, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let view = one.view();
    Ok(ActiveModel {
        workspace: Set(one.workspace.to_string()),
        id: Set(one.id.to_string()),
        url: Set(one.url.clone()),
        events: Set(serde_json::to_string(&one.events).map_err(broken)?),
        format: Set(one.format.as_str().to_owned()),
        secret: Set(one.secret.clone()),
        status: Set(view.status.as_str().to_owned()),
        created_by: Set(one.created_by.to_string()),
        created_at: Set(one.created_at),
        failing_since: Set(view.failing_since),
        disabled_at: Set(view.disabled_at),
        last_error: Set(one.last_error.clone()),
        configured_version: Set(i64::try_from(one.configured_version).map_err(broken)?),
        version: Set(i64::try_from(one.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        updated_at: Set(now),
    })
}

/// Deletes webhooks that were removed before an instant.
pub(super) async fn delete_removed(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(COLUMN.status.eq(REMOVED))
        .filter(COLUMN.updated_at.lt(before))
        .exec(db)
        .await?;
    Ok(())
}
