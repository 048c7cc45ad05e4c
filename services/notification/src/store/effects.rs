//! What a commit stores beside the states: copies and what became of them, and what is to leave.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, Workspace};
use holdpoint_store::{StoreError, Transaction};
use holdpoint_user_directory::table as people;

use super::{change_row, copy_row, delivery_row, notice_row, old};
use crate::domain::{Effect, Notice};

/// Number of this commit in the workspaces whose notifications are not as they were.
type Seqs<'e> = BTreeMap<&'e Workspace, i64>;

/// Stores what belongs beside the states: what is new after what was read, and before all that looks at
/// what there is.
pub(crate) async fn record(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let changing: BTreeSet<&Workspace> = effects.iter().filter_map(changes).collect();
    let seqs = change_row::next(db, &changing).await?;
    for effect in effects {
        read(db, effect, (now, &seqs)).await?;
    }
    New::of(effects, &seqs).insert(db, now).await?;
    let mut ended: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::Settle { workspace, hold } => ended.entry(workspace).or_default().push(*hold),
            Effect::FollowUp {
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
                delivery_row::follow_up(db, &new, now).await?;
            }
            Effect::Reconsider { workspace, person } => {
                delivery_row::reconsider(db, workspace, person, now).await?;
            }
            Effect::Forget { before } => old::forget(db, *before).await?,
            Effect::Users(facts) => people::apply(db, facts).await?,
            Effect::Copies { .. }
            | Effect::Notice { .. }
            | Effect::Deliver { .. }
            | Effect::Read { .. }
            | Effect::ReadAll { .. }
            | Effect::More
            | Effect::WatchRunEnds { .. }
            | Effect::Send { .. } => {}
        }
    }
    for (workspace, holds) in ended {
        copy_row::settle(db, (workspace, &holds), (now, seq(&seqs, workspace))).await?;
    }
    Ok(())
}

fn seq(seqs: &Seqs<'_>, workspace: &Workspace) -> i64 {
    seqs.get(workspace).copied().unwrap_or_default()
}

/// A person has read one or all: those of before this commit.
async fn read(
    db: &Transaction,
    effect: &Effect,
    (now, seqs): (DateTime<Utc>, &Seqs<'_>),
) -> Result<(), StoreError> {
    match effect {
        Effect::Read {
            workspace,
            person,
            id,
        } => copy_row::read(db, (workspace, person, *id), (now, seq(seqs, workspace))).await,
        Effect::ReadAll {
            workspace,
            person,
            until,
        } => {
            let when = (now, seq(seqs, workspace));
            copy_row::read_all(db, (workspace, person, *until), when).await
        }
        Effect::Copies { .. }
        | Effect::Notice { .. }
        | Effect::Deliver { .. }
        | Effect::FollowUp { .. }
        | Effect::Reconsider { .. }
        | Effect::Settle { .. }
        | Effect::Send { .. }
        | Effect::More
        | Effect::WatchRunEnds { .. }
        | Effect::Forget { .. }
        | Effect::Users(_) => Ok(()),
    }
}

/// What is new: one statement a table.
#[derive(Default)]
struct New<'e> {
    notices: Vec<(&'e Workspace, &'e Notice)>,
    copies: Vec<copy_row::Copies<'e>>,
    deliveries: Vec<delivery_row::New<'e>>,
}

impl<'e> New<'e> {
    fn of(effects: &'e [Effect], seqs: &Seqs<'_>) -> Self {
        let mut new = Self::default();
        for effect in effects {
            match effect {
                Effect::Copies {
                    workspace,
                    id,
                    people,
                    at,
                    read_at,
                    watching,
                    renews,
                } => new.copies.push(copy_row::Copies {
                    workspace,
                    id: *id,
                    at: *at,
                    read_at: *read_at,
                    watching: *watching,
                    renews: *renews,
                    seq: seq(seqs, workspace),
                    people,
                }),
                Effect::Notice {
                    workspace,
                    notice,
                    people,
                } => {
                    new.notices.push((workspace, notice));
                    new.copies.push(copy_row::Copies {
                        workspace,
                        id: notice.id,
                        at: notice.at,
                        read_at: None,
                        watching: false,
                        renews: false,
                        seq: seq(seqs, workspace),
                        people,
                    });
                }
                Effect::Deliver {
                    workspace,
                    id,
                    priority,
                    to,
                } => new.deliveries.push(delivery_row::New {
                    workspace,
                    note: *id,
                    priority: *priority,
                    to,
                }),
                Effect::Read { .. }
                | Effect::ReadAll { .. }
                | Effect::FollowUp { .. }
                | Effect::Reconsider { .. }
                | Effect::Settle { .. }
                | Effect::Send { .. }
                | Effect::More
                | Effect::WatchRunEnds { .. }
                | Effect::Forget { .. }
                | Effect::Users(_) => {}
            }
        }
        new
    }

    async fn insert(&self, db: &Transaction, now: DateTime<Utc>) -> Result<(), StoreError> {
        notice_row::insert(db, &self.notices, now).await?;
        copy_row::insert(db, &self.copies).await?;
        delivery_row::insert(db, &self.deliveries, now).await
    }
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
        | Effect::WatchRunEnds { .. }
        | Effect::Forget { .. }
        | Effect::Users(_) => None,
    }
}
