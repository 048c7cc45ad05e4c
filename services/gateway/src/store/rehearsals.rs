//! Rehearsals that are kept for some days, with their runs.
//!
//! A rehearsal belongs to the gateway that runs it until it ends. Every other writer ends it by its status, and the
//! gateway stops at its next page of runs.

pub(super) mod row;
#[cfg(test)]
pub(super) mod tests;

use std::num::TryFromIntError;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::rehearsal::{
    KEPT_DAYS, KEPT_MAX, Rehearsal, RehearsalStatus, RehearsedEvent, RehearsedRun,
    STORED_CONTACTS_MAX, StoredRehearsal,
};
use holdpoint_ids::{AgentName, ContactId, UserName, Workspace};
use holdpoint_store::crash::Point;
use holdpoint_store::{
    BrokenRow as _, StoreError, Transaction, begin_write, insert_rows, mark_for_compaction,
};
use row::{erasures, rehearsal, run};
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{
    ActiveValue::{NotSet, Set},
    ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, PaginatorTrait as _,
    QueryFilter, QueryOrder, QuerySelect, Select, UpdateMany,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::crash_points::{commit, pass};
use super::row_id::row_id;

/// A rehearsal whose gateway has written nothing for so long was interrupted. A page of runs takes less.
pub(crate) const SILENT_MAX: TimeDelta = TimeDelta::seconds(45);

/// Why a rehearsal is interrupted.
pub(crate) const INTERRUPTED: &str = "its gateway ended before the rehearsal did; start it again";

row_id!(RehearsalId, "rehearsal", "reh_");

/// A rehearsal with its first runs.
#[derive(Debug)]
pub(crate) struct NewRehearsal<'r> {
    pub(crate) workspace: &'r Workspace,
    pub(crate) created_by: &'r UserName,
    pub(crate) contacts: u64,
    pub(crate) first: &'r Rehearsal,
    /// Before the contacts were read.
    pub(crate) erasures: Erasures,
    pub(crate) now: DateTime<Utc>,
}

/// How many erasures of contacts a workspace has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Erasures(i64);

/// Runs of a rehearsal, from a place among its contacts on.
#[derive(Debug)]
pub(crate) struct RunsPage<'p> {
    pub(crate) workspace: &'p Workspace,
    pub(crate) rehearsal: RehearsalId,
    pub(crate) place: u64,
    pub(crate) runs: &'p [RehearsedRun],
}

/// A rehearsal with the ids of the steps of its plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) rehearsal: StoredRehearsal,
    pub(crate) steps: Vec<String>,
}

