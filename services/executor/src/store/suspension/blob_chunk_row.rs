//! Table `blob_chunks`: the contents of values that are too large for a snapshot (S1-R9).

use chrono::{DateTime, Utc};
use holdpoint_contracts::suspension::BlobContent;
use holdpoint_ids::RunId;
use holdpoint_store::{BrokenRow as _, StoreError, Transaction, insert_rows};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{QueryOrder as _, QuerySelect as _};

use crate::domain::{BlobChange, Effect};

/// Chunks of one page. Each may have half a megabyte, but their contents are not read.
const CHUNKS: u64 = 200;

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

/// Writes the changes of blobs among effects, in their order. Blobs are rare, and a batch has few of them.
pub(crate) async fn write(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    for effect in effects {
        if let Effect::Blob {
            run,
            step,
            sha256,
            change,
        } = effect
        {
            let blob = BlobId {
                run: *run,
                step,
                sha256,
            };
            write_change(db, blob, change).await?;
        } else if let Effect::DeleteExpiredBlobs { before } = effect {
            delete_expired(db, *before).await?;
        }
    }
    Ok(())
}

async fn write_change(
    db: &Transaction,
    blob: BlobId<'_>,
    change: &BlobChange,
) -> Result<(), StoreError> {
    match change {
        BlobChange::Chunk {
            offset,
            content,
            expires_at,
        } => {
            let row = ActiveModel {
                run_id: Set(blob.run.uuid()),
                step_id: Set(blob.step.to_owned()),
                sha256: Set(blob.sha256.to_owned()),
                chunk_offset: Set(i64::try_from(*offset).map_err(Entity::broken)?),
                content: Set(content.0.to_vec()),
                expires_at: Set(*expires_at),
            };
            let key = [
                Column::RunId,
                Column::StepId,
                Column::Sha256,
                Column::ChunkOffset,
            ];
            // The chunk of an upload that has expired may not be deleted yet.
            let newest = OnConflict::columns(key)
                .update_columns([Column::Content, Column::ExpiresAt])
                .to_owned();
            insert_rows(db, vec![row], Some(&newest)).await
        }
        BlobChange::Expire(at) => {
            Entity::update_many()
                .col_expr(Column::ExpiresAt, Expr::value(*at))
                .filter(of_blob(blob))
                .exec(db)
                .await?;
            Ok(())
        }
        BlobChange::Delete => {
            Entity::delete_many().filter(of_blob(blob)).exec(db).await?;
            Ok(())
        }
    }
}

/// Whether a chunk expired before an instant.
pub(crate) async fn has_expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
) -> Result<bool, StoreError> {
    Ok(!expired(db, before, 1).await?.is_empty())
}

type Key = (Uuid, String, String, i64);

async fn expired(
    db: &impl ConnectionTrait,
    before: DateTime<Utc>,
    limit: u64,
) -> Result<Vec<Key>, StoreError> {
    let keys = Entity::find()
        .select_only()
        .columns([
            Column::RunId,
            Column::StepId,
            Column::Sha256,
            Column::ChunkOffset,
        ])
        .filter(COLUMN.expires_at.lt(before))
        .order_by_asc(Column::ExpiresAt)
        .limit(limit);
    Ok(keys.into_tuple().all(db).await?)
}

/// Deletes a page of expired chunks, unless their blob was referred to since.
async fn delete_expired(db: &Transaction, before: DateTime<Utc>) -> Result<(), StoreError> {
    for (run, step, sha256, offset) in expired(db, before, CHUNKS).await? {
        Entity::delete_many()
            .filter(COLUMN.run_id.eq(run))
            .filter(COLUMN.step_id.eq(step))
            .filter(COLUMN.sha256.eq(sha256))
            .filter(COLUMN.chunk_offset.eq(offset))
            .filter(COLUMN.expires_at.lt(before))
            .exec(db)
            .await?;
    }
    Ok(())
}
