//! Table `blob_chunks`: the contents of values that are too large for a snapshot (S1-R9).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::suspension::BlobContent;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, ROWS_PER_STATEMENT, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, ExprTrait as _, OnConflict, Order, Query};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use crate::domain::{BlobChange, Effect};

/// Chunks of one page. Each may have half a megabyte, but their contents are not read.
const CHUNKS: u64 = 200;

const KEY: [Column; 4] = [
    Column::RunId,
    Column::StepId,
    Column::Sha256,
    Column::ChunkOffset,
];

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "blob_chunks")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub run_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub step_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub sha256: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub chunk_offset: i64,
    pub content: Vec<u8>,
    /// None: it is kept with its run.
    pub expires_at: Option<DateTimeUtc>,
}

impl ActiveModelBehavior for ActiveModel {}

/// A blob of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlobId<'b> {
    pub(crate) run: RunId,
    pub(crate) step: &'b str,
    pub(crate) sha256: &'b str,
}

/// The bytes of a blob from an offset to the end of that chunk; none: it has no such byte.
pub(crate) async fn find(
    db: &impl ConnectionTrait,
    blob: BlobId<'_>,
    offset: u64,
) -> Result<Option<BlobContent>, StoreError> {
    let Ok(offset) = i64::try_from(offset) else {
        return Ok(None);
    };
    let chunk = Entity::find()
        .filter(of_blob(blob))
        .filter(COLUMN.chunk_offset.lte(offset))
        .order_by_desc(Column::ChunkOffset)
        .one(db);
    let Some(chunk) = chunk.await? else {
        return Ok(None);
    };
    let skipped = usize::try_from(offset - chunk.chunk_offset).map_err(Entity::broken)?;
    let content = chunk.content.get(skipped..).unwrap_or_default();
    let is_inside = !content.is_empty();
    Ok(is_inside.then(|| BlobContent(content.into())))
}

fn of_blob(blob: BlobId<'_>) -> sea_orm::Condition {
    sea_orm::Condition::all()
        .add(COLUMN.run_id.eq(blob.run.uuid()))
        .add(COLUMN.step_id.eq(blob.step))
        .add(COLUMN.sha256.eq(blob.sha256))
}

/// The columns `run_id`, `step_id` and `sha256`.
type BlobKey = (Uuid, String, String);

/// What a batch changes about a blob. The deletion comes first.
#[derive(Default)]
struct BlobWrite<'e> {
    is_deleted: bool,
    /// The new expiry of its stored chunks.
    expires_at: Option<Option<DateTime<Utc>>>,
    /// New chunks by their offset.
    chunks: BTreeMap<u64, (&'e BlobContent, Option<DateTime<Utc>>)>,
}

impl<'e> BlobWrite<'e> {
    fn add(&mut self, change: &'e BlobChange) {
        match change {
            BlobChange::Chunk {
                offset,
                content,
                expires_at,
            } => {
                self.chunks.insert(*offset, (content, *expires_at));
            }
            BlobChange::Expire(at) => {
                self.expires_at = Some(*at);
                for (_, expires_at) in self.chunks.values_mut() {
                    *expires_at = *at;
                }
            }
            BlobChange::Delete => {
                *self = Self {
                    is_deleted: true,
                    ..Self::default()
                };
            }
        }
    }
}

/// Writes the changes of blobs among effects.
pub(crate) async fn write(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let mut writes: BTreeMap<BlobKey, BlobWrite<'_>> = BTreeMap::new();
    for effect in effects {
        if let Effect::Blob {
            run,
            step,
            sha256,
            change,
        } = effect
        {
            let key = (run.uuid(), step.clone(), sha256.clone());
            writes.entry(key).or_default().add(change);
        }
    }
    write_blobs(db, writes).await?;
    for effect in effects {
        if let Effect::DeleteExpiredBlobs { before } = effect {
            delete_expired(db, *before).await?;
        }
    }
    Ok(())
}

async fn write_blobs(
    db: &Transaction,
    writes: BTreeMap<BlobKey, BlobWrite<'_>>,
) -> Result<(), StoreError> {
    let deleted = writes.iter().filter(|(_, write)| write.is_deleted);
    let deleted: Vec<_> = deleted.map(|(key, _)| key.clone()).collect();
    for blobs in deleted.chunks(ROWS_PER_STATEMENT) {
        Entity::delete_many()
            .filter(blob_columns().in_tuples(blobs.to_vec()))
            .exec(db)
            .await?;
    }
    let mut expiries: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (key, write) in &writes {
        if let Some(at) = write.expires_at {
            expiries.entry(at).or_default().push(key.clone());
        }
    }
    for (at, blobs) in expiries {
        for blobs in blobs.chunks(ROWS_PER_STATEMENT) {
            Entity::update_many()
                .col_expr(Column::ExpiresAt, Expr::value(at))
                .filter(blob_columns().in_tuples(blobs.to_vec()))
                .exec(db)
                .await?;
        }
    }
    let mut rows = Vec::new();
    for ((run, step, sha256), write) in writes {
        for (offset, (content, expires_at)) in write.chunks {
            rows.push(ActiveModel {
                run_id: Set(run),
                step_id: Set(step.clone()),
                sha256: Set(sha256.clone()),
                chunk_offset: Set(i64::try_from(offset).map_err(Entity::broken)?),
                content: Set(content.0.to_vec()),
                expires_at: Set(expires_at),
            });
        }
    }
    // The chunk of an upload that has expired may not be deleted yet.
    let newest = OnConflict::columns(KEY)
        .update_columns([Column::Content, Column::ExpiresAt])
        .to_owned();
    insert_rows(db, rows, Some(&newest)).await
}

fn blob_columns() -> Expr {
    Expr::tuple([Column::RunId, Column::StepId, Column::Sha256].map(Expr::col))
}

/// Whether a chunk expired before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let expired = Entity::find().filter(COLUMN.expires_at.lt(before));
    let first: Option<Uuid> = expired
        .select_only()
        .column(Column::RunId)
        .limit(1)
        .into_tuple()
        .one(db)
        .await?;
    Ok(first.is_some())
}

/// Deletes a page of expired chunks, unless their blob was referred to since.
async fn delete_expired(db: &Transaction, before: DateTime<Utc>) -> Result<(), StoreError> {
    let page = Query::select()
        .columns(KEY)
        .from(Entity)
        .and_where(COLUMN.expires_at.lt(before))
        .order_by(Column::ExpiresAt, Order::Asc)
        .limit(CHUNKS)
        .to_owned();
    Entity::delete_many()
        .filter(Expr::tuple(KEY.map(Expr::col)).in_subquery(page))
        .filter(COLUMN.expires_at.lt(before))
        .exec(db)
        .await?;
    Ok(())
}
