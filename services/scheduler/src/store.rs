//! Table `timers`: the only module with its queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::convert::Infallible;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{
    ROWS_PER_STATEMENT, StoreError, Transaction, insert_returning, upsert_if_version,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, SimpleExpr};
use sea_orm::{Condition, QueryOrder, QueryResult, QuerySelect, QueryTrait as _};

use crate::Scheduler;
use crate::arming::Bucket;
use crate::domain::{Effect, Key, Owner, Phase, SchedulerDomain, Timer};

const TABLE: &str = "timers";
const PENDING: &str = "pending";
const FIRED: &str = "fired";
const CLEARED: &str = "cleared";

/// Prefix of the ids of the timers of nodes (see [`Key`]).
const NODE_TIMER: &str = "node_";

/// Rows of one page.
pub(crate) const PAGE: u64 = 5_000;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "timers")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub owner: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub version: i64,
    pub prior_version: i64,
    pub rev: i64,
    pub shard: i32,
    pub status: String,
    pub due_at: Option<DateTimeUtc>,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

/// Rows that one statement deletes, so that it holds the write lock for some milliseconds only.
pub(crate) const FORGOTTEN_AT_ONCE: u64 = 1_000;

/// A timer to fire; sorts by its due time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueTimer {
    pub(crate) due: DateTime<Utc>,
    pub(crate) key: Key,
    pub(crate) rev: u64,
}

/// Loads timers; unknown ones are left out.
pub(crate) async fn load(
    db: &impl ConnectionTrait,
    keys: &[Key],
) -> Result<Vec<Timer>, StoreError> {
    let mut groups: BTreeMap<(&Workspace, Owner), Vec<&str>> = BTreeMap::new();
    for key in keys {
        let group = groups.entry((&key.workspace, key.owner));
        group.or_default().push(&key.id);
    }
    let mut timers = Vec::with_capacity(keys.len());
    for ((workspace, owner), ids) in groups {
        for ids in ids.chunks(ROWS_PER_STATEMENT) {
            let rows = Entity::find()
                .filter(COLUMN.workspace.eq(workspace.as_str()))
                .filter(COLUMN.owner.eq(owner.name()))
                .filter(COLUMN.id.is_in(ids.iter().copied()))
                .all(db)
                .await?;
            for row in rows {
                timers.push(read(row)?);
            }
        }
    }
    Ok(timers)
}

/// Saves each timer if its row still has the version that was read; returns the others.
pub(crate) async fn save(
    db: &Transaction,
    timers: &[(&Timer, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let keys = ["workspace", "owner", "id"];
    let columns = ["rev", "status", "due_at", "updated_at"];
    let conflict = upsert_if_version(TABLE, &keys, &columns);
    let rows = timers.iter().map(|(timer, read)| active(timer, *read, now));
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let names = [Column::Workspace, Column::Owner, Column::Id];
    let won = insert_returning(db, rows, &conflict, &names).await?;
    let text = |row: &QueryResult, name: &str| row.try_get::<String>("", name);
    let mut saved = HashSet::with_capacity(won.len());
    for row in &won {
        saved.insert((
            text(row, "workspace")?,
            text(row, "owner")?,
            text(row, "id")?,
        ));
    }
    let key = |key: &Key| {
        let owner = key.owner.name().to_owned();
        (key.workspace.to_string(), owner, key.id.clone())
    };
    let lost = timers
        .iter()
        .map(|(timer, _)| &timer.key)
        .filter(|one| !saved.contains(&key(one)));
    Ok(lost.cloned().collect())
}

/// One page of timers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// In the order of due times.
    pub(crate) timers: Vec<DueTimer>,
    /// Where the next page begins; absent after the last one. It counts rows and not timers, so that a
    /// page of unreadable rows does not hide later timers.
    pub(crate) next: Option<Cursor>,
}

/// A position in the order of due times, with the values of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    due: DateTime<Utc>,
    workspace: String,
    owner: String,
    id: String,
}

impl Cursor {
    fn behind(row: &Model) -> Option<Self> {
        Some(Self {
            due: row.due_at?,
            workspace: row.workspace.clone(),
            owner: row.owner.clone(),
            id: row.id.clone(),
        })
    }
}

/// A page of pending timers due before `until`, after a position.
pub(crate) async fn due(
    db: &impl ConnectionTrait,
    until: DateTime<Utc>,
    behind: Option<&Cursor>,
) -> Result<Page, StoreError> {
    let mut wanted = Entity::find()
        .filter(pending())
        .filter(COLUMN.due_at.lt(until));
    if let Some(last) = behind {
        // The cursor implies this condition, which lets the index begin there.
        wanted = wanted.filter(COLUMN.due_at.gte(last.due));
    }
    let columns = (Column::DueAt, Column::Workspace, Column::Owner, Column::Id);
    let mut page = wanted.cursor_by(columns);
    if let Some(Cursor {
        due,
        workspace,
        owner,
        id,
    }) = behind
    {
        page.after((*due, workspace.as_str(), owner.as_str(), id.as_str()));
    }
    let rows = page.first(PAGE).all(db).await?;
    let is_full = rows.len() as u64 == PAGE;
    let next = rows.last().filter(|_| is_full).and_then(Cursor::behind);
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        // A row that cannot be read must not stop the others.
        let timer = match read(row) {
            Ok(timer) => timer,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a timer is passed over"
                );
                continue;
            }
        };
        if let Phase::Pending(due) = timer.phase {
            let Timer { key, rev, .. } = timer;
            timers.push(DueTimer { due, key, rev });
        }
    }
    Ok(Page { timers, next })
}

