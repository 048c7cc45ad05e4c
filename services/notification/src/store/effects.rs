//! What a commit stores beside the states: events, inbox entries and deliveries.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{StateRow as _, StoreError, Transaction};
use holdpoint_user_directory::table as people;

use super::delivery_row::{self, WaitingFor, make_due};
use super::inbox_entry_row::{self, ChangedAt};
use super::{change_row, erasure, event_row, retention};
use crate::domain::Effect;

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
    insert(db, effects, &seqs, now).await?;
    let mut ended: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    let mut erased: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
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
                delivery_row::notify_chats_of_end(db, workspace, *id, *priority, now).await?;
            }
            Effect::Reconsider { workspace, person } => {
                make_due(db, workspace, WaitingFor::Person(person), now).await?;
            }
            Effect::RetryWebhook { workspace, id } => {
                make_due(db, workspace, WaitingFor::Webhook(*id), now).await?;
            }
            Effect::EraseHold { workspace, hold } => {
                erased.entry(workspace).or_default().push(*hold);
            }
            Effect::DeleteExpired { before } => retention::delete_expired(db, *before).await?,
            Effect::Users(changes) => people::apply(db, changes).await?,
            Effect::AddInboxEntries(_)
            | Effect::StoreEvent(_)
            | Effect::Deliver(_)
            | Effect::ReadEntry { .. }
            | Effect::ReadAllEntries { .. }
            | Effect::ContinueFanOut
            | Effect::WatchRunEnds { .. }
            | Effect::Send { .. } => {}
        }
    }
    for (workspace, holds) in erased {
        erasure::erase(db, workspace, &holds, now).await?;
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

/// Inserts new rows: one statement a table.
async fn insert(
    db: &Transaction,
    effects: &[Effect],
    seqs: &Seqs<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (mut events, mut entries, mut deliveries) = (Vec::new(), Vec::new(), Vec::new());
    for effect in effects {
        if let Effect::StoreEvent(event) = effect {
            events.push((**event).clone());
        } else if let Effect::AddInboxEntries(new) = effect {
            entries.push((new, changed_at(seqs, &new.workspace, new.at).seq));
        } else if let Effect::Deliver(new) = effect {
            deliveries.push(new);
        }
    }
    event_row::Entity::add(db, &events, now).await?;
    inbox_entry_row::insert(db, &entries).await?;
    delivery_row::insert(db, &deliveries, now).await
}
