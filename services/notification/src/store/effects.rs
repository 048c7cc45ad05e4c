//! What a commit stores beside the states: events, inbox entries and deliveries.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{StoreError, Transaction};
use holdpoint_user_directory::table as people;

use super::inbox_entry_row::{self, ChangedAt, NewEntries};
use super::{change_row, delivery_row, event_row, retention};
use crate::domain::{Effect, NotificationEvent};

/// The number of this commit in each workspace whose inboxes it changes.
type Seqs<'e> = BTreeMap<&'e Workspace, i64>;

/// Stores what belongs beside the states. Entries that people read come first: new ones of this commit stay
/// unread. What depends on new rows comes last.
pub(super) async fn record(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let changing = effects.iter().filter_map(Effect::changed_inboxes);
    let changing: BTreeSet<&Workspace> = changing.map(|(workspace, _)| workspace).collect();
    let seqs = change_row::next(db, &changing).await?;
    for effect in effects {
        mark_read(db, effect, &seqs, now).await?;
    }
    New::of(effects, &seqs).insert(db, now).await?;
    let mut ended: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::ReadRequestEntries { workspace, hold } => {
                ended.entry(workspace).or_default().push(*hold);
            }
            Effect::NotifyChatsOfEnd {
                workspace,
                id,
                priority,
            } => {
                let new = delivery_row::New {
                    workspace,
                    note: *id,
                    priority: *priority,
                    to: &[],
                };
                delivery_row::notify_chats_of_end(db, &new, now).await?;
            }
            Effect::Reconsider { workspace, person } => {
                delivery_row::reconsider(db, workspace, person, now).await?;
            }
            Effect::RetryWebhook { workspace, id } => {
                delivery_row::retry_webhook(db, workspace, *id, now).await?;
            }
            Effect::DeleteExpired { before } => retention::delete_expired(db, *before).await?,
            Effect::Users(changes) => people::apply(db, changes).await?,
            Effect::AddInboxEntries { .. }
            | Effect::StoreEvent(_)
            | Effect::Deliver { .. }
            | Effect::ReadEntry { .. }
            | Effect::ReadAllEntries { .. }
            | Effect::ContinueFanOut
            | Effect::WatchRunEnds { .. }
            | Effect::Send { .. } => {}
        }
    }
    for (workspace, holds) in ended {
        let changed = changed_at(&seqs, workspace, now);
        inbox_entry_row::read_holds(db, workspace, &holds, changed).await?;
    }
    Ok(())
}

fn changed_at(seqs: &Seqs<'_>, workspace: &Workspace, at: DateTime<Utc>) -> ChangedAt {
    let seq = seqs.get(workspace).copied().unwrap_or_default();
    ChangedAt { at, seq }
}

/// Marks one entry, or all entries that existed before this commit.
async fn mark_read(
    db: &Transaction,
    effect: &Effect,
    seqs: &Seqs<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    if let Effect::ReadEntry {
        workspace,
        person,
        id,
    } = effect
    {
        let changed = changed_at(seqs, workspace, now);
        return inbox_entry_row::read(db, workspace, person, *id, changed).await;
    }
    if let Effect::ReadAllEntries {
        workspace,
        person,
        until,
    } = effect
    {
        let changed = changed_at(seqs, workspace, now);
        return inbox_entry_row::read_all(db, workspace, person, *until, changed).await;
    }
    Ok(())
}

/// New rows: one statement a table.
#[derive(Default)]
struct New<'e> {
    events: Vec<&'e NotificationEvent>,
    entries: Vec<NewEntries<'e>>,
    deliveries: Vec<delivery_row::New<'e>>,
}

impl<'e> New<'e> {
    fn of(effects: &'e [Effect], seqs: &Seqs<'_>) -> Self {
        let mut new = Self::default();
        for effect in effects {
            if let Effect::StoreEvent(event) = effect {
                new.events.push(event);
            } else if let Effect::AddInboxEntries {
                workspace,
                id,
                people,
                at,
                read_at,
                watching,
                renews,
            } = effect
            {
                new.entries.push(NewEntries {
                    workspace,
                    id: *id,
                    at: *at,
                    read_at: *read_at,
                    watching: *watching,
                    renews: *renews,
                    seq: changed_at(seqs, workspace, *at).seq,
                    people,
                });
            } else if let Effect::Deliver {
                workspace,
                id,
                priority,
                to,
            } = effect
            {
                new.deliveries.push(delivery_row::New {
                    workspace,
                    note: *id,
                    priority: *priority,
                    to,
                });
            }
        }
        new
    }

    async fn insert(&self, db: &Transaction, now: DateTime<Utc>) -> Result<(), StoreError> {
        event_row::insert(db, &self.events, now).await?;
        inbox_entry_row::insert(db, &self.entries).await?;
        delivery_row::insert(db, &self.deliveries, now).await
    }
}
