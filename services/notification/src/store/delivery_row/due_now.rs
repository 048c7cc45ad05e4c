//! Deliveries that wait and become due at once.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::PendingReason;
use holdpoint_ids::{UserName, WebhookId, Workspace};
use holdpoint_store::StoreError;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

use super::{CHAT, COLUMN, Column, DIGEST, EMAIL, Entity, WEBHOOK};

/// Whose deliveries wait.
pub(in crate::store) enum WaitingFor<'w> {
    /// For the end of their quiet hours, or for a retry. They are decided again.
    Person(&'w UserName),
    /// For a retry.
    Webhook(WebhookId),
}

/// Makes waiting deliveries due. A dispatched delivery stays leased. No version changes, because a concurrent
/// claim reads the same state.
pub(in crate::store) async fn make_due(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    waiting: WaitingFor<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (channels, reasons, target): (&[&str], &[PendingReason], _) = match waiting {
        WaitingFor::Person(name) => (
            &[EMAIL, CHAT, DIGEST],
            &[PendingReason::QuietHours, PendingReason::Retry],
            name.to_string(),
        ),
        WaitingFor::Webhook(id) => (&[WEBHOOK], &[PendingReason::Retry], id.to_string()),
    };
    let reasons = reasons.iter().map(|reason| reason.as_str());
    Entity::update_many()
        .col_expr(Column::NextAt, Expr::value(now))
        .col_expr(Column::Waits, Expr::value(PendingReason::Queued.as_str()))
        .filter(COLUMN.channel.is_in(channels.iter().copied()))
        .filter(COLUMN.waits.is_in(reasons))
        .filter(COLUMN.state.eq("pending"))
        .filter(COLUMN.next_at.gt(now))
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.target.eq(target))
        .exec(db)
        .await?;
    Ok(())
}
