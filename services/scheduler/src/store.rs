//! Tables `timers` and `schedules`: the only module with their queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the entity macro generates public models and a nested save that begins"
)]

mod schedule_row;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{BrokenRow as _, ColumnRow, KeyOf, StoreError, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, SimpleExpr};
use sea_orm::{Condition, QueryOrder, QuerySelect, QueryTrait as _};

use crate::arming::Bucket;
use crate::domain::{Effect, Fact, Key, Need, Owner, Phase, SchedulerDomain, Timer};
use crate::service::Scheduler;

pub(crate) use schedule_row::{find_schedule, list_schedules};

const PENDING: &str = "pending";
const FIRED: &str = "fired";
const CLEARED: &str = "cleared";

/// Prefix of the ids of the timers of nodes (see [`Key`]).
const NODE_TIMER: &str = "node_";

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
pub(crate) const DELETED_AT_ONCE: u64 = 1_000;

/// A timer to fire; sorts by its due time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueTimer {
    pub(crate) due: DateTime<Utc>,
    pub(crate) key: Key,
    pub(crate) rev: u64,
}

/// A page of due timers in the order of their due times, and where the next page begins. The cursor counts
/// rows and not timers, so that a page of unreadable rows does not hide later timers.
pub(crate) type Page = (Vec<DueTimer>, Option<Cursor>);

/// A position in the order of due times: due time, workspace, owner and id of a row.
pub(crate) type Cursor = (DateTime<Utc>, String, String, String);

/// A page of pending timers due before `until`, after a position.
pub(crate) async fn list_due(
    db: &impl ConnectionTrait,
    until: DateTime<Utc>,
    after: Option<Cursor>,
) -> Result<Page, StoreError> {
    let mut wanted = Entity::find()
        .filter(pending())
        .filter(COLUMN.due_at.lt(until));
    if let Some((due, ..)) = after {
        // The cursor implies this condition, which lets the index begin there.
        wanted = wanted.filter(COLUMN.due_at.gte(due));
    }
    let columns = (Column::DueAt, Column::Workspace, Column::Owner, Column::Id);
    let mut page = wanted.cursor_by(columns);
    if let Some(after) = after {
        page.after(after);
    }
    let rows = page.first(PAGE).all(db).await?;
    let is_full = rows.len() as u64 == PAGE;
    let last = rows.last().filter(|_| is_full).cloned();
    let next = last.and_then(|row| Some((row.due_at?, row.workspace, row.owner, row.id)));
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        match Entity::read(row) {
            Ok(Timer {
                key,
                rev,
                phase: Phase::Pending(due),
                ..
            }) => timers.push(DueTimer { due, key, rev }),
            Ok(_) => {}
            // A row that cannot be read must not stop the others.
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "timer not readable; it does not fire"
            ),
        }
    }
    Ok((timers, next))
}

/// Deletes a page of timers that fired or were cancelled before `before`; returns their number. A timer that
/// was set again since is kept, and so is the timer of a schedule that is not deleted.
pub(crate) async fn delete_old(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let is_old = || {
        let has_schedule = COLUMN.owner.eq(Owner::Scheduler.to_string());
        Condition::all()
            .add(COLUMN.status.ne(PENDING))
            .add(COLUMN.status.eq(CLEARED).or(has_schedule.not()))
            .add(COLUMN.updated_at.lt(before))
    };
    let old = Entity::find()
        .filter(is_old())
        .select_only()
        .columns([Column::Workspace, Column::Owner, Column::Id])
        .order_by_asc(Column::UpdatedAt)
        .limit(DELETED_AT_ONCE)
        .into_query();
    let key = Expr::tuple([
        Expr::col(Column::Workspace),
        Expr::col(Column::Owner),
        Expr::col(Column::Id),
    ]);
    let deleted = Entity::delete_many()
        .filter(is_old())
        .filter(key.in_subquery(old))
        .exec(db)
        .await?;
    Ok(deleted.rows_affected)
}

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
        .add(COLUMN.owner.eq(Owner::Scheduler.to_string()))
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
            found.insert((
                u32::try_from(shard).map_err(Entity::broken)?,
                due.timestamp(),
            ));
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

impl ColumnRow for Entity {
    type State = Timer;

    const CONSTANT: &'static [Column] = &[Column::Shard];

    fn read(row: Model) -> Result<Timer, StoreError> {
        let key = Key {
            workspace: row.workspace.parse().map_err(Self::broken)?,
            owner: row.owner.parse().map_err(Self::broken)?,
            id: row.id,
        };
        let phase = match (row.status.as_str(), row.due_at) {
            (PENDING, Some(due)) => Phase::Pending(due),
            (FIRED, None) => Phase::Fired,
            (CLEARED, None) => Phase::Cleared,
            (status, due) => return Err(Self::broken(format!("status `{status}`, due {due:?}"))),
        };
        Ok(Timer {
            key,
            version: u64::try_from(row.version).map_err(Self::broken)?,
            rev: u64::try_from(row.rev).map_err(Self::broken)?,
            phase,
            schedule: None,
        })
    }

    fn row(timer: &Timer, prior_version: i64, now: DateTimeUtc) -> Result<ActiveModel, StoreError> {
        let (workspace, owner, id) = row_key(&timer.key);
        let (status, due) = match timer.phase {
            Phase::Pending(due) => (PENDING, Some(due)),
            Phase::Fired => (FIRED, None),
            Phase::Cleared => (CLEARED, None),
        };
        Ok(ActiveModel {
            workspace: Set(workspace),
            owner: Set(owner),
            id: Set(id),
            version: Set(i64::try_from(timer.version).map_err(Self::broken)?),
            prior_version: Set(prior_version),
            rev: Set(i64::try_from(timer.rev).map_err(Self::broken)?),
            shard: Set(i32::try_from(timer.key.shard()).map_err(Self::broken)?),
            status: Set(status.to_owned()),
            due_at: Set(due),
            updated_at: Set(now),
        })
    }
}

fn row_key(key: &Key) -> KeyOf<Entity> {
    let (workspace, owner) = (key.workspace.to_string(), key.owner.to_string());
    (workspace, owner, key.id.clone())
}

impl Store<SchedulerDomain> for Scheduler {
    /// Loads timers with their schedules; unknown ones are left out.
    async fn load(&self, db: &Transaction, keys: &[Key]) -> Result<Vec<(Key, Timer)>, StoreError> {
        let rows: Vec<_> = keys.iter().map(row_key).collect();
        let mut timers = Entity::load_states(db, &rows).await?;
        schedule_row::add_schedules(db, &mut timers).await?;
        let keyed = |timer: Timer| (timer.key.clone(), timer);
        Ok(timers.into_iter().map(keyed).collect())
    }

    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        let workspaces: Vec<_> = needs
            .iter()
            .map(|Need::Schedules(workspace)| workspace)
            .collect();
        let names = schedule_row::list_names(db, &workspaces).await?;
        let facts = names
            .into_iter()
            .map(|(workspace, names)| (Need::Schedules(workspace), Fact::Schedules(names)));
        Ok(facts.collect())
    }

    /// Saves each timer if its row still has the version that was read, and the schedules of saved timers. Returns the
    /// other keys.
    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, SchedulerDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let mut changed: Vec<_> = changed
            .iter()
            .map(|one| one.with_state(one.state))
            .collect();
        let mut lost = Entity::save(db, &changed, now).await?;
        changed.retain(|one| !lost.contains(one.key));
        lost.extend(schedule_row::save_schedules(db, &changed, now).await?);
        Ok(lost)
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
