//! Inbox entries with their events, as lists and the feed show them.

use std::collections::BTreeMap;

use holdpoint_contracts::notification::{FeedCursor, FeedItem, NotificationView, RequestEnd};
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use holdpoint_store::StoreError;
use sea_orm::ConnectionTrait;

use super::inbox_entry_row::{self, EntryFilter, PageStart, Row};
use super::key_columns::stored_rev;
use super::{change_row, event_row};
use crate::domain::{InboxEntry, NotificationEvent, RequestLifecycle, view};

/// Adds their events to rows, and how the requests of these ended.
pub(super) async fn with_events(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    rows: Vec<Row>,
) -> Result<Vec<InboxEntry>, StoreError> {
    let mut holds: Vec<HoldId> = rows.iter().map(|row| row.hold).collect();
    holds.sort_unstable();
    holds.dedup();
    let mut events: BTreeMap<HoldId, Vec<NotificationEvent>> = BTreeMap::new();
    for event in event_row::of_holds(db, workspace, &holds).await? {
        events.entry(event.key().hold).or_default().push(event);
    }
    let entry = |row: Row| {
        let all = events.get(&row.hold)?;
        let event = all.iter().find(|event| stored_rev(event.id()) == row.rev)?;
        Some(InboxEntry {
            workspace: workspace.clone(),
            person: row.person,
            event: Box::new(event.clone()),
            request_end: end_of(event, all),
            read_at: row.read_at,
            watching: row.watching,
        })
    };
    Ok(rows.into_iter().filter_map(entry).collect())
}

pub(super) fn lifecycle_of(events: &[NotificationEvent]) -> RequestLifecycle {
    let mut lifecycle = RequestLifecycle::default();
    for event in events.iter().filter_map(NotificationEvent::as_request) {
        lifecycle.record(event.kind, event.rev);
    }
    lifecycle
}

/// What a notification shows of later events of its request: how the request ended, if it was not opened again
/// since, or who took its run over.
fn end_of(shown: &NotificationEvent, all: &[NotificationEvent]) -> Option<RequestEnd> {
    let lifecycle = lifecycle_of(all);
    let shown_rev = shown.as_request()?.rev;
    let requests = all
        .iter()
        .filter_map(|event| Some((event, event.as_request()?)));
    let ends = requests.filter(|(event, request)| {
        let is_later = request.kind.is_end() || request.rev > shown_rev;
        event.request_end().is_some() && Some(request.rev) > lifecycle.opened && is_later
    });
    let newest = ends.max_by_key(|(_, request)| (request.kind.is_end(), request.rev));
    newest?.0.request_end()
}

/// One person's notifications, newest first.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    filter: &EntryFilter<'_, PageStart>,
) -> Result<Vec<NotificationView>, StoreError> {
    let rows = inbox_entry_row::list(db, filter).await?;
    let entries = with_events(db, filter.workspace, rows).await?;
    Ok(entries.iter().filter_map(view).collect())
}

/// One person's notifications in the order of their last changes, and the number of the newest change in the
/// workspace.
pub(crate) async fn feed(
    db: &impl ConnectionTrait,
    filter: &EntryFilter<'_, FeedCursor>,
) -> Result<(Vec<FeedItem>, u64), StoreError> {
    let rows = inbox_entry_row::changes(db, filter).await?;
    let seqs: BTreeMap<_, _> = rows
        .iter()
        .map(|row| ((row.hold, row.rev), row.seq))
        .collect();
    let entries = with_events(db, filter.workspace, rows).await?;
    let item = |entry: &InboxEntry| {
        let id = entry.event.id();
        let seq = *seqs.get(&(id.hold, stored_rev(id)))?;
        let mark = FeedCursor { seq, id };
        let notification = view(entry)?;
        Some(FeedItem { mark, notification })
    };
    let items = entries.iter().filter_map(item).collect();
    Ok((items, change_row::newest(db, filter.workspace).await?))
}

pub(crate) async fn entry(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    id: NotificationId,
) -> Result<Option<NotificationView>, StoreError> {
    let rows = inbox_entry_row::load(db, workspace, &[(person, id)]).await?;
    let entries = with_events(db, workspace, rows).await?;
    Ok(entries.first().and_then(view))
}
