//! What a commit stores beside the states: copies and what became of them, and what is to leave.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, UserName, Workspace};
use holdpoint_people::table as people;
use holdpoint_store::{StoreError, Transaction};

use super::{change_row, copy_row, delivery_row, notice_row, old};
use crate::domain::{Effect, Notice};

/// Stores what belongs beside the states.
pub(crate) async fn record(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let changing: BTreeSet<&Workspace> = effects.iter().filter_map(changes).collect();
    let seqs = change_row::next(db, &changing).await?;
    let seq = |workspace| seqs.get(workspace).copied().unwrap_or_default();
    let mut ended: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::Copies {
                workspace,
                id,
                people,
                at,
                read_at,
                watching,
            } => {
                let copies = copy_row::Copies {
                    workspace,
                    id: *id,
                    at: *at,
                    read_at: *read_at,
                    watching: *watching,
                    seq: seq(workspace),
                };
                copy_row::insert(db, &copies, people).await?;
            }
            Effect::Notice {
                workspace,
                notice,
                people,
            } => tell(db, (workspace, seq(workspace)), (notice, people), now).await?,
            Effect::Read {
                workspace,
                person,
                id,
            } => copy_row::read(db, (workspace, person, *id), (now, seq(workspace))).await?,
            Effect::ReadAll {
                workspace,
                person,
                until,
            } => {
                copy_row::read_all(db, (workspace, person, *until), (now, seq(workspace))).await?;
            }
            Effect::Settle { workspace, hold } => ended.entry(workspace).or_default().push(*hold),
            Effect::Forget { before } => old::forget(db, *before).await?,
            Effect::Users(facts) => people::apply(db, facts).await?,
            Effect::Deliver { .. } | Effect::FollowUp { .. } | Effect::Reconsider { .. } => {
                post(db, effect, now).await?;
            }
            Effect::More | Effect::WatchEnds { .. } | Effect::Send { .. } => {}
        }
    }
    for (workspace, holds) in ended {
        copy_row::settle(db, (workspace, &holds), (now, seq(workspace))).await?;
    }
    Ok(())
}

/// The workspace whose notifications are not as they were.
fn changes(effect: &Effect) -> Option<&Workspace> {
    match effect {
        Effect::Copies { workspace, .. }
        | Effect::Notice { workspace, .. }
        | Effect::Read { workspace, .. }
        | Effect::ReadAll { workspace, .. }
        | Effect::Settle { workspace, .. } => Some(workspace),
        Effect::Deliver { .. }
        | Effect::FollowUp { .. }
        | Effect::Reconsider { .. }
        | Effect::Send { .. }
        | Effect::More
        | Effect::WatchEnds { .. }
        | Effect::Forget { .. }
        | Effect::Users(_) => None,
    }
}

/// What is to leave the application, or what waits for that.
async fn post(db: &Transaction, effect: &Effect, now: DateTime<Utc>) -> Result<(), StoreError> {
    match effect {
        Effect::Deliver {
            workspace,
            id,
            priority,
            to,
        } => {
            let new = delivery_row::New {
                workspace,
                note: *id,
                priority: *priority,
            };
            delivery_row::insert(db, &new, to, now).await
        }
        Effect::FollowUp {
            workspace,
            id,
            priority,
        } => {
            let new = delivery_row::New {
                workspace,
                note: *id,
                priority: *priority,
            };
            delivery_row::follow_up(db, &new, now).await
        }
        Effect::Reconsider { workspace, person } => {
            delivery_row::reconsider(db, workspace, person, now).await
        }
        Effect::Copies { .. }
        | Effect::Notice { .. }
        | Effect::Read { .. }
        | Effect::ReadAll { .. }
        | Effect::Settle { .. }
        | Effect::Send { .. }
        | Effect::More
        | Effect::WatchEnds { .. }
        | Effect::Forget { .. }
        | Effect::Users(_) => Ok(()),
    }
}

/// Some people get their copies of what is of no request.
async fn tell(
    db: &Transaction,
    (workspace, seq): (&Workspace, i64),
    (notice, people): (&Notice, &[UserName]),
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    notice_row::insert(db, workspace, notice, now).await?;
    let copies = copy_row::Copies {
        workspace,
        id: notice.id,
        at: notice.at,
        read_at: None,
        watching: false,
        seq,
    };
    copy_row::insert(db, &copies, people).await
}
