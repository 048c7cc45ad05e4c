//! `executor.put_blob`: the tool of a step, or its worker, uploads a chunk of a blob (S1-R9). The token of the step has
//! decided the step and the dispatch.

use holdpoint_contracts::suspension::{BLOB_CHUNK_MAX, BLOBS_MAX, SNAPSHOT_BLOB_MAX, SNAPSHOT_MAX};

use crate::domain::effect::{BlobChange, Reply};
use crate::domain::input::BlobUpload;
use crate::domain::model::run::Blob;
use crate::domain::refusal::Refusal;
use crate::domain::rules::suspension::kept_blobs::{change_blob, remove_blobs};
use crate::domain::transition::{RunDecision, RunOutcome, RunTransition};

/// Most chunks of a blob: each is a row.
const CHUNKS_MAX: u64 = 256;

pub(crate) fn put_blob<'a>(
    mut transition: RunTransition<'a>,
    upload: &BlobUpload,
) -> RunDecision<'a> {
    check_step(&transition, upload)?;
    check_values(upload)?;
    let now = transition.now;
    remove_blobs(&mut transition, |blob| blob.has_expired(now));
    let known = transition.run.blobs.iter();
    let mut known = known.filter(|blob| blob.is(&upload.step, &upload.sha256));
    let mut blob = match known.next() {
        Some(blob) => blob.clone(),
        None => announced(&transition, upload)?,
    };
    if blob.size != upload.size {
        return Err(Refusal::BlobSizeDiffers(blob.size).into());
    }
    // The chunk came before. Its reply was lost, or two uploads of the same content run at once.
    if blob.is_complete() || upload.offset < blob.received {
        return Ok(RunOutcome::Unchanged(Reply::Blob(blob.view())));
    }
    if upload.offset > blob.received {
        return Err(Refusal::BlobOffset(blob.received).into());
    }
    let is_intact = add_chunk(&mut blob, upload);
    let is_same = |known: &Blob| known.is(&upload.step, &upload.sha256);
    if !is_intact {
        remove_blobs(&mut transition, is_same);
        let refusal = Refusal::BlobHashDiffers(blob.sha256);
        return transition.decided(Reply::Refused(Box::new(refusal.problem())));
    }
    let chunk = BlobChange::Chunk {
        offset: upload.offset,
        content: upload.content.clone(),
        expires_at: blob.expires_at,
    };
    change_blob(&mut transition, &blob, chunk);
    let view = blob.view();
    let blobs = &mut transition.run.blobs;
    match blobs.iter_mut().find(|known| is_same(known)) {
        Some(known) => *known = blob,
        None => blobs.push(blob),
    }
    transition.decided(Reply::Blob(view))
}

/// A later dispatch, the end of the step and the end of the run invalidate the token.
fn check_step(transition: &RunTransition<'_>, upload: &BlobUpload) -> Result<(), Refusal> {
    let mut steps = transition.run.steps.iter();
    let is_current = steps.any(|step| {
        (step.id == upload.step && step.dispatch == upload.dispatch)
            && step.phase.at_worker().is_some()
    });
    if is_current && !transition.run.is_final() {
        Ok(())
    } else {
        Err(Refusal::StepTokenVoid)
    }
}

fn check_values(upload: &BlobUpload) -> Result<(), Refusal> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hash = upload.sha256.as_bytes();
    if hash.len() != 64 || !hash.iter().all(is_digit) {
        let detail = "`sha256` has 64 lowercase hexadecimal digits".to_owned();
        return Err(Refusal::InvalidBlob(detail));
    }
    if upload.size > SNAPSHOT_BLOB_MAX {
        return Err(Refusal::BlobTooLarge(upload.size));
    }
    let bytes = upload.content.0.len();
    if bytes > BLOB_CHUNK_MAX {
        return Err(Refusal::BlobChunkTooLarge(bytes));
    }
    if bytes == 0 {
        return Err(Refusal::InvalidBlob(
            "a chunk has at least 1 byte".to_owned(),
        ));
    }
    let end = upload.offset.saturating_add(byte_count(upload));
    if end > upload.size {
        let size = upload.size;
        let detail = format!("the chunk ends at byte {end}, and the blob has {size} bytes");
        return Err(Refusal::InvalidBlob(detail));
    }
    let least = upload.size.div_ceil(CHUNKS_MAX);
    if end < upload.size && byte_count(upload) < least {
        let detail = format!(
            "a chunk before the last one has at least {least} bytes, and this one has {bytes}"
        );
        return Err(Refusal::InvalidBlob(detail));
    }
    Ok(())
}

fn byte_count(upload: &BlobUpload) -> u64 {
    u64::try_from(upload.content.0.len()).unwrap_or(u64::MAX)
}

/// A new blob, if the run has room for its announced size.
fn announced(transition: &RunTransition<'_>, upload: &BlobUpload) -> Result<Blob, Refusal> {
    let blobs = &transition.run.blobs;
    if blobs.len() >= BLOBS_MAX {
        return Err(Refusal::TooManyBlobs);
    }
    let sizes = blobs.iter().map(|blob| blob.size);
    let bytes = sizes.fold(upload.size, u64::saturating_add);
    if bytes > SNAPSHOT_MAX {
        return Err(Refusal::BlobsTooLarge(bytes));
    }
    let now = transition.now;
    Ok(Blob::announced(
        &upload.step,
        &upload.sha256,
        upload.size,
        now,
    ))
}

/// Adds the next chunk. Returns false if the blob is complete and has another hash. An unreadable state of the hash
/// counts as one, so that the upload begins again.
fn add_chunk(blob: &mut Blob, upload: &BlobUpload) -> bool {
    let Some(hash) = blob.hash.take() else {
        return true;
    };
    blob.received = upload.offset.saturating_add(byte_count(upload));
    let Some(hash) = hash.add(&upload.content.0) else {
        return false;
    };
    if blob.received == blob.size {
        return hash.digest().as_ref() == Some(&blob.sha256);
    }
    blob.hash = Some(hash);
    true
}
