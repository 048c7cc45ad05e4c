//! Table `inbox_entries`.

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::FeedCursor;
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use holdpoint_store::{
    BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows, page,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func, OnConflict, Query};
use sea_orm::{Condition, PaginatorTrait, QueryOrder, QuerySelect, QueryTrait as _};

use super::event_row::{bulk_events, mentions, reminders};
use super::key_columns::{HoldRow, after, before, number, stored_rev};
use crate::domain::NewInboxEntries;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "inbox_entries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub person: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hold: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    pub at: DateTimeUtc,
    pub read_at: Option<DateTimeUtc>,
    pub seq: i64,
    pub watching: bool,
}

impl ActiveModelBehavior for ActiveModel {}

/// An entry without its event.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) person: UserName,
    pub(super) hold: HoldId,
    pub(super) rev: u64,
    pub(super) read_at: Option<DateTime<Utc>>,
    pub(super) seq: u64,
    pub(super) watching: bool,
}

/// The last entry of the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageStart {
    pub(crate) at: DateTime<Utc>,
    pub(crate) id: NotificationId,
}

/// A page of one person's entries.
#[derive(Debug)]
pub(crate) struct EntryFilter<'f, P> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) person: &'f UserName,
    pub(crate) unread: bool,
    /// Without run ends and contact events.
    pub(crate) of_requests: bool,
    /// The page begins after it.
    pub(crate) last: Option<P>,
    pub(crate) limit: u64,
}

impl<P> EntryFilter<'_, P> {
    fn query(&self) -> Select<Entity> {
        let query = Entity::find()
            .filter(COLUMN.workspace.eq(self.workspace.as_str()))
            .filter(COLUMN.person.eq(self.person.as_str()));
        let of_requests = self.of_requests.then(|| Expr::not_exists(bulk_events()));
        let unread = self.unread.then(|| COLUMN.read_at.is_null());
        query.filter(Condition::all().add_option(unread).add_option(of_requests))
    }
}

/// When entries were read, and the number of that change.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedAt {
    pub(super) at: DateTime<Utc>,
    pub(super) seq: i64,
}

fn as_row(row: &Model) -> Result<Row, StoreError> {
    Ok(Row {
        person: row.person.parse().map_err(Entity::broken)?,
        hold: row.hold.parse().map_err(Entity::broken)?,
        rev: u64::try_from(row.rev).map_err(Entity::broken)?,
        read_at: row.read_at,
        seq: u64::try_from(row.seq).map_err(Entity::broken)?,
        watching: row.watching,
    })
}

fn is(person: &UserName, id: NotificationId) -> Result<Condition, StoreError> {
    Ok(Condition::all()
        .add(COLUMN.person.eq(person.as_str()))
        .add(COLUMN.hold.eq(id.hold.to_string()))
        .add(COLUMN.rev.eq(number::<Entity>(stored_rev(id))?)))
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    wanted: &[(&UserName, NotificationId)],
) -> Result<Vec<Row>, StoreError> {
    let mut found = Vec::with_capacity(wanted.len());
    for chunk in wanted.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for (person, id) in chunk {
            any = any.add(is(person, *id)?);
        }
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(any)
            .all(db)
            .await?;
        for row in &rows {
            found.push(as_row(row)?);
        }
    }
    Ok(found)
}

/// The newest entries come first.
pub(super) async fn list(
    db: &impl ConnectionTrait,
    filter: &EntryFilter<'_, PageStart>,
) -> Result<Vec<Row>, StoreError> {
    let mut query = filter.query();
    if let Some(PageStart { at, id }) = filter.last {
        let rev = number::<Entity>(stored_rev(id))?;
        let place = [at.into(), id.hold.to_string().into(), rev.into()];
        query = query.filter(before([Column::At, Column::Hold, Column::Rev], place));
    }
    let query = query
        .order_by_desc(Column::At)
        .order_by_desc(Column::Hold)
        .order_by_desc(Column::Rev);
    page(db, query, filter.limit, |row| as_row(&row)).await
}

/// Adds entries, each with the number of its commit. One that exists stays as it is.
pub(super) async fn insert(
    db: &Transaction,
    all: &[(&NewInboxEntries, i64)],
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for (entries, seq) in all {
        let rev = number::<Entity>(stored_rev(entries.id))?;
        rows.extend(entries.people.iter().map(|person| ActiveModel {
            workspace: Set(entries.workspace.to_string()),
            person: Set(person.to_string()),
            hold: Set(entries.id.hold.to_string()),
            rev: Set(rev),
            at: Set(entries.at),
            read_at: Set(entries.read_at),
            seq: Set(*seq),
            watching: Set(entries.watching),
        }));
    }
    let kept = OnConflict::columns([Column::Workspace, Column::Person, Column::Hold, Column::Rev])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&kept)).await?;
    for (entries, _) in all.iter().filter(|(entries, _)| entries.renews) {
        keep_newest(db, entries).await?;
    }
    Ok(())
}

