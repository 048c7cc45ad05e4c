//! Table `deliveries`.

mod due_now;
mod pages;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{Channel, PendingReason};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};
use holdpoint_store::{
    BrokenRow as _, ColumnRow, KeyOf, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows,
};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait as _, OnConflict};
use sea_orm::{Condition, Iterable as _, QueryOrder, QuerySelect};

use super::key_columns::{number, stored_rev};
use crate::domain::{Delivery, DeliveryKey, DeliveryTarget, NewDeliveries, Phase, PlannedDelivery};

pub(super) use due_now::{WaitingFor, make_due};

pub(crate) use pages::{Last, of_request, of_webhook};

const EMAIL: &str = Channel::Email.as_str();
const CALLBACK: &str = Channel::Callback.as_str();
const WEBHOOK: &str = Channel::Webhook.as_str();
const CHAT: &str = Channel::Chat.as_str();
const DIGEST: &str = Channel::Digest.as_str();

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

pub(super) fn row_key(key: &DeliveryKey) -> Result<KeyOf<Entity>, StoreError> {
    let (channel, target) = columns_of(&key.to);
    Ok((
        key.workspace.to_string(),
        key.note.hold.to_string(),
        number::<Entity>(stored_rev(key.note))?,
        channel.to_owned(),
        target,
    ))
}

fn key_of(row: &Model) -> Result<DeliveryKey, StoreError> {
    let target = &row.target;
    let to = match row.channel.as_str() {
        EMAIL => DeliveryTarget::Mail(target.parse().map_err(Entity::broken)?),
        CALLBACK => DeliveryTarget::Callback,
        WEBHOOK => DeliveryTarget::Webhook(target.parse().map_err(Entity::broken)?),
        CHAT => DeliveryTarget::Chat(target.parse().map_err(Entity::broken)?),
        DIGEST => DeliveryTarget::Digest(target.parse().map_err(Entity::broken)?),
        other => return Err(Entity::broken(format!("channel `{other}`"))),
    };
    let rev = u64::try_from(row.rev).map_err(Entity::broken)?;
    Ok(DeliveryKey {
        workspace: row.workspace.parse().map_err(Entity::broken)?,
        note: NotificationId {
            hold: row.hold.parse().map_err(Entity::broken)?,
            rev: (rev != 0).then_some(rev),
        },
        to,
    })
}

impl ColumnRow for Entity {
    type State = Delivery;

    const CONSTANT: &'static [Column] = &[Column::Priority, Column::After, Column::CreatedAt];

    fn read(row: Model) -> Result<Delivery, StoreError> {
        let key = key_of(&row)?;
        let waits: Option<PendingReason> = row.waits.map(Self::word).transpose()?;
        let pending = row.next_at.zip(waits);
        let phase = match (row.state.as_str(), pending) {
            ("pending", Some((next_at, waits))) => Phase::Pending { next_at, waits },
            ("sent", None) => Phase::Sent {
                receipt: row.receipt.unwrap_or_default(),
            },
            ("failed", None) => Phase::Failed,
            ("dropped", None) => Phase::Dropped,
            (other, _) => return Err(Self::broken(format!("state `{other}`"))),
        };
        Ok(Delivery {
            key,
            priority: Self::word(row.priority)?,
            after: serde_json::from_str(&row.after).map_err(Self::broken)?,
            at: row.created_at,
            changed_at: row.updated_at,
            phase,
            attempts: u32::try_from(row.attempts).map_err(Self::broken)?,
            last_error: row.last_error,
            version: u64::try_from(row.version).map_err(Self::broken)?,
        })
    }

    fn row(
        delivery: &Delivery,
        prior_version: i64,
        now: DateTime<Utc>,
    ) -> Result<ActiveModel, StoreError> {
        let (workspace, hold, rev, channel, target) = row_key(&delivery.key)?;
        let state: &'static str = (&delivery.phase).into();
        let view = delivery.view();
        Ok(ActiveModel {
            workspace: Set(workspace),
            hold: Set(hold),
            rev: Set(rev),
            channel: Set(channel),
            target: Set(target),
            priority: Set(delivery.priority.as_str().to_owned()),
            after: Set(serde_json::to_string(&view.after).map_err(Self::broken)?),
            state: Set(state.to_owned()),
            attempts: Set(i64::from(view.attempts)),
            next_at: Set(view.next_at),
            waits: Set(view.waits.map(|waits| waits.as_str().to_owned())),
            last_error: Set(view.last_error),
            receipt: Set(view.receipt),
            version: Set(number::<Self>(delivery.version)?),
            prior_version: Set(prior_version),
            created_at: Set(now),
            updated_at: Set(now),
        })
    }
}

/// A word of an index in the statement itself. With a bound value SQLite would prepare the statement anew for each call.
fn literal(word: &'static str) -> Expr {
    Expr::cust(format!("'{word}'"))
}

