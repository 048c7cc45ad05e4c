//! Deletes requests that are past their retention and asked no person, page by page: standalone timers, and holds that
//! were withdrawn before they were opened. All other requests stay, because they are the record of decisions.

use chrono::{DateTime, Utc};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use super::request_row::{COLUMN, Column, Entity};

/// Requests of one page. Callers wait for the commit.
const REQUESTS: u64 = 500;

/// Whether such a request ended before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!page(db, before, 1).await?.is_empty())
}

/// Deletes those that ended first.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let expired = page(db, before, REQUESTS).await?;
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
