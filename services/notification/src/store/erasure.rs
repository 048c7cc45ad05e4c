//! Empties the notifications of erased requests, runs and contacts.

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_kernel::{Traces, erase_traces};
use holdpoint_store::{BrokenRow as _, StoreError, Transaction};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Expr;

use super::key_columns::{HoldRow, delete_rows, number};
use super::{delivery_row, event_row, inbox_entry_row};
use crate::domain::NotificationEvent;

/// Inbox entries of a hold: all.
const ENTRIES: u64 = i64::MAX.unsigned_abs();

pub(super) async fn erase(
    db: &Transaction,
    workspace: &Workspace,
    holds: &[HoldId],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let rows = holds
        .iter()
        .map(|hold| (workspace.to_string(), hold.to_string()));
    let rows: Vec<HoldRow> = rows.collect();
    inbox_entry_row::delete(db, &rows, ENTRIES).await?;
    let columns = [delivery_row::Column::Workspace, delivery_row::Column::Hold];
    delete_rows::<delivery_row::Entity>(db, columns, rows).await?;
    let mut traces = Traces::default();
    for mut event in event_row::of_holds(db, workspace, holds).await? {
        if let Some(contact) = event.as_contact() {
            let added = traces.add_contact(&contact.contact);
            added.map_err(event_row::Entity::broken)?;
        }
        if !event.is_erased() {
            event.erase(now);
            replace(db, &event).await?;
        }
    }
    for hold in holds {
        traces.add_run(hold.run);
    }
    erase_traces(db, workspace, &traces).await
}

/// Replaces the row of an event. Its version rises, so that a cached state of it loses.
async fn replace(db: &Transaction, event: &NotificationEvent) -> Result<(), StoreError> {
    use event_row::{COLUMN, Column, Entity};
    let (workspace, hold, rev) = event_row::row_key(&event.key())?;
    let state = serde_json::to_string(event).map_err(Entity::broken)?;
    let version = number::<Entity>(event.version)?;
    Entity::update_many()
        .col_expr(Column::State, Expr::value(state))
        .col_expr(Column::Version, Expr::value(version))
        .col_expr(Column::PriorVersion, Expr::value(version - 1))
        .col_expr(Column::Fanning, Expr::value(false))
        .filter(COLUMN.workspace.eq(workspace))
        .filter(COLUMN.hold.eq(hold))
        .filter(COLUMN.rev.eq(rev))
        .exec(db)
        .await?;
    Ok(())
}
