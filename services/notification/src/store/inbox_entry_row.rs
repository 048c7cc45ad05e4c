//! Table `copies`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::FeedCursor;
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use holdpoint_store::{
    ROWS_PER_STATEMENT, SPARE_ROWS, StoreError, Transaction, insert_rows, readable,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Func, OnConflict, Query};
use sea_orm::{Condition, PaginatorTrait, QueryOrder, QuerySelect};

use super::note_row::reminders;
use super::old::Request;
use super::told_rev;

const TABLE: &str = "copies";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "copies")]
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

/// A copy without what it is of.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) person: UserName,
    pub(super) hold: HoldId,
    pub(super) rev: u64,
    pub(super) read_at: Option<DateTime<Utc>>,
    pub(super) seq: u64,
    pub(super) watching: bool,
}

/// Where a page of a list begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) at: DateTime<Utc>,
    pub(crate) id: NotificationId,
}

/// Which copies a list is to have.
#[derive(Debug)]
pub(crate) struct Filter<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) person: &'f UserName,
    pub(crate) unread: bool,
    pub(crate) behind: Option<Behind>,
    pub(crate) limit: u64,
}

/// Which changes are wanted.
#[derive(Debug)]
pub(crate) struct After<'f> {
    pub(crate) workspace: &'f Workspace,
    pub(crate) person: &'f UserName,
    pub(crate) unread: bool,
    pub(crate) after: Option<FeedCursor>,
    pub(crate) limit: u64,
}

/// The copies of one page: what they have in common, and who gets one.
pub(super) struct Copies<'c> {
    pub(super) workspace: &'c Workspace,
    pub(super) id: NotificationId,
    pub(super) at: DateTime<Utc>,
    pub(super) read_at: Option<DateTime<Utc>>,
    pub(super) seq: i64,
    /// They are told because they watch.
    pub(super) watching: bool,
    /// It takes the place of an earlier reminder of the request.
    pub(super) renews: bool,
    pub(super) people: &'c [UserName],
}

/// When something was read, and by which change.
type When = (DateTime<Utc>, i64);

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn number(rev: u64) -> Result<i64, StoreError> {
    i64::try_from(rev).map_err(broken)
}

fn as_row(row: &Model) -> Result<Row, StoreError> {
    Ok(Row {
        person: row.person.parse().map_err(broken)?,
        hold: row.hold.parse().map_err(broken)?,
        rev: u64::try_from(row.rev).map_err(broken)?,
        read_at: row.read_at,
        seq: u64::try_from(row.seq).map_err(broken)?,
        watching: row.watching,
    })
}

fn is(person: &UserName, id: NotificationId) -> Result<Condition, StoreError> {
    Ok(Condition::all()
        .add(COLUMN.person.eq(person.as_str()))
        .add(COLUMN.hold.eq(id.hold.to_string()))
        .add(COLUMN.rev.eq(number(told_rev(id))?)))
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

pub(super) async fn list(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<Row>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(filter.workspace.as_str()))
        .filter(COLUMN.person.eq(filter.person.as_str()));
    if filter.unread {
        query = query.filter(COLUMN.read_at.is_null());
    }
    if let Some(Behind { at, id }) = filter.behind {
        let (hold, rev) = (id.hold.to_string(), number(told_rev(id))?);
        let same_hold = Condition::all()
            .add(COLUMN.at.eq(at))
            .add(COLUMN.hold.eq(hold.as_str()))
            .add(COLUMN.rev.lt(rev));
        let same_at = Condition::all()
            .add(COLUMN.at.eq(at))
            .add(COLUMN.hold.lt(hold.as_str()));
        let before = COLUMN.at.lt(at);
        query = query.filter(Condition::any().add(before).add(same_at).add(same_hold));
    }
    let rows = query
        .order_by_desc(Column::At)
        .order_by_desc(Column::Hold)
        .order_by_desc(Column::Rev)
        .limit(filter.limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        filter.limit,
        |row| row.hold.clone(),
        |row| as_row(&row),
    ))
}

/// Gives people their copies; who has one keeps it as it is.
pub(super) async fn insert(db: &Transaction, all: &[Copies<'_>]) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for copies in all {
        let rev = number(told_rev(copies.id))?;
        rows.extend(copies.people.iter().map(|person| ActiveModel {
            workspace: Set(copies.workspace.to_string()),
            person: Set(person.to_string()),
            hold: Set(copies.id.hold.to_string()),
            rev: Set(rev),
            at: Set(copies.at),
            read_at: Set(copies.read_at),
            seq: Set(copies.seq),
            watching: Set(copies.watching),
        }));
    }
    let kept = OnConflict::columns([Column::Workspace, Column::Person, Column::Hold, Column::Rev])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&kept)).await?;
    for copies in all.iter().filter(|copies| copies.renews) {
        keep_newest(db, copies).await?;
    }
    Ok(())
}

