//! Table `deliveries`.
#![expect(
    clippy::disallowed_methods,
    reason = "the entity macro generates a nested save that begins"
)]
#![expect(unreachable_pub, reason = "the entity macro wants a public model")]

mod due_now;
mod pages;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{Channel, PendingReason};
use holdpoint_ids::{NotificationId, WebhookId, Workspace};
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, Transaction, guarded, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict};
use sea_orm::{Condition, Order, QueryOrder, QuerySelect};

pub(super) use due_now::{reconsider, retry_webhook};

use super::key_columns::{HoldRow, stored_rev};
use crate::domain::{Delivery, DeliveryKey, DeliveryTarget, Key, Phase, PlannedDelivery};

pub(crate) use pages::{Last, of_request, of_webhook};

const TABLE: &str = "deliveries";
const EMAIL: &str = Channel::Email.as_str();
const CALLBACK: &str = Channel::Callback.as_str();
const WEBHOOK: &str = Channel::Webhook.as_str();
const CHAT: &str = Channel::Chat.as_str();
const DIGEST: &str = Channel::Digest.as_str();

/// The personal channels.
const OF_PEOPLE: [&str; 2] = [EMAIL, CHAT];

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deliveries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub workspace: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hold: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub rev: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub channel: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub target: String,
    pub priority: String,
    pub after: String,
    pub state: String,
    pub attempts: i64,
    pub next_at: Option<DateTimeUtc>,
    pub waits: Option<String>,
    pub last_error: Option<String>,
    pub receipt: Option<String>,
    pub version: i64,
    pub prior_version: i64,
    pub created_at: DateTimeUtc,
    pub updated_at: DateTimeUtc,
}

impl ActiveModelBehavior for ActiveModel {}

fn broken(error: impl std::fmt::Display) -> StoreError {
    StoreError::broken(TABLE, error)
}

fn number(value: u64) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(broken)
}

/// The columns `channel` and `target`.
fn columns_of(to: &DeliveryTarget) -> (&'static str, String) {
    match to {
        DeliveryTarget::Mail(person) => (EMAIL, person.to_string()),
        DeliveryTarget::Callback => (CALLBACK, String::new()),
        DeliveryTarget::Webhook(id) => (WEBHOOK, id.to_string()),
        DeliveryTarget::Chat(person) => (CHAT, person.to_string()),
        DeliveryTarget::Digest(person) => (DIGEST, person.to_string()),
    }
}

type Id = (String, String, i64, String, String);

fn id_of(key: &DeliveryKey) -> Result<Id, StoreError> {
    let (channel, target) = columns_of(&key.to);
    Ok((
        key.workspace.to_string(),
        key.note.hold.to_string(),
        number(stored_rev(key.note))?,
        channel.to_owned(),
        target,
    ))
}

fn key_of(row: &Model) -> Result<DeliveryKey, StoreError> {
    let to = match row.channel.as_str() {
        EMAIL => DeliveryTarget::Mail(row.target.parse().map_err(broken)?),
        CALLBACK => DeliveryTarget::Callback,
        WEBHOOK => DeliveryTarget::Webhook(row.target.parse().map_err(broken)?),
        CHAT => DeliveryTarget::Chat(row.target.parse().map_err(broken)?),
        DIGEST => DeliveryTarget::Digest(row.target.parse().map_err(broken)?),
        other => return Err(broken(format!("channel `{other}`"))),
    };
    let rev = u64::try_from(row.rev).map_err(broken)?;
    Ok(DeliveryKey {
        workspace: row.workspace.parse().map_err(broken)?,
        note: NotificationId {
            hold: row.hold.parse().map_err(broken)?,
            rev: (rev != 0).then_some(rev),
        },
        to,
    })
}

