//! Finds the holders of tokens for all requests that wait at the same time, in two statements.
//!
//! Each lookup reads the tables after its request arrived, so a revoked token is never found. One request reads for all
//! that wait, and those that arrive meanwhile are the next batch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use holdpoint_clock::Clock;
use holdpoint_contracts::Problem;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_user_directory::{User, table as directory};
use sea_orm::DatabaseConnection;
use tokio::sync::oneshot;

use crate::problem::database_away;
use crate::store::tokens::{self, Holder};

/// The holder of a token, and the user if the directory knows it.
pub(crate) type Found = Option<(Holder, Option<User>)>;

#[derive(Debug, Default)]
pub(crate) struct TokenLookups {
    waiting: Mutex<Vec<Waiting>>,
    /// Locked while one request reads for all.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    token: String,
    reply: oneshot::Sender<Result<Found, Problem>>,
}

impl Waiting {
    /// A request that was cancelled takes no reply.
    fn reply(self, found: Result<Found, Problem>) {
        drop(self.reply.send(found));
    }
}

impl TokenLookups {
    /// The holder of a token at this moment. `None`: the token is unknown or has expired.
    pub(crate) async fn find(
        &self,
        readers: &DatabaseConnection,
        token: &str,
        clock: &Clock,
    ) -> Result<Found, Problem> {
        loop {
            let (reply, mut found) = oneshot::channel();
            self.waiting().push(Waiting {
                token: token.to_owned(),
                reply,
            });
            tokio::select! {
                biased;
                found = &mut found => if let Ok(found) = found {
                    return found;
                },
                reading = self.reading.lock() => {
                    let batch = std::mem::take(&mut *self.waiting());
                    answer(readers, batch, clock.now()).await;
                    drop(reading);
                    if let Ok(found) = found.await {
                        return found;
                    }
                }
            }
            // The request that read for this one was cancelled.
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads for a batch and replies to each lookup of it.
async fn answer(readers: &DatabaseConnection, batch: Vec<Waiting>, now: DateTime<Utc>) {
    let texts = batch.iter().map(|waiting| waiting.token.as_str());
    let holders = match tokens::holders(readers, texts, now).await {
        Ok(holders) => holders,
        Err(error) => {
            let problem = database_away(error);
            for waiting in batch {
                waiting.reply(Err(problem.clone()));
            }
            return;
        }
    };
    let users = users_of(readers, holders.values().flatten()).await;
    for waiting in batch {
        let found = match holders.get(&waiting.token) {
            None => Ok(None),
            Some(Err(problem)) => Err(problem.clone()),
            Some(Ok(holder)) => {
                let user = users.get(&(holder.workspace.clone(), holder.user.clone()));
                Ok(Some((holder.clone(), user.cloned())))
            }
        };
        waiting.reply(found);
    }
}

/// The users that the directory knows. Without one, a request looks for its user alone.
async fn users_of(
    readers: &DatabaseConnection,
    holders: impl Iterator<Item = &Holder>,
) -> HashMap<(Workspace, UserName), User> {
    let mut names: BTreeMap<&Workspace, BTreeSet<&UserName>> = BTreeMap::new();
    for holder in holders {
        let names = names.entry(&holder.workspace).or_default();
        names.insert(&holder.user);
    }
    let mut users = HashMap::new();
    for (workspace, names) in names {
        let names: Vec<UserName> = names.into_iter().cloned().collect();
        match directory::find_all(readers, workspace, &names).await {
            Ok(found) => {
                let keyed = |user: User| ((workspace.clone(), user.name.clone()), user);
                users.extend(found.into_iter().map(keyed));
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "users of tokens not read together");
            }
        }
    }
    users
}
