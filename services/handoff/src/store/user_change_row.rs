//! Table `user_changes`: changes of users, numbered without gaps, for those who keep copies.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{UserChange, UserView};
use holdpoint_ids::Workspace;
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "user_changes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    pub workspace: String,
    pub body: String,
    pub at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken("user_changes", error)
}

/// Facts with a greater number than `after`, in order, at most `limit`.
pub(crate) async fn after(
    db: &impl ConnectionTrait,
    after: u64,
    limit: u64,
) -> Result<Vec<UserChange>, StoreError> {
    let Ok(after) = i64::try_from(after) else {
        return Ok(Vec::new());
    };
    let rows = Entity::find()
        .filter(COLUMN.seq.gt(after))
        .order_by_asc(Column::Seq)
        .limit(limit)
        .all(db)
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Model) -> Result<UserChange, StoreError> {
    Ok(UserChange {
        seq: u64::try_from(row.seq).map_err(broken)?,
        workspace: row.workspace.parse().map_err(broken)?,
        user: serde_json::from_str(&row.body).map_err(broken)?,
    })
}

/// Adds facts, in order; the last one has the number `last`.
pub(crate) async fn insert(
    db: &impl ConnectionTrait,
    changes: &[(&Workspace, &UserView)],
    last: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let first = last + 1 - i64::try_from(changes.len()).map_err(broken)?;
    let rows = (first..).zip(changes).map(|(seq, (workspace, user))| {
        Ok(ActiveModel {
            seq: Set(seq),
            workspace: Set(workspace.to_string()),
            body: Set(serde_json::to_string(user).map_err(broken)?),
            at: Set(now),
        })
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        Entity::insert_many(chunk.to_vec())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}