fn read(row: Model) -> Result<Delivery, StoreError> {
    let key = key_of(&row)?;
    let waits = |text: &str| {
        PendingReason::ALL
            .into_iter()
            .find(|one| one.as_str() == text)
    };
    let pending = row.next_at.zip(row.waits.as_deref().and_then(waits));
    let phase = match (row.state.as_str(), pending) {
        ("pending", Some((next_at, waits))) => Phase::Pending { next_at, waits },
        ("sent", None) => Phase::Sent {
            receipt: row.receipt.unwrap_or_default(),
        },
        ("failed", None) => Phase::Failed,
        ("dropped", None) => Phase::Dropped,
        (other, _) => return Err(broken(format!("state `{other}`"))),
    };
    let priority = Priority::ALL
        .into_iter()
        .find(|one| one.as_str() == row.priority);
    Ok(Delivery {
        key,
        priority: priority.ok_or_else(|| broken(format!("priority `{}`", row.priority)))?,
        after: serde_json::from_str(&row.after).map_err(broken)?,
        at: row.created_at,
        changed_at: row.updated_at,
        phase,
        attempts: u32::try_from(row.attempts).map_err(broken)?,
        last_error: row.last_error,
        version: u64::try_from(row.version).map_err(broken)?,
    })
}

fn written_after(after: &[Channel]) -> Result<String, StoreError> {
    serde_json::to_string(after).map_err(broken)
}

pub(super) async fn load(
    db: &impl ConnectionTrait,
    keys: &[&DeliveryKey],
) -> Result<Vec<Delivery>, StoreError> {
    let mut found = Vec::with_capacity(keys.len());
    for chunk in keys.chunks(ROWS_PER_STATEMENT) {
        let mut any = Condition::any();
        for key in chunk {
            let (workspace, hold, rev, channel, target) = id_of(key)?;
            let one = Condition::all()
                .add(COLUMN.workspace.eq(workspace))
                .add(COLUMN.hold.eq(hold))
                .add(COLUMN.rev.eq(rev))
                .add(COLUMN.channel.eq(channel))
                .add(COLUMN.target.eq(target));
            any = any.add(one);
        }
        for row in Entity::find().filter(any).all(db).await? {
            found.push(read(row)?);
        }
    }
    Ok(found)
}

/// The place of a due delivery among those of its target, the longest due first.
const PLACE_AT_TARGET: &str = "row_number() OVER (PARTITION BY workspace, target ORDER BY next_at)";

/// Due deliveries of one channel, except those to busy targets. Each target has its share of the page: the first
/// delivery of every target comes before the second of any. Otherwise a webhook with a long backlog would fill
/// every page.
pub(crate) async fn due(
    db: &impl ConnectionTrait,
    channel: Channel,
    now: DateTime<Utc>,
    busy: &[DeliveryTarget],
    limit: u64,
) -> Result<Vec<DeliveryKey>, StoreError> {
    let rows = Entity::find()
        .filter(
            COLUMN
                .target
                .is_not_in(busy.iter().map(|to| columns_of(to).1)),
        )
        .filter(COLUMN.channel.eq(channel.as_str()))
        .filter(COLUMN.state.eq("pending"))
        .filter(COLUMN.next_at.lte(now))
        .order_by(Expr::cust(PLACE_AT_TARGET), Order::Asc)
        .order_by_asc(Column::NextAt)
        .limit(limit)
        .all(db)
        .await?;
    rows.iter().map(key_of).collect()
}

/// The pending deliveries of webhooks. One grouped query a batch: a query a row would make a full backlog slow.
pub(super) async fn pending_of_webhooks(
    db: &impl ConnectionTrait,
    webhooks: &[WebhookId],
) -> Result<HashMap<String, u64>, StoreError> {
    let mut pending = HashMap::new();
    for chunk in webhooks.chunks(ROWS_PER_STATEMENT) {
        let counts = Entity::find()
            .filter(COLUMN.channel.eq(WEBHOOK))
            .filter(COLUMN.state.eq("pending"))
            .filter(COLUMN.target.is_in(chunk.iter().map(WebhookId::to_string)))
            .select_only()
            .column(Column::Target)
            .column_as(Column::Target.count(), "pending")
            .group_by(Column::Target)
            .into_tuple::<(String, i64)>()
            .all(db)
            .await?;
        for (webhook, count) in counts {
            pending.insert(webhook, u64::try_from(count).map_err(broken)?);
        }
    }
    Ok(pending)
}