/// Deletes a page of timers that fired or were cancelled before `before`; returns their number. A timer that
/// was set again meanwhile is kept.
pub(crate) async fn forget(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let over = || {
        Condition::all()
            .add(COLUMN.status.ne(PENDING))
            .add(COLUMN.updated_at.lt(before))
    };
    let old = Entity::find()
        .filter(over())
        .select_only()
        .columns([Column::Workspace, Column::Owner, Column::Id])
        .order_by_asc(Column::UpdatedAt)
        .limit(FORGOTTEN_AT_ONCE)
        .into_query();
    let key = Expr::tuple([
        Expr::col(Column::Workspace),
        Expr::col(Column::Owner),
        Expr::col(Column::Id),
    ]);
    let gone = Entity::delete_many()
        .filter(over())
        .filter(key.in_subquery(old))
        .exec(db)
        .await?;
    Ok(gone.rows_affected)
}

/// The earliest due time.
pub(crate) async fn next_due(
    db: &impl ConnectionTrait,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    first_due(db, pending()).await
}

/// The next due time after `after` at which a moving test clock stops. A node that has sent a heartbeat since
/// the move began at `began` is alive. The clock does not stop at its new timer, because each stop would
/// cause another one half a minute later.
pub(crate) async fn next_stop(
    db: &impl ConnectionTrait,
    began: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let of_hold = COLUMN.id.not_like(format!("{NODE_TIMER}%"));
    let stops = Condition::any()
        .add(of_hold)
        .add(COLUMN.updated_at.lte(began));
    let wanted = Condition::all()
        .add(pending())
        .add(COLUMN.due_at.gt(after))
        .add(stops);
    first_due(db, wanted).await
}

async fn first_due(
    db: &impl ConnectionTrait,
    wanted: impl sea_orm::sea_query::IntoCondition,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let first = Entity::find()
        .filter(wanted)
        .select_only()
        .column_as(Column::DueAt.min(), "first")
        .into_tuple::<Option<DateTimeUtc>>()
        .one(db)
        .await?;
    Ok(first.flatten())
}

/// The buckets with timers due from `from` until before `to`.
pub(crate) async fn buckets(
    db: &impl ConnectionTrait,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<BTreeSet<Bucket>, StoreError> {
    let mut found = BTreeSet::new();
    let mut from = from;
    loop {
        let rows = Entity::find()
            .filter(pending())
            .filter(COLUMN.due_at.gte(from))
            .filter(COLUMN.due_at.lt(to))
            .select_only()
            .column(Column::Shard)
            .column(Column::DueAt)
            .order_by_asc(Column::DueAt)
            .limit(PAGE)
            .into_tuple::<(i32, DateTimeUtc)>()
            .all(db)
            .await?;
        let Some((_, last)) = rows.last().copied() else {
            return Ok(found);
        };
        let full = rows.len() as u64 == PAGE;
        for (shard, due) in rows {
            found.insert((u32::try_from(shard).map_err(broken)?, due.timestamp()));
        }
        if !full {
            return Ok(found);
        }
        // Further timers of a known second add no bucket.
        let next = DateTime::from_timestamp(last.timestamp(), 0).unwrap_or(last);
        from = next + TimeDelta::seconds(1);
    }
}

fn pending() -> SimpleExpr {
    COLUMN.status.eq(PENDING)
}

fn broken(reason: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, reason)
}

fn read(row: Model) -> Result<Timer, StoreError> {
    let owner = Owner::named(&row.owner);
    let key = Key {
        workspace: row.workspace.parse().map_err(broken)?,
        owner: owner.ok_or_else(|| broken(format!("no owner is called `{}`", row.owner)))?,
        id: row.id,
    };
    let phase = match (row.status.as_str(), row.due_at) {
        (PENDING, Some(due)) => Phase::Pending(due),
        (FIRED, None) => Phase::Fired,
        (CLEARED, None) => Phase::Cleared,
        (status, due) => return Err(broken(format!("`{status}`, due {due:?}"))),
    };
    Ok(Timer {
        key,
        version: u64::try_from(row.version).map_err(broken)?,
        rev: u64::try_from(row.rev).map_err(broken)?,
        phase,
    })
}

fn active(timer: &Timer, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let (status, due) = match timer.phase {
        Phase::Pending(due) => (PENDING, Some(due)),
        Phase::Fired => (FIRED, None),
        Phase::Cleared => (CLEARED, None),
    };
    Ok(ActiveModel {
        workspace: Set(timer.key.workspace.to_string()),
        owner: Set(timer.key.owner.name().to_owned()),
        id: Set(timer.key.id.clone()),
        version: Set(i64::try_from(timer.version).map_err(broken)?),
        prior_version: Set(i64::try_from(read).map_err(broken)?),
        rev: Set(i64::try_from(timer.rev).map_err(broken)?),
        shard: Set(i32::try_from(timer.key.shard()).map_err(broken)?),
        status: Set(status.to_owned()),
        due_at: Set(due),
        updated_at: Set(now),
    })
}

impl Store<SchedulerDomain> for Scheduler {
    async fn load(&self, db: &Transaction, keys: &[Key]) -> Result<Vec<(Key, Timer)>, StoreError> {
        let timers = load(db, keys).await?.into_iter();
        Ok(timers.map(|timer| (timer.key.clone(), timer)).collect())
    }

    async fn find(
        &self,
        _: &Transaction,
        _: &[Infallible],
    ) -> Result<Vec<(Infallible, ())>, StoreError> {
        Ok(Vec::new())
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, SchedulerDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let timers: Vec<_> = changed
            .iter()
            .map(|one| (one.state, one.read_version))
            .collect();
        save(db, &timers, now).await
    }

    async fn record(
        &self,
        _: &Transaction,
        _: &[Effect],
        _: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
