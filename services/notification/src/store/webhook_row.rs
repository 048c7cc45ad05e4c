//! Table `webhooks`.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::WebhookStatus;
use holdpoint_ids::{WebhookId, Workspace};
use holdpoint_store::{BrokenRow as _, ColumnRow, StoreError, page};
use sea_orm::ActiveValue::Set;
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

use super::key_columns::{after, number};
use crate::domain::{Webhook, WebhookState};

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

impl ColumnRow for Entity {
    type State = Webhook;

    const CONSTANT: &'static [Column] = &[Column::CreatedBy, Column::CreatedAt];

    fn read(row: Model) -> Result<Webhook, StoreError> {
        let state = match (row.status.as_str(), row.disabled_at) {
            (ACTIVE, None) => WebhookState::Active {
                failing_since: row.failing_since,
            },
            (DISABLED, Some(since)) => WebhookState::Disabled { since },
            (REMOVED, None) => WebhookState::Removed,
            (other, _) => return Err(Self::broken(format!("status `{other}`"))),
        };
        Ok(Webhook {
            workspace: row.workspace.parse().map_err(Self::broken)?,
            id: row.id.parse().map_err(Self::broken)?,
            url: row.url,
            events: serde_json::from_str(&row.events).map_err(Self::broken)?,
            format: Self::word(row.format)?,
            secret: row.secret,
            created_by: row.created_by.parse().map_err(Self::broken)?,
            created_at: row.created_at,
            state,
            last_error: row.last_error,
            configured_version: u64::try_from(row.configured_version).map_err(Self::broken)?,
            version: u64::try_from(row.version).map_err(Self::broken)?,
        })
    }

    fn row(
        webhook: &Webhook,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<ActiveModel, StoreError> {
        let view = webhook.view();
        Ok(ActiveModel {
            workspace: Set(webhook.workspace.to_string()),
            id: Set(view.id.to_string()),
            url: Set(view.url),
            events: Set(serde_json::to_string(&view.events).map_err(Self::broken)?),
            format: Set(view.format.as_str().to_owned()),
            secret: Set(webhook.secret.clone()),
            status: Set(view.status.as_str().to_owned()),
            created_by: Set(view.created_by.to_string()),
            created_at: Set(view.created_at),
            failing_since: Set(view.failing_since),
            disabled_at: Set(view.disabled_at),
            last_error: Set(view.last_error),
            configured_version: Set(number::<Self>(webhook.configured_version)?),
            version: Set(number::<Self>(webhook.version)?),
            prior_version: Set(prior_version),
            updated_at: Set(now),
        })
    }
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
    page(db, query.order_by_asc(Column::Id), limit, Entity::read).await
}

/// Enabled webhooks of all workspaces, page by page.
pub(crate) async fn enabled(
    db: &impl ConnectionTrait,
    last: Option<&(Workspace, WebhookId)>,
    limit: u64,
) -> Result<Vec<Webhook>, StoreError> {
    let mut query = Entity::find().filter(COLUMN.status.eq(ACTIVE));
    if let Some((workspace, id)) = last {
        let place = [workspace.as_str().into(), id.to_string().into()];
        query = query.filter(after([Column::Workspace, Column::Id], place));
    }
    let query = query
        .order_by_asc(Column::Workspace)
        .order_by_asc(Column::Id);
    page(db, query, limit, Entity::read).await
}

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
