//! Table `notices`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{QueryOrder, QuerySelect};

use super::old::Request;
use super::told_rev;
use crate::domain::Notice;

const TABLE: &str = "notices";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notices")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hold: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    pub state: String,
    pub created_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

/// Those whose ids begin with one of these.
pub(super) async fn of(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<Vec<Notice>, StoreError> {
    let mut found = Vec::new();
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .all(db)
            .await?;
        for row in rows {
            found.push(serde_json::from_str(&row.state).map_err(broken)?);
        }
    }
    Ok(found)
}

/// New ones; one that is there stays.
pub(super) async fn insert(
    db: &Transaction,
    new: &[(&Workspace, &Notice)],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut rows = Vec::with_capacity(new.len());
    for (workspace, notice) in new {
        rows.push(ActiveModel {
            workspace: Set(workspace.to_string()),
            hold: Set(notice.id.hold.to_string()),
            rev: Set(i64::try_from(told_rev(notice.id)).map_err(broken)?),
            state: Set(serde_json::to_string(notice).map_err(broken)?),
            created_at: Set(now),
        });
    }
    let key = [Column::Workspace, Column::Hold, Column::Rev];
    let kept = OnConflict::columns(key).do_nothing().to_owned();
    insert_rows(db, rows, Some(&kept)).await
}

/// What was told before an instant, the oldest first.
pub(super) async fn old(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Request>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.created_at.lt(before))
        .order_by_asc(Column::CreatedAt)
        .limit(limit)
        .select_only()
        .column(Column::Workspace)
        .column(Column::Hold)
        .into_tuple::<Request>();
    Ok(rows.all(db).await?)
}

/// Forgets those that were told before an instant.
pub(super) async fn forget(
    db: &impl ConnectionTrait,
    of: &[Request],
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let key = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    Entity::delete_many()
        .filter(key.in_tuples(of.iter().cloned()))
        .filter(COLUMN.created_at.lt(before))
        .exec(db)
        .await?;
    Ok(())
}
