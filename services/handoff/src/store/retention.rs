//! Deletes what is past its retention, page by page: standalone timers, holds that were withdrawn before they were opened,
//! and standing approvals that have expired. All other requests stay, because they are the record of decisions.

use chrono::{DateTime, Utc};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use super::request_row::{COLUMN, Column, Entity};
use super::standing_approval_row;

/// Rows of one page. Callers wait for the commit.
const ROWS: u64 = 500;

/// Whether one of them ended before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!page(db, before, 1).await?.is_empty()
        || standing_approval_row::has_expired(db, before).await?)
}

/// Deletes those that ended first.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    standing_approval_row::delete_expired(db, before, ROWS).await?;
    let expired = page(db, before, ROWS).await?;
    if expired.is_empty() {
        return Ok(());
    }
    let key = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Id)]);
    let delete = Entity::delete_many().filter(key.in_tuples(expired));
    delete.exec(db).await?;
    Ok(())
}

async fn page(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<(String, String)>, StoreError> {
    let expired = Entity::find()
        .select_only()
        .columns([Column::Workspace, Column::Id])
        // In the words of its index.
        .filter(Expr::cust(
            "(kind = 'timer' OR kind IS NULL) AND status <> 'open'",
        ))
        .filter(COLUMN.updated_at.lt(before))
        .order_by_asc(Column::UpdatedAt)
        .limit(limit);
    Ok(expired.into_tuple().all(db).await?)
}
