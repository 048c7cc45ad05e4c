//! Table `notification_events`: one row an event, with the progress of its fan-out.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::notification::{ContactEventKind, RequestEventKind};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StateRow, StoreError, StoredState};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, Query, SelectStatement};
use sea_orm::{QueryOrder, QuerySelect};

use super::key_columns::{number, stored_rev};
use crate::domain::{EventKey, NotificationEvent, PAGE, RequestLifecycle, Subject};

/// The kinds of events that are not request events.
pub(super) const RUN_END: &str = "run_end";
pub(super) const SYSTEM: &str = "system";

/// Events that may be very many at once. With bound values SQLite would prepare the statement anew for each call, because
/// an index may have a part of the kinds only.
pub(super) const BULK: &str = "kind IN ('run_end','new_lead','deal_won','deal_lost')";

/// The events that begin and end a request, as literals for the same reason.
pub(super) const OF_LIFECYCLES: &str =
    "kind IN ('opened','taken_over','decided','expired','withdrawn')";

/// The kinds of [`OF_LIFECYCLES`].
pub(super) const LIFECYCLE: [RequestEventKind; 5] = [
    RequestEventKind::Opened,
    RequestEventKind::TakenOver,
    RequestEventKind::Decided,
    RequestEventKind::Expired,
    RequestEventKind::Withdrawn,
];

/// The kinds of contact events that users are notified of, in the words of their index.
pub(super) const OF_CONTACTS: &str = "kind IN ('new_lead','deal_won','deal_lost')";

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
    /// The request whose notification this event replaces.
    pub notified_for: Option<String>,
    pub state: String,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

impl StateRow for Entity {
    type State = NotificationEvent;

    const CONSTANT: &'static [Column] = &[
        Column::NotificationRev,
        Column::Kind,
        Column::NotifiedFor,
        Column::CreatedAt,
    ];

    fn state(row: &Model) -> &str {
        &row.state
    }

    fn version(event: &NotificationEvent) -> u64 {
        event.version
    }

    fn row(event: &NotificationEvent, stored: StoredState) -> Result<ActiveModel, StoreError> {
        let (workspace, hold, rev) = row_key(&event.key())?;
        let kind = match &event.subject {
            Subject::Request { event, .. } => event.kind.as_str(),
            Subject::RunEnd(_) => RUN_END,
            Subject::Contact { event, .. } => event.kind.as_str(),
            Subject::System(_) => SYSTEM,
        };
        Ok(ActiveModel {
            workspace: Set(workspace),
            hold: Set(hold),
            rev: Set(rev),
            notification_rev: Set(number::<Self>(stored_rev(event.id()))?),
            version: Set(stored.version),
            prior_version: Set(stored.prior_version),
            kind: Set(kind.to_owned()),
            fanning: Set(event.fan_out.is_pending()),
            notified_for: Set(event.notified_for().map(|hold| hold.to_string())),
            state: Set(stored.state),
            created_at: Set(stored.now),
            updated_at: Set(stored.now),
        })
    }
}

pub(super) fn row_key(key: &EventKey) -> Result<(String, String, i64), StoreError> {
    let rev = number::<Entity>(key.rev)?;
    Ok((key.workspace.to_string(), key.hold.to_string(), rev))
}

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
        for row in &rows {
            events.push(Entity::read(row)?);
        }
    }
    Ok(events)
}

/// When requests were opened, taken over and ended.
pub(super) async fn lifecycles(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<BTreeMap<HoldId, RequestLifecycle>, StoreError> {
    let mut found: BTreeMap<HoldId, RequestLifecycle> = BTreeMap::new();
    for chunk in holds.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(workspace.as_str()))
            .filter(COLUMN.hold.is_in(chunk.iter().map(HoldId::to_string)))
            .filter(Expr::cust(OF_LIFECYCLES))
            .select_only()
            .columns([Column::Hold, Column::Kind, Column::Rev])
            .into_tuple::<(String, String, i64)>()
            .all(db)
            .await?;
        for (hold, kind, rev) in rows {
            let kind = LIFECYCLE.into_iter().find(|one| one.as_str() == kind);
            let kind = kind.ok_or_else(|| Entity::broken("a kind that was not requested"))?;
            let lifecycle = found
                .entry(hold.parse().map_err(Entity::broken)?)
                .or_default();
            lifecycle.record(kind, u64::try_from(rev).map_err(Entity::broken)?);
        }
        for (covered, by) in notified_for(db, workspace, chunk).await? {
            let lifecycle = found.entry(covered).or_default();
            lifecycle.notified_by = lifecycle.notified_by.max(Some(by));
        }
    }
    Ok(found)
}

/// Requests whose notification another request of the same fan-out replaces, and that request.
async fn notified_for(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    holds: &[HoldId],
) -> Result<Vec<(HoldId, HoldId)>, StoreError> {
    let rows = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(
            COLUMN
                .notified_for
                .is_in(holds.iter().map(HoldId::to_string)),
        )
        .select_only()
        .columns([Column::NotifiedFor, Column::Hold])
        .into_tuple::<(String, String)>()
        .all(db)
        .await?;
    let read = |hold: String| hold.parse().map_err(Entity::broken);
    let pair = |(covered, by)| Ok((read(covered)?, read(by)?));
    rows.into_iter().map(pair).collect()
}

