//! The same key with the same content is done once and answered alike.

use std::collections::HashMap;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_contracts::message::{IdempotencyKey, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_store::{ROWS_PER_STATEMENT, StoreError, TableWriter, Transaction};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

use crate::Service;
use crate::commit::{TaskReply, write};
use crate::task::Task;

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

/// The keys of a batch that were used before.
pub(crate) struct Seen(HashMap<String, (String, String)>);

impl Seen {
    /// The answer to a key that was used before: the same one, or a refusal for another body.
    pub(crate) fn answer(&self, asked: Option<&IdempotencyKey>) -> Option<Bytes> {
        let asked = asked?;
        let (digest, answer) = self.0.get(&asked.key)?;
        if *digest == asked.digest {
            return Some(Bytes::from(answer.clone()));
        }
        Some(write(&Reply::<()>::Problem(Problem::new(
            422,
            "idempotency_key_reused",
            "this Idempotency-Key was used for another body; take a new key for a new request",
        ))))
    }
}

/// How long a key is remembered.
const REMEMBERED_FOR: TimeDelta = TimeDelta::hours(24);

/// Forgets keys that were used longer ago than they are remembered for.
pub(crate) async fn trim(db: &TableWriter, now: DateTime<Utc>) -> Result<(), StoreError> {
    let tx = db.begin().await?;
    row::Entity::delete_many()
        .filter(row::COLUMN.created_at.lt(now - REMEMBERED_FOR))
        .exec(&tx)
        .await?;
    tx.commit().await
}

/// Looks up the keys of a batch in one query. A key that comes twice in one batch, or that another
/// replica has in its hands, is loaded as unseen: [`remember`] finds it taken.
pub(crate) async fn seen<'a>(
    db: &Transaction,
    asked: impl Iterator<Item = &'a IdempotencyKey>,
) -> Result<Seen, StoreError> {
    let keys: Vec<_> = asked.map(|asked| asked.key.clone()).collect();
    if keys.is_empty() {
        return Ok(Seen(HashMap::new()));
    }
    let rows = row::Entity::find()
        .filter(row::COLUMN.key.is_in(keys))
        .all(db)
        .await?;
    Ok(Seen(
        rows.into_iter()
            .map(|row| (row.key, (row.digest, row.answer)))
            .collect(),
    ))
}

/// Remembers what was done under which key. False: one of the keys was used meanwhile; nothing of the
/// batch may be committed, and decided again its task is answered as the first one was.
pub(crate) async fn remember<S: Service>(
    db: &Transaction,
    tasks: &[Task<S>],
    fresh: &[bool],
    replies: &[TaskReply],
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut rows = Vec::new();
    for ((task, fresh), reply) in tasks.iter().zip(fresh).zip(replies) {
        let Some(asked) = task.asked.as_ref().filter(|_| *fresh && reply.is_ok) else {
            continue;
        };
        rows.push(row::ActiveModel {
            key: Set(asked.key.clone()),
            digest: Set(asked.digest.clone()),
            answer: Set(String::from_utf8_lossy(&reply.body).into_owned()),
            created_at: Set(now),
        });
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