/// New deliveries of one notification.
pub(super) struct New<'n> {
    pub(super) workspace: &'n Workspace,
    pub(super) note: NotificationId,
    pub(super) priority: Priority,
    pub(super) to: &'n [PlannedDelivery],
}

/// The people who have a delivery of this notification already, through any channel.
async fn notified(db: &impl ConnectionTrait, new: &New<'_>) -> Result<HashSet<String>, StoreError> {
    let first = new.to.iter().filter(|planned| planned.after.is_empty());
    let people = first.filter_map(|planned| planned.to.person());
    let names: Vec<_> = people.map(|(name, _)| name.as_str()).collect();
    let mut notified = HashSet::new();
    for chunk in names.chunks(ROWS_PER_STATEMENT) {
        let rows = Entity::find()
            .filter(COLUMN.workspace.eq(new.workspace.as_str()))
            .filter(COLUMN.hold.eq(new.note.hold.to_string()))
            .filter(COLUMN.rev.eq(number(stored_rev(new.note))?))
            .filter(COLUMN.channel.is_in(OF_PEOPLE))
            .filter(COLUMN.target.is_in(chunk.iter().copied()))
            .select_only()
            .column(Column::Target)
            .into_tuple::<String>();
        notified.extend(rows.all(db).await?);
    }
    Ok(notified)
}

/// Creates deliveries. One that exists stays as it is, and no person begins with two channels.
pub(super) async fn insert(
    db: &Transaction,
    all: &[New<'_>],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for new in all {
        let notified = notified(db, new).await?;
        let to = new.to.iter().filter(|planned| {
            let begins = planned.after.is_empty();
            let person = planned.to.person().filter(|_| begins);
            person.is_none_or(|(name, _)| !notified.contains(name.as_str()))
        });
        for planned in to {
            rows.push(fresh(new, planned, now)?);
        }
    }
    let keys = [
        Column::Workspace,
        Column::Hold,
        Column::Rev,
        Column::Channel,
        Column::Target,
    ];
    let kept = OnConflict::columns(keys).do_nothing().to_owned();
    insert_rows(db, rows, Some(&kept)).await
}

fn fresh(
    new: &New<'_>,
    planned: &PlannedDelivery,
    now: DateTime<Utc>,
) -> Result<ActiveModel, StoreError> {
    let (channel, target) = columns_of(&planned.to);
    let is_pending = planned.dropped.is_none();
    let state = if is_pending { "pending" } else { "dropped" };
    Ok(ActiveModel {
        workspace: Set(new.workspace.to_string()),
        hold: Set(new.note.hold.to_string()),
        rev: Set(number(stored_rev(new.note))?),
        channel: Set(channel.to_owned()),
        target: Set(target),
        priority: Set(new.priority.as_str().to_owned()),
        after: Set(written_after(&planned.after)?),
        state: Set(state.to_owned()),
        attempts: Set(0),
        next_at: Set(is_pending.then_some(planned.due_at)),
        waits: Set(is_pending.then(|| planned.waits.as_str().to_owned())),
        last_error: Set(planned.dropped.clone()),
        receipt: Set(None),
        version: Set(1),
        prior_version: Set(0),
        created_at: Set(now),
        updated_at: Set(now),
    })
}

/// The chats that received a request are notified of its end, too.
pub(super) async fn notify_chats_of_end(
    db: &Transaction,
    new: &New<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let chats = Entity::find()
        .filter(COLUMN.workspace.eq(new.workspace.as_str()))
        .filter(COLUMN.hold.eq(new.note.hold.to_string()))
        .filter(COLUMN.channel.eq(CHAT))
        .filter(COLUMN.state.eq("sent"))
        .select_only()
        .column(Column::Target)
        .distinct()
        .into_tuple::<String>()
        .all(db)
        .await?;
    let mut to = Vec::with_capacity(chats.len());
    for name in chats {
        let chat = DeliveryTarget::Chat(name.parse().map_err(broken)?);
        to.push(PlannedDelivery::at_once(chat, now));
    }
    let chats = New {
        workspace: new.workspace,
        note: new.note,
        priority: new.priority,
        to: &to,
    };
    insert(db, &[chats], now).await
}

