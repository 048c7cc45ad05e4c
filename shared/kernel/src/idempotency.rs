//! A command with a known idempotency key is not done again: it gets the reply of the first one.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, TableWriter, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};

use crate::reply::{TaskReply, problem_json};
use crate::service::Service;
use crate::task::Task;
use crate::traces::Traces;

mod row {
    #![expect(
        clippy::disallowed_methods,
        reason = "the entity macro generates a nested save that begins"
    )]
    #![expect(unreachable_pub, reason = "the entity macro wants a public model")]
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "idempotency")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub key: String,
        pub digest: String,
        pub answer: String,
        pub created_at: DateTimeUtc,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// How long a key is kept.
const KEPT_FOR: TimeDelta = TimeDelta::hours(24);

/// The keys of a batch that were used before, with digest and reply.
pub(crate) struct KnownKeys(HashMap<String, (String, String)>);

impl KnownKeys {
    pub(crate) fn contains(&self, key: Option<&IdempotencyKey>) -> bool {
        key.is_some_and(|key| self.0.contains_key(&key.key))
    }

    /// The reply to a known key: the stored one, or a refusal if the body differs.
    pub(crate) fn reply(&self, key: Option<&IdempotencyKey>) -> Option<Bytes> {
        let key = key?;
        let (digest, reply) = self.0.get(&key.key)?;
        if *digest == key.digest {
            return Some(Bytes::from(reply.clone()));
        }
        let detail =
            "this Idempotency-Key was used with another body; use a new key for a new request";
        Some(problem_json(Problem::new(
            422,
            "idempotency_key_reused",
            detail,
        )))
    }
}

/// Deletes keys that are older than [`KEPT_FOR`].
pub(crate) async fn trim(db: &TableWriter, now: DateTime<Utc>) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    row::Entity::delete_many()
        .filter(row::COLUMN.created_at.lt(now - KEPT_FOR))
        .exec(&tx)
        .await?;
    tx.commit().await
}

/// Replaces the replies in a workspace that name what is erased. Their keys stay, so that a repetition is not handled
/// again.
pub(crate) async fn erase(
    db: &Transaction,
    workspace: &Workspace,
    traces: &Traces,
) -> Result<(), StoreError> {
    let detail = "the reply to this Idempotency-Key was erased together with a contact";
    let erased = problem_json(Problem::new(410, "erased", detail));
    let erased = String::from_utf8_lossy(&erased).into_owned();
    for names_it in traces.conditions(db, row::Column::Answer) {
        // Keys begin with their workspace and `/`, after which `0` is the next character.
        row::Entity::update_many()
            .col_expr(row::Column::Answer, Expr::value(erased.as_str()))
            .filter(row::COLUMN.key.gte(format!("{workspace}/")))
            .filter(row::COLUMN.key.lt(format!("{workspace}0")))
            .filter(names_it)
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Loads the known keys of a batch with one query. A key that another replica is about to store is not
/// found here; [`store`] notices it.
pub(crate) async fn load<'a>(
    db: &Transaction,
    keys: impl Iterator<Item = &'a IdempotencyKey>,
) -> Result<KnownKeys, StoreError> {
    let keys: Vec<_> = keys.map(|key| key.key.clone()).collect();
    if keys.is_empty() {
        return Ok(KnownKeys(HashMap::new()));
    }
    let rows = row::Entity::find()
        .filter(row::COLUMN.key.is_in(keys))
        .all(db)
        .await?;
    let known = rows
        .into_iter()
        .map(|row| (row.key, (row.digest, row.answer)));
    Ok(KnownKeys(known.collect()))
}

/// Stores the replies of new keys. False: another writer used one of the keys meanwhile. The batch must not
/// be committed then; decided again, its task gets the stored reply.
pub(crate) async fn store<S: Service>(
    db: &Transaction,
    tasks: &[Task<S>],
    known: &KnownKeys,
    replies: &[TaskReply<S>],
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut rows = Vec::new();
    for (task, reply) in tasks.iter().zip(replies) {
        let key = task.idempotency_key.as_ref();
        let Some(key) = key.filter(|_| reply.is_ok && !known.contains(key)) else {
            continue;
        };
        rows.push(row::ActiveModel {
            key: Set(key.key.clone()),
            digest: Set(key.digest.clone()),
            answer: Set(String::from_utf8_lossy(&reply.body).into_owned()),
            created_at: Set(now),
        });
    }
    if db.is_exclusive() {
        // `load` read the keys in this transaction, and nobody else writes.
        insert_rows(db, rows, None).await?;
        return Ok(true);
    }
    let unused = OnConflict::column(row::Column::Key).do_nothing().to_owned();
    let mut inserted = 0;
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        inserted += row::Entity::insert_many(chunk.to_vec())
            .on_conflict(unused.clone())
            .exec_without_returning(db)
            .await?;
    }
    Ok(inserted == rows.len() as u64)
}
