//! Table `webhook_secrets`.

use chrono::{DateTime, Utc};
use holdpoint_store::{BrokenRow as _, ColumnRow, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;

use crate::domain::Secret;

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

/// A workspace has one secret for good: a later writer loses and takes the stored one.
impl ColumnRow for Entity {
    type State = Secret;

    const CONSTANT: &'static [Column] = &[Column::CreatedAt];

    fn read(row: Model) -> Result<Secret, StoreError> {
        Ok(Secret {
            workspace: row.workspace.parse().map_err(Self::broken)?,
            text: row.secret,
        })
    }

    fn row(
        secret: &Secret,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<ActiveModel, StoreError> {
        Ok(ActiveModel {
            workspace: Set(secret.workspace.to_string()),
            secret: Set(secret.text.clone()),
            version: Set(1),
            prior_version: Set(prior_version),
            created_at: Set(now),
        })
    }
}
