//! What is known of requests that ended long ago: their notes, copies and deliveries; webhooks that were
//! removed, and what is watched no more.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::{Alias, Expr, ExprTrait as _, Query, SelectStatement};

use super::{copy_row, delivery_row, end_row, note_row, notice_row, watch_row, webhook_row};

/// A request by its columns `workspace` and `hold`.
pub(super) type Request = (String, String);

/// Requests of one page.
const REQUESTS: u64 = 100;

/// Copies of one page: many people may have been told of one request.
const COPIES: u64 = 1_000;

/// Whether there is anything to forget.
pub(crate) async fn has_old(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let one = ended(before).limit(1).to_owned();
    let is_ended = db.query_one(&one).await?.is_some();
    let is_old = is_ended
        || !notice_row::old(db, before, 1).await?.is_empty()
        || !end_row::old(db, before, 1).await?.is_empty();
    Ok(is_old || delivery_row::has_old_digest(db, before).await?)
}

/// Forgets one page: copies first, and what they are of once there are none.
pub(super) async fn forget(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let page = ended(before).limit(REQUESTS).to_owned();
    let old = db.query_all(&page).await?;
    let mut requests: Vec<Request> = Vec::with_capacity(old.len());
    for row in old {
        requests.push((row.try_get("", "workspace")?, row.try_get("", "hold")?));
    }
    webhook_row::forget(db, before).await?;
    watch_row::forget(db, before).await?;
    forget_notices(db, before).await?;
    forget_ends(db, before).await?;
    delivery_row::forget_digests(db, before).await?;
    if requests.is_empty() || copy_row::forget(db, &requests, COPIES).await? > 0 {
        return Ok(());
    }
    delivery_row::forget(db, &requests).await?;
    watch_row::forget_targets(db, &requests).await?;
    note_row::forget(db, &requests).await
}

/// The copies first; of what was told of the same thing since, they go as well.
async fn forget_notices(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let old = notice_row::old(db, before, REQUESTS).await?;
    if old.is_empty() || copy_row::forget(db, &old, COPIES).await? > 0 {
        return Ok(());
    }
    delivery_row::forget(db, &old).await?;
    notice_row::forget(db, &old, before).await
}

/// That runs ended, and that somebody watched them.
async fn forget_ends(db: &impl ConnectionTrait, before: DateTime<Utc>) -> Result<(), StoreError> {
    let old = end_row::old(db, before, REQUESTS).await?;
    if old.is_empty() {
        return Ok(());
    }
    watch_row::forget_targets(db, &old).await?;
    end_row::forget(db, &old, before).await
}

/// Requests that ended before an instant, and of which nothing was heard since: one that is asked again
/// has not ended.
fn ended(before: DateTime<Utc>) -> SelectStatement {
    let (end, other) = (Alias::new("ended"), Alias::new("other"));
    let column = |table: &Alias, name: &'static str| Expr::col((table.clone(), Alias::new(name)));
    // In the words of its index, and in their order.
    let ends = [
        RequestEventKind::Decided,
        RequestEventKind::Expired,
        RequestEventKind::Withdrawn,
    ];
    let ends = ends.map(|kind| format!("'{}'", kind.as_str())).join(",");
    let is_newer = column(&other, "updated_at").gte(before);
    let is_again = column(&other, "kind")
        .eq(RequestEventKind::Opened.as_str())
        .and(column(&other, "rev").gt(column(&end, "rev")));
    let since = Query::select()
        .expr(Expr::val(1))
        .from_as(note_row::Entity, other.clone())
        .and_where(column(&other, "workspace").eq(column(&end, "workspace")))
        .and_where(column(&other, "hold").eq(column(&end, "hold")))
        .and_where(is_newer.or(is_again))
        .to_owned();
    Query::select()
        .column((end.clone(), Alias::new("workspace")))
        .column((end.clone(), Alias::new("hold")))
        .from_as(note_row::Entity, end.clone())
        .and_where(Expr::cust(format!("ended.kind IN ({ends})")))
        .and_where(column(&end, "updated_at").lt(before))
        .and_where(Expr::not_exists(since))
        .to_owned()
}
