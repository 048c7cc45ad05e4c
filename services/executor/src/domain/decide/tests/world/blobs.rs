//! The chunks of blobs, as the table keeps them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::domain::BlobChange;

/// Step and hash of a blob.
type Id = (String, String);

#[derive(Debug, Clone, Default)]
pub(crate) struct StoredBlobs(BTreeMap<Id, StoredBlob>);

#[derive(Debug, Clone, Default)]
struct StoredBlob {
    chunks: BTreeMap<u64, Vec<u8>>,
    expires_at: Option<DateTime<Utc>>,
}

impl StoredBlobs {
    pub(super) fn change(&mut self, id: Id, change: BlobChange) {
        match change {
            BlobChange::Chunk {
                offset,
                content,
                expires_at,
            } => {
                let blob = self.0.entry(id).or_default();
                blob.chunks.insert(offset, content.0.to_vec());
                blob.expires_at = expires_at;
            }
            BlobChange::Expire(at) => {
                let blob = self.0.get_mut(&id);
                blob.expect("a stored blob").expires_at = at;
            }
            BlobChange::Delete => {
                self.0.remove(&id);
            }
        }
    }

    /// The bytes of a blob, and when it expires.
    pub(crate) fn get(&self, step: &str, sha256: &str) -> Option<(Vec<u8>, Option<DateTime<Utc>>)> {
        let blob = self.0.get(&(step.to_owned(), sha256.to_owned()))?;
        let bytes = blob.chunks.values().flatten().copied().collect();
        Some((bytes, blob.expires_at))
    }
}
