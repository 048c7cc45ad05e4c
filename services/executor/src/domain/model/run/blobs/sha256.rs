//! SHA-256 over chunks that arrive in different decisions. Its state is data, so that a restart continues it.

use holdpoint_contracts::suspension::BlobContent;
use serde::{Deserialize, Serialize};
use sha2_for_hmac::digest::common::hazmat::{SerializableState as _, SerializedState};
use sha2_for_hmac::{Digest as _, Sha256};

/// The state after some bytes, as the library serializes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sha256State(BlobContent);

impl Default for Sha256State {
    fn default() -> Self {
        Self::stored(&Sha256::new())
    }
}

impl Sha256State {
    fn stored(hasher: &Sha256) -> Self {
        Self(BlobContent(hasher.serialize().as_slice().into()))
    }

    /// None: another version of the library has written the state.
    fn read(&self) -> Option<Sha256> {
        let state = <&SerializedState<Sha256>>::try_from(&*self.0.0).ok()?;
        Sha256::deserialize(state).ok()
    }

    /// The state after these bytes too. None: the state is unreadable.
    #[must_use]
    pub fn add(&self, bytes: &[u8]) -> Option<Self> {
        let mut hasher = self.read()?;
        hasher.update(bytes);
        Some(Self::stored(&hasher))
    }

    /// The hash in lowercase hexadecimal digits. None: the state is unreadable.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        let digest = self.read()?.finalize();
        Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The hash does not depend on the chunks, and the state survives its storage.
        #[test]
        fn chunks_give_the_hash_of_the_whole(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..6),
        ) {
            let mut state = Sha256State::default();
            for chunk in &chunks {
                let stored = serde_json::to_string(&state.add(chunk).unwrap()).unwrap();
                state = serde_json::from_str(&stored).unwrap();
            }
            let whole = format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(chunks.concat()));
            prop_assert_eq!(state.digest(), Some(whole));
        }

        #[test]
        fn an_unreadable_state_has_no_hash(bytes in prop::collection::vec(any::<u8>(), 0..104)) {
            let state = Sha256State(BlobContent(bytes.as_slice().into()));
            prop_assert_eq!(state.add(b"more"), None);
            prop_assert_eq!(state.digest(), None);
        }
    }
}