/// The number of the newest erasure of a contact.
pub(super) async fn last_erasure(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    hold: HoldId,
) -> Result<Option<u64>, StoreError> {
    let newest = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.hold.eq(hold.to_string()))
        .filter(COLUMN.kind.eq(ContactEventKind::ContactErased.as_str()))
        .order_by_desc(Column::Rev)
        .select_only()
        .column(Column::Rev)
        .into_tuple::<i64>()
        .one(db)
        .await?;
    let number = newest.map(u64::try_from).transpose();
    number.map_err(Entity::broken)
}

/// The number of contact events of a kind since an instant, counted up to a bound.
pub(super) async fn contact_events(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    kind: ContactEventKind,
    since: DateTime<Utc>,
    most: u64,
) -> Result<u64, StoreError> {
    let found = Entity::find()
        .filter(Expr::cust(OF_CONTACTS))
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.kind.eq(kind.as_str()))
        .filter(COLUMN.created_at.gte(since))
        .select_only()
        .column(Column::Rev)
        .limit(most)
        .into_tuple::<i64>()
        .all(db)
        .await?;
    u64::try_from(found.len()).map_err(Entity::broken)
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

/// The mention of an inbox entry, if it is of one.
pub(super) fn mentions() -> SelectStatement {
    of_entry()
        .and_where(COLUMN.kind.eq(RequestEventKind::Mentioned.as_str()))
        .to_owned()
}

/// The event of an inbox entry, if it is a run end or an event of a contact.
pub(super) fn bulk_events() -> SelectStatement {
    of_entry().and_where(Expr::cust(BULK)).to_owned()
}

/// The event of an inbox entry. The number of its notification is the version of the event, but for the first opening of
/// a request.
fn of_entry() -> SelectStatement {
    let is_same = "notification_events.workspace = inbox_entries.workspace \
        AND notification_events.hold = inbox_entries.hold AND notification_events.rev = inbox_entries.rev";
    Query::select()
        .expr(Expr::val(1))
        .from(Entity)
        .and_where(Expr::cust(is_same))
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

/// The oldest bulk events, or the oldest other events, whose fan-out is pending, after so many older ones. With the
/// number of people whom the next page of each may notify.
pub(super) async fn fanning(
    db: &impl ConnectionTrait,
    are_bulk: bool,
    skipped: u64,
    limit: u64,
) -> Result<Vec<(EventKey, usize)>, StoreError> {
    let rows = Entity::find()
        // In the words of its index.
        .filter(Expr::col(Column::Fanning))
        .filter(if are_bulk {
            Expr::cust(BULK)
        } else {
            Expr::cust(BULK).not()
        })
        .order_by_asc(Column::CreatedAt)
        .offset(skipped)
        .limit(limit)
        .all(db)
        .await?;
    let event = |row: &Model| {
        let key = EventKey {
            workspace: row.workspace.parse().map_err(Entity::broken)?,
            hold: row.hold.parse().map_err(Entity::broken)?,
            rev: u64::try_from(row.rev).map_err(Entity::broken)?,
        };
        // The decision reports a state that cannot be read.
        let event = Entity::read(row).ok();
        let most = event.map(|event| event.fan_out.most_people(PAGE));
        Ok((key, most.unwrap_or_default()))
    };
    rows.iter().map(event).collect()
}

/// Recipients whom the events of one pass may notify, all in one commit. One event may always have a page of its own.
const PEOPLE_MAX: usize = 4 * PAGE;

/// Selects events whose fan-out is pending. Half of them are the oldest, so that a fan-out of many pages ends
/// however many events follow. The other half rotates, so that events that cannot be decided block no other.
///
/// Bulk events and other events have a queue each: a thousand runs that end at once must not delay an approval.
#[derive(Debug)]
pub(crate) struct FairQueue {
    are_bulk: bool,
    /// How many events are older than the next one of the rotating half.
    skipped: u64,
}

impl FairQueue {
    pub(crate) const fn new(are_bulk: bool) -> Self {
        Self {
            are_bulk,
            skipped: 0,
        }
    }

    /// The next events, which may notify at most [`PEOPLE_MAX`] recipients. Empty: no fan-out is pending.
    pub(crate) async fn next(
        &mut self,
        db: &impl ConnectionTrait,
        limit: u64,
    ) -> Result<Vec<EventKey>, StoreError> {
        let half = limit.div_ceil(2);
        let oldest = fanning(db, self.are_bulk, 0, half).await?;
        let mut others = Vec::new();
        for skipped in [Ord::max(self.skipped, half), half] {
            if others.is_empty() && oldest.len() as u64 == half {
                others = fanning(db, self.are_bulk, skipped, limit - half).await?;
                self.skipped = skipped;
            }
        }
        let oldest = oldest.into_iter().map(|event| (event, 0)).enumerate();
        let others = others.into_iter().map(|event| (event, 1)).enumerate();
        // One of each in turn, so that a pass that ends early has both.
        let mut turns: Vec<_> = oldest.chain(others).collect();
        turns.sort_by_key(|(turn, _)| *turn);
        let (mut next, mut people) = (Vec::new(), 0);
        for (_, ((key, most), rotates)) in turns {
            people += most;
            if people > PEOPLE_MAX && !next.is_empty() {
                break;
            }
            next.push(key);
            self.skipped += rotates;
        }
        Ok(next)
    }
}
