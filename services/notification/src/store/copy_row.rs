//! Table `copies`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, NotificationId, UserName, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict, Query};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::old::Request;
use super::told_rev;
use crate::domain;

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
}

impl ActiveModelBehavior for ActiveModel {}

/// A copy without what it is of.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) person: UserName,
    pub(super) hold: HoldId,
    pub(super) rev: u64,
    pub(super) read_at: Option<DateTime<Utc>>,
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

/// What the copies of one page have in common.
pub(super) struct Copies<'c> {
    pub(super) workspace: &'c Workspace,
    pub(super) id: NotificationId,
    pub(super) at: DateTime<Utc>,
    pub(super) read_at: Option<DateTime<Utc>>,
}

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
        .limit(filter.limit)
        .all(db)
        .await?;
    rows.iter().map(as_row).collect()
}

/// Gives people their copies; who has one keeps it as it is.
pub(super) async fn insert(
    db: &Transaction,
    copies: &Copies<'_>,
    people: &[UserName],
) -> Result<(), StoreError> {
    let rev = number(told_rev(copies.id))?;
    let rows = people.iter().map(|person| ActiveModel {
        workspace: Set(copies.workspace.to_string()),
        person: Set(person.to_string()),
        hold: Set(copies.id.hold.to_string()),
        rev: Set(rev),
        at: Set(copies.at),
        read_at: Set(copies.read_at),
    });
    let kept = OnConflict::columns([Column::Workspace, Column::Person, Column::Hold, Column::Rev])
        .do_nothing()
        .to_owned();
    insert_rows(db, rows, Some(&kept)).await
}

/// Copies that were read just now; who was faster stays.
pub(super) async fn read(
    db: &impl ConnectionTrait,
    copies: &[&domain::Copy],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for chunk in copies.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for copy in chunk {
            let id = copy.id();
            let workspace = COLUMN.workspace.eq(copy.workspace.as_str());
            any = any.add(is(&copy.person, id)?.add(workspace));
        }
        Entity::update_many()
            .col_expr(Column::ReadAt, Expr::value(now))
            .filter(COLUMN.read_at.is_null())
            .filter(any)
            .exec(db)
            .await?;
    }
    Ok(())
}

/// All copies of what is over count as read.
pub(super) async fn settle(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        Entity::update_many()
            .col_expr(Column::ReadAt, Expr::value(now))
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .filter(COLUMN.read_at.is_null())
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
