//! Table `webhook_secrets`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_store::{StoreError, upsert_if_version};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use crate::domain::{Key, Secret};

const TABLE: &str = "webhook_secrets";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhook_secrets")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    pub secret: String,
    pub version: i64,
    pub prior_version: i64,
    pub created_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    workspaces: &[&Workspace],
) -> Result<Vec<Secret>, StoreError> {
    if workspaces.is_empty() {
        return Ok(Vec::new());
    }
    let names = workspaces.iter().map(|workspace| workspace.as_str());
    let rows = Entity::find()
        .filter(COLUMN.workspace.is_in(names))
        .all(db)
        .await?;
    let secret = |row: Model| {
        let broken = |error| StoreError::broken(TABLE, error);
        Ok(Secret {
            workspace: row.workspace.parse().map_err(broken)?,
            text: row.secret,
        })
    };
    rows.into_iter().map(secret).collect()
}

/// A workspace has one for good: whoever was slower has lost, and takes what is there.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    secrets: &[&Secret],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let rows = secrets.iter().map(|secret| ActiveModel {
        workspace: Set(secret.workspace.to_string()),
        secret: Set(secret.text.clone()),
        version: Set(1),
        prior_version: Set(0),
        created_at: Set(now),
    });
    let won = Entity::insert_many(rows)
        .on_conflict(upsert_if_version(TABLE, &["workspace"], &["secret"]))
        .exec_with_returning_keys(db)
        .await?;
    let lost = |secret: &&&Secret| !won.iter().any(|one| one == secret.workspace.as_str());
    let losers = secrets.iter().filter(lost);
    Ok(losers
        .map(|secret| Key::Secret(secret.workspace.clone()))
        .collect())
}