/// Saves states under their guards; returns those that lost.
pub(super) async fn save(
    db: &impl ConnectionTrait,
    deliveries: &[(&Delivery, u64)],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let keys = ["workspace", "hold", "rev", "channel", "target"];
    let columns = [
        "state",
        "attempts",
        "next_at",
        "waits",
        "last_error",
        "receipt",
        "updated_at",
    ];
    let mut losers = Vec::new();
    for chunk in deliveries.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(one, read)| active(one, *read, now));
        let won: HashSet<Id> = Entity::insert_many(rows.collect::<Result<Vec<_>, _>>()?)
            .on_conflict(guarded(TABLE, &keys, &columns))
            .exec_with_returning_keys(db)
            .await?
            .into_iter()
            .collect();
        for (one, _) in chunk {
            if !won.contains(&id_of(&one.key)?) {
                losers.push(Key::Delivery(one.key.clone()));
            }
        }
    }
    Ok(losers)
}

fn active(one: &Delivery, read: u64, now: DateTime<Utc>) -> Result<ActiveModel, StoreError> {
    let (workspace, hold, rev, channel, target) = id_of(&one.key)?;
    let (state, pending, receipt) = match &one.phase {
        Phase::Pending { next_at, waits } => ("pending", Some((*next_at, waits.as_str())), None),
        Phase::Sent { receipt } => ("sent", None, Some(receipt.clone())),
        Phase::Failed => ("failed", None, None),
        Phase::Dropped => ("dropped", None, None),
    };
    Ok(ActiveModel {
        workspace: Set(workspace),
        hold: Set(hold),
        rev: Set(rev),
        channel: Set(channel),
        target: Set(target),
        priority: Set(one.priority.as_str().to_owned()),
        after: Set(written_after(&one.after)?),
        state: Set(state.to_owned()),
        attempts: Set(i64::from(one.attempts)),
        next_at: Set(pending.map(|(next_at, _)| next_at)),
        waits: Set(pending.map(|(_, waits)| waits.to_owned())),
        last_error: Set(one.last_error.clone()),
        receipt: Set(receipt),
        version: Set(number(one.version)?),
        prior_version: Set(number(read)?),
        created_at: Set(now),
        updated_at: Set(now),
    })
}

/// Deletes all deliveries of these holds.
pub(super) async fn delete(db: &impl ConnectionTrait, holds: &[HoldRow]) -> Result<(), StoreError> {
    let of = Expr::tuple([Expr::col(Column::Workspace), Expr::col(Column::Hold)]);
    Entity::delete_many()
        .filter(of.in_tuples(holds.iter().cloned()))
        .exec(db)
        .await?;
    Ok(())
}

/// When the digest before this one was created.
pub(crate) async fn last_digest(
    db: &impl ConnectionTrait,
    key: &DeliveryKey,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let (workspace, hold, rev, channel, target) = id_of(key)?;
    let last = Entity::find()
        .filter(COLUMN.workspace.eq(workspace))
        .filter(COLUMN.hold.eq(hold))
        .filter(COLUMN.rev.lt(rev))
        .filter(COLUMN.channel.eq(channel))
        .filter(COLUMN.target.eq(target))
        .order_by_desc(Column::Rev)
        .one(db)
        .await?;
    Ok(last.map(|row| row.created_at))
}

/// Whether a digest ended before an instant.
pub(super) async fn has_expired_digest(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let old = Entity::find()
        .filter(COLUMN.channel.eq(DIGEST))
        .filter(COLUMN.updated_at.lt(before))
        .filter(COLUMN.state.ne("pending"))
        .one(db)
        .await?;
    Ok(old.is_some())
}

/// Deletes digests that ended before an instant.
pub(super) async fn delete_expired_digests(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    Entity::delete_many()
        .filter(COLUMN.channel.eq(DIGEST))
        .filter(COLUMN.updated_at.lt(before))
        .filter(COLUMN.state.ne("pending"))
        .exec(db)
        .await?;
    Ok(())
}