pub(crate) async fn count_erasures(
    writer: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<Erasures, StoreError> {
    let found = erasures::Entity::find_by_id(workspace.as_str()).one(writer);
    Ok(Erasures(found.await?.map_or(0, |row| row.erasures)))
}

/// Adds a running rehearsal, and drops ended ones above the limit of the workspace. None: a contact was erased since
/// the contacts were read.
pub(crate) async fn add(
    writer: &DatabaseConnection,
    new: &NewRehearsal<'_>,
) -> Result<Option<RehearsalId>, StoreError> {
    let first = new.first;
    let row = rehearsal::ActiveModel {
        id: NotSet,
        workspace: Set(new.workspace.to_string()),
        created_by: Set(new.created_by.to_string()),
        agent: Set(first.agent.to_string()),
        version: Set(first.version.and_then(|version| version.try_into().ok())),
        steps: Set(to_json(&first.steps)?),
        start_at: Set(first.started_at),
        contacts: Set(to_i64(new.contacts)?),
        rehearsed: Set(to_i64(first.runs.len() as u64)?),
        status: Set(RehearsalStatus::Running.to_string()),
        detail: Set(None),
        created_at: Set(new.now),
        seen_at: Set(new.now),
        ended_at: Set(None),
    };
    let tx = begin_write(writer).await?;
    if !lock_erasures(&tx, new.workspace, new.erasures).await? {
        tx.rollback().await?;
        return Ok(None);
    }
    let id = rehearsal::Entity::insert(row)
        .exec(&tx)
        .await?
        .last_insert_id;
    let page = RunsPage {
        workspace: new.workspace,
        rehearsal: RehearsalId(id),
        place: 0,
        runs: &first.runs,
    };
    insert_runs(&tx, &page).await?;
    drop_oldest(&tx, new).await?;
    commit(tx, "start_rehearsal").await?;
    Ok(Some(RehearsalId(id)))
}

/// Locks the number of erasures until the end of the transaction. Returns whether it is still this one.
async fn lock_erasures(
    tx: &Transaction,
    workspace: &Workspace,
    expected: Erasures,
) -> Result<bool, StoreError> {
    let row = erasures::ActiveModel {
        workspace: Set(workspace.to_string()),
        erasures: Set(0),
    };
    erasures::Entity::insert(row)
        .on_conflict_do_nothing()
        .exec_without_returning(tx)
        .await?;
    let locked = erasures::Entity::update_many()
        .col_expr(erasures::Column::Erasures, Expr::value(expected.0))
        .filter(erasures::Column::Workspace.eq(workspace.as_str()))
        .filter(erasures::Column::Erasures.eq(expected.0))
        .exec(tx)
        .await?;
    Ok(locked.rows_affected > 0)
}

/// Deletes ended rehearsals above the limit, first those of the creator. One that still runs is above it for a minute
/// at most.
async fn drop_oldest(db: &Transaction, new: &NewRehearsal<'_>) -> Result<(), StoreError> {
    let all =
        rehearsal::Entity::find().filter(rehearsal::Column::Workspace.eq(new.workspace.as_str()));
    let above = all.clone().count(db).await?.saturating_sub(KEPT_MAX);
    if above == 0 {
        return Ok(());
    }
    let is_of_another = Expr::col(rehearsal::Column::CreatedBy).ne(new.created_by.as_str());
    let dropped = all
        .filter(rehearsal::Column::EndedAt.is_not_null())
        .order_by_asc(is_of_another)
        .order_by_asc(rehearsal::Column::Id)
        .limit(above);
    delete(db, dropped).await
}

/// Adds runs to a running rehearsal. Returns whether it still runs.
pub(crate) async fn append(
    writer: &DatabaseConnection,
    page: &RunsPage<'_>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let tx = begin_write(writer).await?;
    let rehearsed = to_i64(page.place.saturating_add(page.runs.len() as u64))?;
    let noted = rehearsal::Entity::update_many()
        .col_expr(rehearsal::Column::Rehearsed, Expr::value(rehearsed))
        .col_expr(rehearsal::Column::SeenAt, Expr::value(now))
        .filter(rehearsal::Column::Id.eq(page.rehearsal.0))
        .filter(rehearsal::Column::EndedAt.is_null())
        .exec(&tx)
        .await?;
    if noted.rows_affected == 0 {
        tx.rollback().await?;
        return Ok(false);
    }
    insert_runs(&tx, page).await?;
    commit(tx, "rehearse_contacts").await?;
    Ok(true)
}

async fn insert_runs(tx: &Transaction, page: &RunsPage<'_>) -> Result<(), StoreError> {
    let rows = page.runs.iter().zip(page.place..).map(|(run, place)| {
        let mut head = run.clone();
        let timeline = std::mem::take(&mut head.timeline);
        Ok(run::ActiveModel {
            rehearsal: Set(page.rehearsal.0),
            place: Set(to_i64(place)?),
            workspace: Set(page.workspace.to_string()),
            contact: Set(run.contact.to_string()),
            head: Set(to_json(&head)?),
            timeline: Set(to_json(&timeline)?),
        })
    });
    let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
    insert_rows(tx, rows, None).await
}

/// Ends a running rehearsal. Returns whether it ran.
pub(crate) async fn end(
    writer: &impl ConnectionTrait,
    id: RehearsalId,
    status: RehearsalStatus,
    detail: Option<&str>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let ending = end_running(status, detail, now).filter(rehearsal::Column::Id.eq(id.0));
    pass(Point::Decided, "end_rehearsal");
    let ended = ending.exec(writer).await?.rows_affected > 0;
    pass(Point::Committed, "end_rehearsal");
    Ok(ended)
}

/// Ends all running rehearsals that a filter leaves.
fn end_running(
    status: RehearsalStatus,
    detail: Option<&str>,
    now: DateTime<Utc>,
) -> UpdateMany<rehearsal::Entity> {
    rehearsal::Entity::update_many()
        .col_expr(rehearsal::Column::Status, Expr::value(status.as_str()))
        .col_expr(rehearsal::Column::Detail, Expr::value(detail))
        .col_expr(rehearsal::Column::EndedAt, Expr::value(now))
        .filter(rehearsal::Column::EndedAt.is_null())
}

/// Marks running rehearsals whose gateway has ended: it has written nothing since an instant.
pub(crate) async fn interrupt(
    writer: &impl ConnectionTrait,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let interrupted = end_running(RehearsalStatus::Interrupted, Some(INTERRUPTED), now)
        .filter(rehearsal::Column::SeenAt.lt(now - SILENT_MAX))
        .exec(writer);
    if interrupted.await?.rows_affected > 0 {
        pass(Point::Committed, "interrupt_rehearsals");
    }
    Ok(())
}

/// The rehearsals of a workspace that are not too old. Those that are may wait for [`forget`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept<'k> {
    pub(crate) db: &'k DatabaseConnection,
    pub(crate) workspace: &'k Workspace,
    pub(crate) now: DateTime<Utc>,
}

