//! Uploads values that are too large for a snapshot, and gets them back (S1-R9).
//!
//! Owns the chunks of both. A value that cannot be uploaded stays a reference without content.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::StepRef;
use holdpoint_contracts::suspension::{
    BLOB_CHUNK_MAX, BlobChunk, BlobContent, BlobView, GetStepBlob, PutBlob, SNAPSHOT_BLOB_MAX,
    ValueReference,
};
use holdpoint_ids::Workspace;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::suspension::LargeValue;

/// Longest wait for the reply to one chunk.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Tries of one chunk.
const TRIES: u32 = 3;

/// Pause between the tries to read a chunk.
const PAUSE: Duration = Duration::from_millis(500);

/// Uploads a value under the token of a step. The executor refuses one of more than 16 MiB with the report.
pub(super) async fn upload(bus: &Bus, step: &StepRef, token: &str, value: &LargeValue) {
    if value.reference.size > SNAPSHOT_BLOB_MAX {
        return;
    }
    if let Err(problem) = upload_chunks(bus, step, token, value).await {
        tracing::warn!(
            step = %step.step, %problem,
            "a saved value was not uploaded; the snapshot refers to it without its content"
        );
    }
}

async fn upload_chunks(
    bus: &Bus,
    step: &StepRef,
    token: &str,
    value: &LargeValue,
) -> Result<(), Problem> {
    let bytes = value.text.as_bytes();
    let mut received = 0;
    loop {
        let begin = usize::try_from(received).unwrap_or(usize::MAX);
        let rest = bytes.get(begin..).unwrap_or_default();
        let chunk = rest.get(..BLOB_CHUNK_MAX).unwrap_or(rest);
        let command = PutBlob {
            run: step.run,
            token: token.to_owned(),
            sha256: value.reference.sha256.clone(),
            size: value.reference.size,
            offset: received,
            content: BlobContent(chunk.into()),
        };
        let view = put(bus, &step.workspace, command).await?;
        if view.complete {
            return Ok(());
        }
        if view.received <= received {
            return Err(Problem::unavailable("the upload makes no progress"));
        }
        received = view.received;
    }
}

async fn put(bus: &Bus, workspace: &Workspace, command: PutBlob) -> Result<BlobView, Problem> {
    let envelope = Envelope::of_service("worker", command);
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let asked = bus.ask(workspace, &envelope);
        let problem = match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
            Ok(Ok(view)) => return Ok(view),
            Ok(Err(problem)) if problem.status < 500 => return Err(problem),
            Ok(Err(problem)) => problem,
            Err(_) => Problem::unavailable("no reply in time"),
        };
        if tries == 0 {
            return Err(problem);
        }
    }
}

async fn read(bus: &Bus, workspace: &Workspace, query: &GetStepBlob) -> Result<BlobChunk, Problem> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match bus.query(workspace, query).await {
            Err(problem) if problem.status >= 500 && tries > 0 => tokio::time::sleep(PAUSE).await,
            reply => return reply,
        }
    }
}

/// The value of a reference, with its hash checked. None: it was not uploaded, or cannot be read.
pub(super) async fn download(
    bus: &Bus,
    workspace: &Workspace,
    token: &str,
    reference: &ValueReference,
) -> Option<Value> {
    if !reference.stored || reference.size > SNAPSHOT_BLOB_MAX {
        return None;
    }
    let mut bytes = Vec::new();
    while u64::try_from(bytes.len()).ok()? < reference.size {
        let query = GetStepBlob {
            token: token.to_owned(),
            sha256: reference.sha256.clone(),
            offset: u64::try_from(bytes.len()).ok()?,
        };
        match read(bus, workspace, &query).await {
            Ok(chunk) if !chunk.content.0.is_empty() => bytes.extend_from_slice(&chunk.content.0),
            Ok(_) => return None,
            Err(problem) => {
                tracing::warn!(%problem, "a saved value cannot be read; its tool begins without it");
                return None;
            }
        }
    }
    let is_whole = format!("{:x}", Sha256::digest(&bytes)) == reference.sha256;
    if !is_whole {
        tracing::warn!("a saved value has another hash; its tool begins without it");
        return None;
    }
    serde_json::from_slice(&bytes).ok()
}