/// Removes all reminders of a request but the newest, for the people of these copies. Reminders may be
/// told in another order than they were sent: an older one that arrives later is removed too.
async fn keep_newest(db: &Transaction, copies: &Copies<'_>) -> Result<(), StoreError> {
    let rev = number(told_rev(copies.id))?;
    let reminders = Condition::all()
        .add(COLUMN.workspace.eq(copies.workspace.as_str()))
        .add(COLUMN.hold.eq(copies.id.hold.to_string()))
        .add(Expr::col(Column::Rev).in_subquery(reminders(copies.workspace, copies.id.hold)));
    for people in copies.people.chunks(ROWS_PER_STATEMENT) {
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

/// The copies that changed after a mark, in the order of that.
pub(super) async fn after(
    db: &impl ConnectionTrait,
    filter: &After<'_>,
) -> Result<Vec<Row>, StoreError> {
    let mut query = Entity::find()
        .filter(COLUMN.workspace.eq(filter.workspace.as_str()))
        .filter(COLUMN.person.eq(filter.person.as_str()));
    if filter.unread {
        query = query.filter(COLUMN.read_at.is_null());
    }
    if let Some(FeedCursor { seq, id }) = filter.after {
        let (seq, hold, rev) = (number(seq)?, id.hold.to_string(), number(told_rev(id))?);
        let same_hold = Condition::all()
            .add(COLUMN.seq.eq(seq))
            .add(COLUMN.hold.eq(hold.as_str()))
            .add(COLUMN.rev.gt(rev));
        let same_seq = Condition::all()
            .add(COLUMN.seq.eq(seq))
            .add(COLUMN.hold.gt(hold.as_str()));
        let later = Condition::any()
            .add(COLUMN.seq.gt(seq))
            .add(same_seq)
            .add(same_hold);
        // The first of these the index can use.
        query = query.filter(COLUMN.seq.gte(seq)).filter(later);
    }
    let rows = query
        .order_by_asc(Column::Seq)
        .order_by_asc(Column::Hold)
        .order_by_asc(Column::Rev)
        .limit(filter.limit.saturating_add(SPARE_ROWS))
        .all(db)
        .await?;
    Ok(readable(
        rows,
        filter.limit,
        |row| row.hold.clone(),
        |row| as_row(&row),
    ))
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
    Ok(Condition::all().add(COLUMN.seq.lte(number(seq)?)))
}

/// How much a person has not read, but for what changed after a number.
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
    u64::try_from(found.len()).map_err(broken)
}

/// A copy was read just now; who was faster stays.
pub(super) async fn read(
    db: &impl ConnectionTrait,
    (workspace, person, id): (&Workspace, &UserName, NotificationId),
    (now, seq): When,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::ReadAt, Expr::value(now))
        .col_expr(Column::Seq, Expr::value(seq))
        .filter(unread_of(workspace, person))
        .filter(is(person, id)?)
        .exec(db)
        .await?;
    Ok(())
}

/// All copies of a person were read just now, but for what changed after a number.
pub(super) async fn read_all(
    db: &impl ConnectionTrait,
    (workspace, person, to): (&Workspace, &UserName, Option<u64>),
    (now, seq): When,
) -> Result<(), StoreError> {
    Entity::update_many()
        .col_expr(Column::ReadAt, Expr::value(now))
        .col_expr(Column::Seq, Expr::value(seq))
        .filter(unread_of(workspace, person))
        .filter(until(to)?)
        .exec(db)
        .await?;
    Ok(())
}

/// What is over: all its copies count as read, and say how it ended.
pub(super) async fn settle(
    db: &impl ConnectionTrait,
    (workspace, holds): (&Workspace, &[HoldId]),
    (now, seq): When,
) -> Result<(), StoreError> {
    let first = Func::coalesce([Expr::col(Column::ReadAt), Expr::value(now)]);
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        Entity::update_many()
            .col_expr(Column::ReadAt, first.clone().into())
            .col_expr(Column::Seq, Expr::value(seq))
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Forgets some copies of requests; how many.
pub(super) async fn forget(
    db: &impl ConnectionTrait,
    requests: &[Request],
    most: u64,
) -> Result<u64, StoreError> {
    let key = [Column::Workspace, Column::Person, Column::Hold, Column::Rev];
    let of = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    let some = Query::select()
        .columns(key)
        .from(Entity)
        .and_where(of.in_tuples(requests.iter().cloned()))
        .limit(most)
        .to_owned();
    let gone = Entity::delete_many()
        .filter(Expr::tuple(key.map(Expr::col)).in_subquery(some))
        .exec(db)
        .await?;
    Ok(gone.rows_affected)
}