impl Kept<'_> {
    pub(crate) async fn find(self, id: RehearsalId) -> Result<Option<Found>, StoreError> {
        let found = self.select().filter(rehearsal::Column::Id.eq(id.0));
        let read_found = |row: rehearsal::Model| {
            Ok(Found {
                steps: from_json(&row.steps)?,
                rehearsal: read(row, self.now)?,
            })
        };
        found.one(self.db).await?.map(read_found).transpose()
    }

    /// Those before an id, newest first; of one agent or of all.
    pub(crate) async fn list(
        self,
        agent: Option<&AgentName>,
        before: Option<RehearsalId>,
        limit: u64,
    ) -> Result<Vec<StoredRehearsal>, StoreError> {
        let mut query = self
            .select()
            .filter(rehearsal::Column::Id.lt(before.map_or(i64::MAX, |id| id.0)))
            .order_by_desc(rehearsal::Column::Id);
        if let Some(agent) = agent {
            query = query.filter(rehearsal::Column::Agent.eq(agent.as_str()));
        }
        holdpoint_store::page(self.db, query, limit, |row| read(row, self.now)).await
    }

    fn select(self) -> Select<rehearsal::Entity> {
        rehearsal::Entity::find()
            .filter(rehearsal::Column::Workspace.eq(self.workspace.as_str()))
            .filter(rehearsal::Column::CreatedAt.gte(oldest(self.now)))
    }
}

/// An older rehearsal is deleted.
fn oldest(now: DateTime<Utc>) -> DateTime<Utc> {
    now - TimeDelta::days(KEPT_DAYS)
}

/// A run with its place among the contacts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedRun {
    pub(crate) place: u64,
    pub(crate) run: RehearsedRun,
}

/// The runs from a place on, in the order of the contacts.
pub(crate) async fn runs(
    db: &DatabaseConnection,
    id: RehearsalId,
    from: u64,
    limit: u64,
) -> Result<Vec<PlacedRun>, StoreError> {
    let rows = run::Entity::find()
        .filter(run::Column::Rehearsal.eq(id.0))
        .filter(run::Column::Place.gte(to_i64(from)?))
        .order_by_asc(run::Column::Place)
        .limit(limit)
        .all(db)
        .await?;
    let runs = rows.into_iter().map(|row| {
        let timeline: Vec<RehearsedEvent> = from_json(&row.timeline)?;
        let head: RehearsedRun = from_json(&row.head)?;
        let place = u64::try_from(row.place).map_err(run::Entity::broken)?;
        let run = RehearsedRun { timeline, ..head };
        Ok(PlacedRun { place, run })
    });
    runs.collect()
}

/// A rehearsal with all its runs, at most [`STORED_BYTES_MAX`] of JSON.
///
/// [`STORED_BYTES_MAX`]: holdpoint_contracts::rehearsal::STORED_BYTES_MAX
pub(crate) async fn load(
    db: &DatabaseConnection,
    id: RehearsalId,
    found: Found,
) -> Result<Rehearsal, StoreError> {
    let runs = runs(db, id, 0, STORED_CONTACTS_MAX as u64).await?;
    let contacts = usize::try_from(found.rehearsal.contacts).unwrap_or(usize::MAX);
    Ok(Rehearsal {
        agent: found.rehearsal.agent,
        version: found.rehearsal.version,
        started_at: found.rehearsal.start_at,
        steps: found.steps,
        contacts_left: contacts.saturating_sub(runs.len()),
        runs: runs.into_iter().map(|placed| placed.run).collect(),
    })
}

/// All runs without their timelines.
pub(crate) async fn heads(
    db: &DatabaseConnection,
    id: RehearsalId,
) -> Result<Vec<RehearsedRun>, StoreError> {
    let rows: Vec<String> = run::Entity::find()
        .select_only()
        .column(run::Column::Head)
        .filter(run::Column::Rehearsal.eq(id.0))
        .order_by_asc(run::Column::Place)
        .into_tuple()
        .all(db)
        .await?;
    rows.iter().map(|head| from_json(head)).collect()
}

