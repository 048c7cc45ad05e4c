//! Deliveries as lists show them, page by page.

use holdpoint_ids::{HoldId, WebhookId, Workspace};
use holdpoint_store::{SPARE_ROWS, StoreError, readable};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::ExprTrait as _;
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::{COLUMN, Column, Entity, WEBHOOK, number, read};
use crate::domain::Delivery;
use crate::store::inbox_entry_row::PageStart;
use crate::store::key_columns::stored_rev;

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
        let same_rev = COLUMN.rev.eq(last.rev);
        let same_channel = same_rev.clone().and(COLUMN.channel.eq(&*last.channel));
        let any = Condition::any()
            .add(COLUMN.rev.gt(last.rev))
            .add(same_rev.and(COLUMN.channel.gt(&*last.channel)))
            .add(same_channel.and(COLUMN.target.gt(last.target)));
        query = query.filter(any);
    }
    let rows = query
        .order_by_asc(Column::Rev)
        .order_by_asc(Column::Channel)
        .order_by_asc(Column::Target)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| format!("{} {}", row.hold, row.rev),
        read,
    ))
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
        let hold = id.hold.to_string();
        let same_at = Condition::all()
            .add(COLUMN.created_at.eq(at))
            .add(COLUMN.hold.lt(&*hold));
        let same_hold = Condition::all()
            .add(COLUMN.created_at.eq(at))
            .add(COLUMN.hold.eq(&*hold))
            .add(COLUMN.rev.lt(number(stored_rev(id))?));
        let before = COLUMN.created_at.lt(at);
        query = query.filter(Condition::any().add(before).add(same_at).add(same_hold));
    }
    let rows = query
        .order_by_desc(Column::CreatedAt)
        .order_by_desc(Column::Hold)
        .order_by_desc(Column::Rev)
        .limit(limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        limit,
        |row| format!("{} {}", row.hold, row.rev),
        read,
    ))
}
