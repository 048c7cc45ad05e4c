//! Table `notes`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, guarded};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query, SelectStatement};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::old::Request;
use super::told_rev;
use super::turns::Fanning;
use crate::domain::{FanOutProgress, Key, Note, NoteKey, RequestLifecycle};

const TABLE: &str = "notes";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hold: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    pub told_rev: i64,
    pub version: i64,
    pub prior_version: i64,
    pub kind: String,
    pub fanning: bool,
    pub state: String,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn read(row: &Model) -> Result<Note, StoreError> {
    serde_json::from_str(&row.state).map_err(broken)
}

fn number(rev: u64) -> Result<i64, StoreError> {
    i64::try_from(rev).map_err(broken)
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    keys: &[&NoteKey],
) -> Result<Vec<Note>, StoreError> {
    let mut notes = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for key in chunk {
            let one = Condition::all()
                .add(COLUMN.hold.eq(key.hold.to_string()))
                .add(COLUMN.rev.eq(number(key.rev)?));
            any = any.add(one);
        }
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(any)
            .all(db)
            .await?;
        for row in &rows {
            notes.push(read(row)?);
        }
    }
    Ok(notes)
}

/// All that is known of requests.
pub(super) async fn of(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<Vec<Note>, StoreError> {
    let mut notes = Vec::new();
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .all(db)
            .await?;
        for row in &rows {
            notes.push(read(row)?);
        }
    }
    Ok(notes)
}

/// When requests were asked, when their runs were taken over, and when they ended.
pub(super) async fn courses(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<BTreeMap<HoldId, RequestLifecycle>, StoreError> {
    let kinds = [
        RequestEventKind::Opened,
        RequestEventKind::TakenOver,
        RequestEventKind::Decided,
        RequestEventKind::Expired,
        RequestEventKind::Withdrawn,
    ];
    let mut found: BTreeMap<HoldId, RequestLifecycle> = BTreeMap::new();
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .filter(COLUMN.kind.is_in(kinds.map(RequestEventKind::as_str)))
            .select_only()
            .column(Column::Hold)
            .column(Column::Kind)
            .column(Column::Rev)
            .into_tuple::<(String, String, i64)>()
            .all(db)
            .await?;
        for (hold, kind, rev) in rows {
            let kind = kinds.into_iter().find(|one| one.as_str() == kind);
            let kind = kind.ok_or_else(|| broken("a kind that was not asked for"))?;
            let course = found.entry(hold.parse().map_err(broken)?).or_default();
            course.note(kind, u64::try_from(rev).map_err(broken)?);
        }
    }
    Ok(found)
}

/// Versions of a request at which people were reminded of it.
pub(super) fn reminders(workspace: &Workspace, hold: HoldId) -> SelectStatement {
    Query::select()
        .column(Column::Rev)
        .from(Entity)
        .and_where(COLUMN.workspace.eq(workspace.as_str()))
        .and_where(COLUMN.hold.eq(hold.to_string()))
        .and_where(COLUMN.kind.eq(RequestEventKind::Escalated.as_str()))
        .to_owned()
}

impl Fanning for NoteKey {
    async fn fanning(
        db: &impl ConnectionTrait,
        behind: u64,
        limit: u64,
    ) -> Result<Vec<Self>, StoreError> {
        let rows = Entity::find()
            // In the words of its index.
            .filter(Expr::col(Column::Fanning))
            .order_by_asc(Column::CreatedAt)
            .offset(behind)
            .limit(limit)
            .select_only()
            .column(Column::Workspace)
            .column(Column::Hold)
            .column(Column::Rev)
            .into_tuple::<(String, String, i64)>()
            .all(db)
            .await?;
        let key = |(workspace, hold, rev): (String, String, i64)| {
            Ok(Self {
                workspace: workspace.parse().map_err(broken)?,
                hold: hold.parse().map_err(broken)?,
                rev: u64::try_from(rev).map_err(broken)?,
            })
        };
        rows.into_iter().map(key).collect()
    }
}

pub(super) async fn save(
    db: &impl ConnectionTrait,
    notes: &[(&Note, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = ["fanning", "state", "updated_at"];
    let mut losers = Vec::new();
    for chunk in notes.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(note, read)| active(note, *read, now));
        let won: HashSet<(String, String, i64)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "hold", "rev"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        for (note, _) in chunk {
            let NoteKey {
                workspace,
                hold,
                rev,
            } = note.key();
            if !won.contains(&(workspace.to_string(), hold.to_string(), number(rev)?)) {
                losers.push(Key::Note(note.key()));
            }
        }
    }
    Ok(losers)
}

fn active(note: &Note, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    Ok(ActiveModel {
        workspace: Set(note.workspace.to_string()),
        hold: Set(note.fact.id.to_string()),
        rev: Set(number(note.fact.rev)?),
        told_rev: Set(number(told_rev(note.id()))?),
        version: Set(number(note.version)?),
        prior_version: Set(number(read)?),
        kind: Set(note.fact.kind.as_str().to_owned()),
        fanning: Set(note.fan != FanOutProgress::Done),
        state: Set(serde_json::to_string(note).map_err(broken)?),
        created_at: Set(now),
        updated_at: Set(now),
    })
}

/// Forgets all that is known of requests.
pub(super) async fn forget(
    db: &impl ConnectionTrait,
    requests: &[Request],
) -> Result<(), StoreError> {
    let of = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    Entity::delete_many()
        .filter(of.in_tuples(requests.iter().cloned()))
        .exec(db)
        .await?;
    Ok(())
}