/// Deletes a rehearsal. One that runs stops. Returns whether it was there.
pub(crate) async fn remove(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    id: RehearsalId,
) -> Result<bool, StoreError> {
    let tx = begin_write(writer).await?;
    let found = rehearsal::Entity::find_by_id(id.0)
        .filter(rehearsal::Column::Workspace.eq(workspace.as_str()));
    let is_there = found.clone().one(&tx).await?.is_some();
    delete(&tx, found).await?;
    tx.commit().await?;
    Ok(is_there)
}

/// Deletes the rehearsals that are older than [`KEPT_DAYS`].
pub(crate) async fn forget(
    writer: &DatabaseConnection,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let old = rehearsal::Entity::find().filter(rehearsal::Column::CreatedAt.lt(oldest(now)));
    if old.clone().one(writer).await?.is_none() {
        return Ok(());
    }
    let tx = begin_write(writer).await?;
    delete(&tx, old).await?;
    commit(tx, "forget_rehearsals").await
}

/// Deletes the runs of a contact, and cancels the running rehearsals of its workspace, which could add one.
pub(crate) async fn erase(
    writer: &DatabaseConnection,
    workspace: &Workspace,
    contact: &ContactId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let tx = begin_write(writer).await?;
    let row = erasures::ActiveModel {
        workspace: Set(workspace.to_string()),
        erasures: Set(1),
    };
    let counted = Expr::col((erasures::Entity, erasures::Column::Erasures)).add(1);
    let on_conflict = OnConflict::column(erasures::Column::Workspace)
        .value(erasures::Column::Erasures, counted)
        .to_owned();
    erasures::Entity::insert(row)
        .on_conflict(on_conflict)
        .exec_without_returning(&tx)
        .await?;
    end_running(
        RehearsalStatus::Cancelled,
        Some("a contact was erased"),
        now,
    )
    .filter(rehearsal::Column::Workspace.eq(workspace.as_str()))
    .exec(&tx)
    .await?;
    run::Entity::delete_many()
        .filter(run::Column::Workspace.eq(workspace.as_str()))
        .filter(run::Column::Contact.eq(contact.as_str()))
        .exec(&tx)
        .await?;
    mark_for_compaction(&tx).await?;
    tx.commit().await
}

async fn delete(db: &Transaction, found: Select<rehearsal::Entity>) -> Result<(), StoreError> {
    let ids = found.select_only().column(rehearsal::Column::Id);
    let ids: Vec<i64> = ids.into_tuple().all(db).await?;
    run::Entity::delete_many()
        .filter(run::Column::Rehearsal.is_in(ids.iter().copied()))
        .exec(db)
        .await?;
    rehearsal::Entity::delete_many()
        .filter(rehearsal::Column::Id.is_in(ids))
        .exec(db)
        .await?;
    Ok(())
}

/// A row reads as interrupted at once, and [`interrupt`] marks it later.
fn interrupted_if_silent(row: rehearsal::Model, now: DateTime<Utc>) -> rehearsal::Model {
    if row.ended_at.is_some() || row.seen_at >= now - SILENT_MAX {
        return row;
    }
    rehearsal::Model {
        status: RehearsalStatus::Interrupted.to_string(),
        detail: Some(INTERRUPTED.to_owned()),
        ended_at: Some(row.seen_at + SILENT_MAX),
        ..row
    }
}

fn read(row: rehearsal::Model, now: DateTime<Utc>) -> Result<StoredRehearsal, StoreError> {
    let row = interrupted_if_silent(row, now);
    let broken = |error: TryFromIntError| rehearsal::Entity::broken(error);
    Ok(StoredRehearsal {
        id: RehearsalId(row.id).to_string(),
        agent: row.agent.parse().map_err(rehearsal::Entity::broken)?,
        version: row.version.map(u32::try_from).transpose().map_err(broken)?,
        status: rehearsal::Entity::word(row.status)?,
        contacts: u64::try_from(row.contacts).map_err(broken)?,
        rehearsed: u64::try_from(row.rehearsed).map_err(broken)?,
        start_at: row.start_at,
        created_by: row.created_by.parse().map_err(rehearsal::Entity::broken)?,
        created_at: row.created_at,
        ended_at: row.ended_at,
        kept_until: row.created_at + TimeDelta::days(KEPT_DAYS),
        detail: row.detail,
    })
}

fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(run::Entity::broken)
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(run::Entity::broken)
}

fn to_i64(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(run::Entity::broken)
}
