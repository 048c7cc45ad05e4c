//! Finds the holders of tokens for all requests that wait at the same time, in two statements.
//!
//! Each lookup reads the tables after its request arrived, so a revoked token is never found. One batch is read at a
//! time, and the lookups that arrive until its end are the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use holdpoint_clock::Clock;
use holdpoint_contracts::Problem;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::ROWS_PER_STATEMENT;
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
    /// Locked while a batch is read, also after its request was cancelled.
    reading: Arc<tokio::sync::Mutex<()>>,
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
        if !tokens::is_token(token) {
            return Ok(None);
        }
        let (reply, mut found) = oneshot::channel();
        self.waiting().push(Waiting {
            token: token.to_owned(),
            reply,
        });
        loop {
            let reading = tokio::select! {
                biased;
                found = &mut found => return found.unwrap_or_else(|_panic| Err(Problem::internal())),
                reading = Arc::clone(&self.reading).lock_owned() => reading,
            };
            let batch = self.next_batch();
            let (readers, now) = (readers.clone(), clock.now());
            // A task, because the client of this request may disconnect, and others wait for the batch too.
            tokio::spawn(async move {
                answer(&readers, batch, now).await;
                drop(reading);
            });
        }
    }

    fn next_batch(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let size = waiting.len().min(ROWS_PER_STATEMENT);
        waiting.drain(..size).collect()
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

/// The users that the directory knows. A request whose user is not among them reads it alone.
async fn users_of(
    readers: &DatabaseConnection,
    holders: impl Iterator<Item = &Holder>,
) -> HashMap<(Workspace, UserName), User> {
    let keys = holders.map(|holder| (holder.workspace.clone(), holder.user.clone()));
    let found = directory::find_keys(readers, &keys.collect()).await;
    found.unwrap_or_else(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(
            error,
            "users of tokens not read together; each request reads its user alone"
        );
        HashMap::new()
    })
}
