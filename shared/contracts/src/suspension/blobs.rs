//! Blobs: the contents of values that are too large for a snapshot (S1-R9).

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdpoint_ids::RunId;
use serde::{Deserialize, Serialize};

/// Most bytes of one chunk: 512 KiB. Its message fits the bus.
pub const BLOB_CHUNK_MAX: usize = 512 * 1024;

/// Most blobs of one run.
pub const BLOBS_MAX: usize = 64;

/// Uploads one chunk of a blob. Chunks come in order, and a repeated one changes nothing. The token decides the step.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutBlob {
    pub run: RunId,
    /// The token of the dispatch.
    pub token: String,
    /// Of the whole blob, in lowercase hexadecimal digits.
    pub sha256: String,
    /// Of the whole blob, in bytes; at most 16 MiB.
    pub size: u64,
    /// Where the chunk begins, in bytes.
    pub offset: u64,
    /// At most 512 KiB. Except for the last chunk, at least a 256th of the blob.
    pub content: BlobContent,
}

impl fmt::Debug for PutBlob {
    /// Leaves out the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutBlob")
            .field("run", &self.run)
            .field("sha256", &self.sha256)
            .field("size", &self.size)
            .field("offset", &self.offset)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// How much of a blob was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobView {
    pub sha256: String,
    /// Of the whole blob, in bytes.
    pub size: u64,
    /// Bytes so far: the next chunk begins here.
    pub received: u64,
    /// Whether all bytes have arrived, and have this hash.
    pub complete: bool,
}

/// A part of a blob of a run, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetBlob {
    pub run: RunId,
    pub step: String,
    pub sha256: String,
    /// In bytes.
    pub offset: u64,
}

/// A part of a blob, for the step of a token that is in progress. An earlier call of the step has uploaded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetStepBlob {
    pub token: String,
    pub sha256: String,
    /// In bytes.
    pub offset: u64,
}

/// A part of a blob: at least one byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobChunk {
    /// Of the whole blob, in bytes.
    pub size: u64,
    /// In bytes.
    pub offset: u64,
    pub content: BlobContent,
}

/// Bytes. They are base64 in JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobContent(pub Arc<[u8]>);

impl fmt::Debug for BlobContent {
    /// Leaves out the bytes, which are data of a tool.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobContent({} bytes)", self.0.len())
    }
}

impl TryFrom<String> for BlobContent {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, base64::DecodeError> {
        Ok(Self(STANDARD.decode(text)?.into()))
    }
}

impl From<BlobContent> for String {
    fn from(content: BlobContent) -> Self {
        STANDARD.encode(content.0)
    }
}
