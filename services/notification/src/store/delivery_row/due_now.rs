//! Deliveries that wait and become due at once.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{Channel, PendingReason};
use holdpoint_ids::{UserName, WebhookId, Workspace};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

use super::{COLUMN, Column, DIGEST, Entity, OF_PEOPLE};

/// Makes the deliveries of a person due that wait for quiet hours or a retry, so that they are decided again.
/// A dispatched delivery stays leased. No version changes, because a concurrent claim reads the same state.
pub(in crate::store) async fn reconsider(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::NextAt, Expr::value(now))
        .col_expr(Column::Waits, Expr::value(PendingReason::Turn.as_str()))
        .filter(COLUMN.channel.is_in(OF_PEOPLE.into_iter().chain([DIGEST])))
        .filter(
            COLUMN.waits.is_in(
                [PendingReason::QuietHours, PendingReason::Retry].map(PendingReason::as_str),
            ),
        )
        .filter(COLUMN.state.eq("pending"))
        .filter(COLUMN.next_at.gt(now))
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.eq(person.as_str()))
        .exec(db)
        .await?;
    Ok(())
}

/// Makes the deliveries of a webhook due that wait for a retry. A dispatched delivery stays leased, and no
/// version changes, as in [`reconsider`].
pub(in crate::store) async fn retry_webhook(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    webhook: WebhookId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::NextAt, Expr::value(now))
        .col_expr(Column::Waits, Expr::value(PendingReason::Turn.as_str()))
        .filter(COLUMN.channel.eq(Channel::Webhook.as_str()))
        .filter(COLUMN.waits.eq(PendingReason::Retry.as_str()))
        .filter(COLUMN.state.eq("pending"))
        .filter(COLUMN.next_at.gt(now))
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.eq(webhook.to_string()))
        .exec(db)
        .await?;
    Ok(())
}