/// Whether a delivery of one of the channels is due.
pub(crate) async fn any_due(
    db: &impl ConnectionTrait,
    channels: &[Channel],
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let channels = channels.iter().map(|channel| literal(channel.as_str()));
    let found: Option<String> = Entity::find()
        .select_only()
        .column(Column::Hold)
        .filter(Expr::col(Column::Channel).is_in(channels))
        .filter(Expr::col(Column::State).eq(literal("pending")))
        .filter(COLUMN.next_at.lte(now))
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.is_some())
}

/// Due deliveries of one channel, the longest due first, except those to busy targets.
pub(crate) async fn due(
    db: &impl ConnectionTrait,
    channel: Channel,
    now: DateTime<Utc>,
    busy: &[(Workspace, DeliveryTarget)],
    limit: u64,
) -> Result<Vec<DeliveryKey>, StoreError> {
    let is_busy = busy.iter().fold(Condition::any(), |any, (workspace, to)| {
        let target = COLUMN.target.eq(columns_of(to).1);
        any.add(COLUMN.workspace.eq(workspace.as_str()).and(target))
    });
    let query = if busy.is_empty() {
        Entity::find()
    } else {
        Entity::find().filter(is_busy.not())
    };
    let rows = query
        .filter(Expr::col(Column::Channel).eq(literal(channel.as_str())))
        .filter(Expr::col(Column::State).eq(literal("pending")))
        .filter(COLUMN.next_at.lte(now))
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
            pending.insert(webhook, u64::try_from(count).map_err(Entity::broken)?);
        }
    }
    Ok(pending)
}

/// The deliveries of people who begin with one of these and have one of the same notification already, through any
/// channel.
async fn existing(db: &Transaction, all: &[&NewDeliveries]) -> Result<Vec<Delivery>, StoreError> {
    let mut keys = Vec::new();
    for new in all {
        for name in new.to.iter().filter_map(beginner) {
            for to in [DeliveryTarget::Mail, DeliveryTarget::Chat] {
                keys.push(row_key(&DeliveryKey {
                    workspace: new.workspace.clone(),
                    note: new.id,
                    to: to(name.clone()),
                })?);
            }
        }
    }
    Entity::load_states(db, &keys).await
}

/// The person who begins with this delivery.
fn beginner(planned: &PlannedDelivery) -> Option<&UserName> {
    let (name, _) = planned.to.person().filter(|_| planned.after.is_empty())?;
    Some(name)
}

/// Creates deliveries. One that exists stays as it is, and no person begins with two channels.
pub(super) async fn insert(
    db: &Transaction,
    all: &[&NewDeliveries],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let existing = existing(db, all).await?;
    let notified = existing.iter().filter_map(|delivery| {
        let DeliveryKey {
            workspace,
            note,
            to,
        } = &delivery.key;
        Some((workspace, *note, to.person()?.0))
    });
    let notified: HashSet<_> = notified.collect();
    let mut rows = Vec::new();
    for new in all {
        let is_notified = |name| notified.contains(&(&new.workspace, new.id, name));
        for planned in &new.to {
            if !beginner(planned).is_some_and(is_notified) {
                rows.push(Entity::row(&new.delivery(planned, now), 0, now)?);
            }
        }
    }
    let keys = PrimaryKey::iter().map(PrimaryKeyToColumn::into_column);
    let kept = OnConflict::columns(keys).do_nothing().to_owned();
    insert_rows(db, rows, Some(&kept)).await
}

/// The chats that received a request are notified of its end, too.
pub(super) async fn notify_chats_of_end(
    db: &Transaction,
    workspace: &Workspace,
    id: NotificationId,
    priority: Priority,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let chats = Entity::find()
        .filter(COLUMN.workspace.eq(workspace.as_str()))
        .filter(COLUMN.hold.eq(id.hold.to_string()))
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
        let chat = DeliveryTarget::Chat(name.parse().map_err(Entity::broken)?);
        to.push(PlannedDelivery::at_once(chat, now));
    }
    let chats = NewDeliveries {
        workspace: workspace.clone(),
        id,
        priority,
        to,
    };
    insert(db, &[&chats], now).await
}

/// When the digest before this one was created.
pub(crate) async fn last_digest(
    db: &impl ConnectionTrait,
    key: &DeliveryKey,
) -> Result<Option<DateTime<Utc>>, StoreError> {
    let (workspace, hold, rev, channel, target) = row_key(key)?;
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

/// Digests that ended before an instant.
fn is_expired_digest(before: DateTime<Utc>) -> Condition {
    Condition::all()
        .add(COLUMN.channel.eq(DIGEST))
        .add(COLUMN.updated_at.lt(before))
        .add(COLUMN.state.ne("pending"))
}

pub(super) async fn has_expired_digest(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let expired = Entity::find().filter(is_expired_digest(before));
    Ok(expired.one(db).await?.is_some())
}

pub(super) async fn delete_expired_digests(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<(), StoreError> {
    let expired = Entity::delete_many().filter(is_expired_digest(before));
    expired.exec(db).await?;
    Ok(())
}
