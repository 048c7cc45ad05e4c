//! The blobs of a run: contents of values that are too large for its snapshot (S1-R9). Their chunks are rows.

mod sha256;

use chrono::{DateTime, Utc};
use holdpoint_contracts::suspension::BlobView;
use serde::{Deserialize, Serialize};

pub use self::sha256::Sha256State;
use crate::domain::model::time::after;

/// How long a blob is kept without a reference in the newest snapshot, in milliseconds: 24 hours.
pub const UNREFERENCED_MS: u64 = 24 * 60 * 60 * 1_000;

/// Bytes that a step of the run has uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub step: String,
    pub sha256: String,
    /// Of the whole blob, in bytes.
    pub size: u64,
    pub received: u64,
    /// The hash of what was received; none: the blob is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Sha256State>,
    /// None: the newest snapshot refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
}

impl Blob {
    /// A blob of which nothing has arrived.
    #[must_use]
    pub fn announced(step: &str, sha256: &str, size: u64, now: DateTime<Utc>) -> Self {
        Self {
            step: step.to_owned(),
            sha256: sha256.to_owned(),
            size,
            received: 0,
            hash: Some(Sha256State::default()),
            expires_at: Some(after(now, UNREFERENCED_MS)),
        }
    }

    #[must_use]
    pub fn is(&self, step: &str, sha256: &str) -> bool {
        self.step == step && self.sha256 == sha256
    }

    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.hash.is_none()
    }

    /// Whether its chunks may be deleted by now.
    #[must_use]
    pub fn has_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    #[must_use]
    pub fn view(&self) -> BlobView {
        BlobView {
            sha256: self.sha256.clone(),
            size: self.size,
            received: self.received,
            complete: self.is_complete(),
        }
    }
}