/// Removes all reminders of a request except the newest, for the people of these entries. Reminders may be
/// stored in another order than they were sent, so an older one that arrives later is removed too.
async fn keep_newest(db: &Transaction, entries: &NewInboxEntries) -> Result<(), StoreError> {
    let rev = number::<Entity>(stored_rev(entries.id))?;
    let reminders = Condition::all()
        .add(COLUMN.workspace.eq(entries.workspace.as_str()))
        .add(COLUMN.hold.eq(entries.id.hold.to_string()))
        .add(Expr::col(Column::Rev).in_subquery(reminders(&entries.workspace, entries.id.hold)));
    for people in entries.people.chunks(ROWS_PER_STATEMENT) {
        let of_these = COLUMN.person.is_in(people.iter().map(UserName::as_str));
        Entity::delete_many()
            .filter(reminders.clone())
            .filter(of_these)
            .filter(COLUMN.rev.lt(rev))
            .exec(db)
            .await?;
    }
    let have_newer = Query::select()
        .column(Column::Person)
        .from(Entity)
        .cond_where(reminders.clone().add(COLUMN.rev.gt(rev)))
        .to_owned();
    Entity::delete_many()
        .filter(reminders)
        .filter(COLUMN.rev.eq(rev))
        .filter(Expr::col(Column::Person).in_subquery(have_newer))
        .exec(db)
        .await?;
    Ok(())
}

/// The entries that changed after a cursor, in the order of their changes.
pub(super) async fn changes(
    db: &impl ConnectionTrait,
    filter: &EntryFilter<'_, FeedCursor>,
) -> Result<Vec<Row>, StoreError> {
    let mut query = filter.query();
    if let Some(FeedCursor { seq, id }) = filter.last {
        let (seq, rev) = (number::<Entity>(seq)?, number::<Entity>(stored_rev(id))?);
        let place = [seq.into(), id.hold.to_string().into(), rev.into()];
        query = query.filter(after([Column::Seq, Column::Hold, Column::Rev], place));
    }
    let query = query
        .order_by_asc(Column::Seq)
        .order_by_asc(Column::Hold)
        .order_by_asc(Column::Rev);
    page(db, query, filter.limit, |row| as_row(&row)).await
}

fn unread_of(workspace: &Workspace, person: &UserName) -> Condition {
    Condition::all()
        .add(COLUMN.workspace.eq(workspace.as_str()))
        .add(COLUMN.person.eq(person.as_str()))
        .add(COLUMN.read_at.is_null())
}

fn until(number_or_all: Option<u64>) -> Result<Condition, StoreError> {
    let Some(seq) = number_or_all else {
        return Ok(Condition::all());
    };
    Ok(Condition::all().add(COLUMN.seq.lte(number::<Entity>(seq)?)))
}

/// The number of unread entries of a person. Changes after `to` are not counted.
pub(super) async fn unread(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    to: Option<u64>,
) -> Result<u64, StoreError> {
    let found = Entity::find()
        .filter(unread_of(workspace, person))
        .filter(until(to)?);
    Ok(found.count(db).await?)
}

/// The same, counted up to a bound.
pub(crate) async fn some_unread(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    most: u64,
) -> Result<u64, StoreError> {
    let found = Entity::find()
        .filter(unread_of(workspace, person))
        .select_only()
        .column(Column::Rev)
        .limit(most)
        .into_tuple::<i64>()
        .all(db)
        .await?;
    u64::try_from(found.len()).map_err(Entity::broken)
}

/// Marks one entry as read. If it was read before, that instant stays.
pub(super) async fn read(
    db: &Transaction,
    workspace: &Workspace,
    person: &UserName,
    id: NotificationId,
    changed: ChangedAt,
) -> Result<(), StoreError> {
    let one = unread_of(workspace, person).add(is(person, id)?);
    mark_read(db, one, changed).await
}

/// Marks all entries of a person as read. Changes after `to` stay unread.
pub(super) async fn read_all(
    db: &Transaction,
    workspace: &Workspace,
    person: &UserName,
    to: Option<u64>,
    changed: ChangedAt,
) -> Result<(), StoreError> {
    let all = unread_of(workspace, person).add(until(to)?);
    mark_read(db, all, changed).await
}

/// The entries of these holds ask no action any more: all count as read, and show how the request ended. A mention asked
/// for none and stays unread.
pub(super) async fn read_holds(
    db: &Transaction,
    workspace: &Workspace,
    holds: &[HoldId],
    changed: ChangedAt,
) -> Result<(), StoreError> {
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let all = Condition::all()
            .add(COLUMN.workspace.eq(workspace.as_str()))
            .add(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .add(Expr::exists(mentions()).not());
        mark_read(db, all, changed).await?;
    }
    Ok(())
}

async fn mark_read(
    db: &Transaction,
    which: Condition,
    changed: ChangedAt,
) -> Result<(), StoreError> {
    let first = Func::coalesce([Expr::col(Column::ReadAt), Expr::value(changed.at)]);
    let update = Entity::update_many()
        .col_expr(Column::ReadAt, first.into())
        .col_expr(Column::Seq, Expr::value(changed.seq))
        .filter(which);
    Ok(db.defer(update.build(db.get_database_backend())).await?)
}

/// Deletes some entries of these holds. Returns how many.
pub(super) async fn delete(
    db: &impl ConnectionTrait,
    holds: &[HoldRow],
    most: u64,
) -> Result<u64, StoreError> {
    let key = [Column::Workspace, Column::Person, Column::Hold, Column::Rev];
    let of = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    let some = Query::select()
        .columns(key)
        .from(Entity)
        .and_where(of.in_tuples(holds.iter().cloned()))
        .limit(most)
        .to_owned();
    let deleted = Entity::delete_many()
        .filter(Expr::tuple(key.map(Expr::col)).in_subquery(some))
        .exec(db)
        .await?;
    Ok(deleted.rows_affected)
}
