//! Table `notification_events`: one row an event, with the progress of its fan-out.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, Transaction, guarded, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict, Query, SelectStatement};
use sea_orm::{Condition, QueryOrder, QuerySelect};

use super::key_columns::{HoldRow, stored_rev};
use crate::domain::{EventKey, Key, NotificationEvent, RequestLifecycle, Subject};

const TABLE: &str = "notification_events";

/// The kinds of events that are not request events.
pub(super) const RUN_END: &str = "run_end";
pub(super) const SYSTEM: &str = "system";

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notification_events")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hold: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    /// The number in the notification's id.
    pub notification_rev: i64,
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

fn number(rev: u64) -> Result<i64, StoreError> {
    i64::try_from(rev).map_err(broken)
}

fn read_all(rows: &[Model]) -> Result<Vec<NotificationEvent>, StoreError> {
    let read = |row: &Model| serde_json::from_str(&row.state).map_err(broken);
    rows.iter().map(read).collect()
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    keys: &[&EventKey],
) -> Result<Vec<NotificationEvent>, StoreError> {
    let mut events = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for key in chunk {
            let one = Condition::all()
                .add(COLUMN.workspace.eq(key.workspace.as_str()))
                .add(COLUMN.hold.eq(key.hold.to_string()))
                .add(COLUMN.rev.eq(number(key.rev)?));
            any = any.add(one);
        }
        events.extend(read_all(&Entity::find().filter(any).all(db).await?)?);
    }
    Ok(events)
}

/// All events of these holds.
pub(super) async fn of_holds(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<Vec<NotificationEvent>, StoreError> {
    let mut events = Vec::new();
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .all(db)
            .await?;
        events.extend(read_all(&rows)?);
    }
    Ok(events)
}

/// When requests were opened, taken over and ended.
pub(super) async fn lifecycles(
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
            let kind = kind.ok_or_else(|| broken("a kind that was not requested"))?;
            let lifecycle = found.entry(hold.parse().map_err(broken)?).or_default();
            lifecycle.record(kind, u64::try_from(rev).map_err(broken)?);
        }
    }
    Ok(found)
}

/// The versions of a request at which people were reminded of it.
pub(super) fn reminders(workspace: &Workspace, hold: HoldId) -> SelectStatement {
    Query::select()
        .column(Column::Rev)
        .from(Entity)
        .and_where(COLUMN.workspace.eq(workspace.as_str()))
        .and_where(COLUMN.hold.eq(hold.to_string()))
        .and_where(COLUMN.kind.eq(RequestEventKind::Escalated.as_str()))
        .to_owned()
}

/// Whether the run of a watch has ended. The hold id of a run end contains the id of the run.
pub(super) fn end_of_watched_run() -> SelectStatement {
    let is_same_workspace = "notification_events.workspace = watches.workspace";
    let is_same_run = "notification_events.hold = 'hold_' || substr(watches.target, 5) || '-0'";
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(Expr::cust(is_same_workspace))
        .and_where(Expr::cust(is_same_run))
        .to_owned()
}

/// The oldest run ends, or the oldest other events, whose fan-out is pending, after so many older ones.
pub(super) async fn fanning(
    db: &impl ConnectionTrait,
    are_run_ends: bool,
    skipped: u64,
    limit: u64,
) -> Result<Vec<EventKey>, StoreError> {
    let rows = Entity::find()
        // In the words of its index.
        .filter(Expr::col(Column::Fanning))
        .filter(if are_run_ends {
            COLUMN.kind.eq(RUN_END)
        } else {
            COLUMN.kind.ne(RUN_END)
        })
        .order_by_asc(Column::CreatedAt)
        .offset(skipped)
        .limit(limit)
        .select_only()
        .column(Column::Workspace)
        .column(Column::Hold)
        .column(Column::Rev)
        .into_tuple::<(String, String, i64)>()
        .all(db)
        .await?;
    let key = |(workspace, hold, rev): (String, String, i64)| {
        Ok(EventKey {
            workspace: workspace.parse().map_err(broken)?,
            hold: hold.parse().map_err(broken)?,
            rev: u64::try_from(rev).map_err(broken)?,
        })
    };
    rows.into_iter().map(key).collect()
}

/// Saves events whose rows have the version that was read. Returns the keys of the others.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    events: &[(&NotificationEvent, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let columns = ["fanning", "state", "updated_at"];
    let mut losers = Vec::new();
    for chunk in events.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(event, read)| active(event, *read, now));
        let won: HashSet<(String, String, i64)> =
            Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
                .on_conflict(guarded(TABLE, &["workspace", "hold", "rev"], &columns))
                .exec_with_returning_keys(db)
                .await?
                .into_iter()
                .collect();
        for (event, _) in chunk {
            let key = event.key();
            let row = (
                key.workspace.to_string(),
                key.hold.to_string(),
                number(key.rev)?,
            );
            if !won.contains(&row) {
                losers.push(Key::Event(key));
            }
        }
    }
    Ok(losers)
}

/// Stores new events. One that exists stays as it is.
pub(super) async fn insert(
    db: &Transaction,
    new: &[&NotificationEvent],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let rows = new.iter().map(|event| active(event, 0, now));
    let key = [Column::Workspace, Column::Hold, Column::Rev];
    let kept = OnConflict::columns(key).do_nothing().to_owned();
    insert_rows(db, rows.collect::<Result<Vec<_>, _>>()?, Some(&kept)).await
}

fn active(
    event: &NotificationEvent,
    read: u64,
    now: DateTime<Utc>,
) -> Result<ActiveModel, StoreError> {
    let EventKey {
        workspace,
        hold,
        rev,
    } = event.key();
    let kind = match &event.subject {
        Subject::Request { event, .. } => event.kind.as_str(),
        Subject::RunEnd(_) => RUN_END,
        Subject::System(_) => SYSTEM,
    };
    Ok(ActiveModel {
        workspace: Set(workspace.to_string()),
        hold: Set(hold.to_string()),
        rev: Set(number(rev)?),
        notification_rev: Set(number(stored_rev(event.id()))?),
        version: Set(number(event.version)?),
        prior_version: Set(number(read)?),
        kind: Set(kind.to_owned()),
        fanning: Set(event.fan_out.is_pending()),
        state: Set(serde_json::to_string(event).map_err(broken)?),
        created_at: Set(now),
        updated_at: Set(now),
    })
}

/// Deletes all events of these holds.
pub(super) async fn delete(db: &impl ConnectionTrait, holds: &[HoldRow]) -> Result<(), StoreError> {
    let of = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    Entity::delete_many()
        .filter(of.in_tuples(holds.iter().cloned()))
        .exec(db)
        .await?;
    Ok(())
}
