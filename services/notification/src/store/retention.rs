//! Deletes what is past its retention: events with their inbox entries, deliveries and watches; removed
//! webhooks, watches that ended, and digests.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{ContactEventKind, RequestEventKind};
use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Alias, Expr, ExprTrait as _, Query, SelectStatement};

use super::key_columns::{HoldRow, NumberedRow, delete_numbered, delete_rows};
use super::{delivery_row, event_row, inbox_entry_row, watch_row, webhook_row};

/// Holds of one page.
const HOLDS: u64 = 100;

/// Inbox entries of one page: many people may have been notified of one request.
const ENTRIES: u64 = 1_000;

pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let one = expired(before).limit(1).to_owned();
    let of_contact = expired_contact_events(before).limit(1).to_owned();
    let has_event = db.query_one(&one).await?.is_some();
    let has_event = has_event || db.query_one(&of_contact).await?.is_some();
    Ok(has_event || delivery_row::has_expired_digest(db, before).await?)
}

/// Deletes one page. Inbox entries go first, and their events once no entry is left.
pub(super) async fn delete_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let page = expired(before).limit(HOLDS).to_owned();
    let mut holds: Vec<HoldRow> = Vec::new();
    for row in db.query_all(&page).await? {
        holds.push((row.try_get("", "workspace")?, row.try_get("", "hold")?));
    }
    delete_contact_events(db, before).await?;
    webhook_row::delete_removed(db, before).await?;
    watch_row::delete_ended(db, before).await?;
    delivery_row::delete_expired_digests(db, before).await?;
    if holds.is_empty() || inbox_entry_row::delete(db, &holds, ENTRIES).await? > 0 {
        return Ok(());
    }
    let columns = [delivery_row::Column::Workspace, delivery_row::Column::Hold];
    delete_rows::<delivery_row::Entity>(db, columns, holds.iter().cloned()).await?;
    watch_row::delete_targets(db, &holds).await?;
    let columns = [event_row::Column::Workspace, event_row::Column::Hold];
    delete_rows::<event_row::Entity>(db, columns, holds).await
}

/// Deletes one page of contact events. All events of a contact have one hold, and each of them ends alone.
async fn delete_contact_events(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let page = expired_contact_events(before).limit(HOLDS).to_owned();
    let mut rows: Vec<NumberedRow> = Vec::new();
    for row in db.query_all(&page).await? {
        let [workspace, hold] = [row.try_get("", "workspace")?, row.try_get("", "hold")?];
        rows.push((workspace, hold, row.try_get("", "rev")?));
    }
    if rows.is_empty() {
        return Ok(());
    }
    use inbox_entry_row::Column as Entry;
    let columns = [Entry::Workspace, Entry::Hold, Entry::Rev];
    delete_numbered::<inbox_entry_row::Entity>(db, columns, &rows).await?;
    use delivery_row::Column as Delivery;
    let columns = [Delivery::Workspace, Delivery::Hold, Delivery::Rev];
    delete_numbered::<delivery_row::Entity>(db, columns, &rows).await?;
    use event_row::Column as Event;
    let columns = [Event::Workspace, Event::Hold, Event::Rev];
    delete_numbered::<event_row::Entity>(db, columns, &rows).await
}

fn expired_contact_events(before: DateTime<Utc>) -> SelectStatement {
    use event_row::{COLUMN, Column};
    Query::select()
        .columns([Column::Workspace, Column::Hold, Column::Rev])
        .from(event_row::Entity)
        .and_where(Expr::cust(format!("kind IN ({})", ends())))
        // Without the erasure, which stays as long as it has to refuse late events.
        .and_where(Expr::cust(event_row::OF_CONTACTS))
        .and_where(COLUMN.updated_at.lt(before))
        .to_owned()
}

/// The kinds that end a hold, in the words of their index and in their order.
fn ends() -> String {
    let ends = [
        RequestEventKind::Decided.as_str(),
        RequestEventKind::Expired.as_str(),
        RequestEventKind::Withdrawn.as_str(),
        event_row::RUN_END,
        event_row::SYSTEM,
        ContactEventKind::NewLead.as_str(),
        ContactEventKind::DealWon.as_str(),
        ContactEventKind::DealLost.as_str(),
        ContactEventKind::ContactErased.as_str(),
    ];
    ends.map(|kind| format!("'{kind}'")).join(",")
}

/// Holds whose last event ended them before an instant. A request that was opened again has not ended.
fn expired(before: DateTime<Utc>) -> SelectStatement {
    let (end, other) = (Alias::new("ended"), Alias::new("other"));
    let column = |table: &Alias, name: &'static str| Expr::col((table.clone(), Alias::new(name)));
    let is_newer = column(&other, "updated_at").gte(before);
    let is_again = column(&other, "kind")
        .eq(RequestEventKind::Opened.as_str())
        .and(column(&other, "rev").gt(column(&end, "rev")));
    let since = Query::select()
        .expr(Expr::val(1))
        .from_as(event_row::Entity, other.clone())
        .and_where(column(&other, "workspace").eq(column(&end, "workspace")))
        .and_where(column(&other, "hold").eq(column(&end, "hold")))
        .and_where(is_newer.or(is_again))
        .to_owned();
    Query::select()
        .column((end.clone(), Alias::new("workspace")))
        .column((end.clone(), Alias::new("hold")))
        .from_as(event_row::Entity, end.clone())
        .and_where(Expr::cust(format!("ended.kind IN ({})", ends())))
        .and_where(column(&end, "updated_at").lt(before))
        .and_where(Expr::not_exists(since))
        .to_owned()
}
