//! Deliveries as lists show them, page by page.

use holdpoint_ids::{HoldId, WebhookId, Workspace};
use holdpoint_store::{ColumnRow as _, SPARE_ROWS, StoreError, readable};
use sea_orm::entity::prelude::*;
use sea_orm::{QueryOrder, QuerySelect};

use super::{COLUMN, Column, Entity, Model, WEBHOOK};
use crate::domain::Delivery;
use crate::store::inbox_entry_row::PageStart;
use crate::store::key_columns::{after, before, number, stored_rev};

/// Where a page of a list begins: the last one's number, channel and target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) rev: i64,
    pub(crate) channel: String,
    pub(crate) target: String,
}

/// All deliveries of one request, in the order of what they are of.
pub(crate) async fn of_request(
    db: &impl ConnectionTrait,
    (workspace, hold): (&Workspace, HoldId),
    start: Option<Last>,
    limit: u64,
) -> Result<Vec<Delivery>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.hold.eq(hold.to_string()));
    if let Some(last) = start {
        let place = [last.rev.into(), last.channel.into(), last.target.into()];
        query = query.filter(after([Column::Rev, Column::Channel, Column::Target], place));
    }
    let query = query
        .order_by_asc(Column::Rev)
        .order_by_asc(Column::Channel)
        .order_by_asc(Column::Target);
    page(db, query, limit).await
}

/// All deliveries to one webhook, newest first.
pub(crate) async fn of_webhook(
    db: &impl ConnectionTrait,
    (workspace, webhook): (&Workspace, WebhookId),
    start: Option<PageStart>,
    limit: u64,
) -> Result<Vec<Delivery>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.channel.eq(WEBHOOK))
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.eq(webhook.to_string()));
    if let Some(PageStart { at, id }) = start {
        let rev = number::<Entity>(stored_rev(id))?;
        let place = [at.into(), id.hold.to_string().into(), rev.into()];
        query = query.filter(before(
            [Column::CreatedAt, Column::Hold, Column::Rev],
            place,
        ));
    }
    let query = query
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Hold)
        .order_by_desc(Column::Rev);
    page(db, query, limit).await
}

async fn page(
    db: &impl ConnectionTrait,
    query: Select<Entity>,
    limit: u64,
) -> Result<Vec<Delivery>, StoreError> {
    let spare = limit.saturating_add(SPARE_ROWS);
    let rows = query.limit(spare).all(db).await?;
    let name = |row: &Model| format!("{} {}", row.hold, row.rev);
    Ok(readable(rows, limit, name, Entity::read))
}
