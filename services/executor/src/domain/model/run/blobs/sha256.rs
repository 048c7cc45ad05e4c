//! SHA-256 over chunks that arrive in different decisions. Its state is data, so that a restart continues it.

use serde::{Deserialize, Serialize};
use sha2_for_hmac::block_api::compress256;

/// Bytes of one block. Every chunk but the last one is a multiple of it.
pub const BLOCK_BYTES: usize = 64;

/// The state after whole blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sha256State([u32; 8]);

impl Default for Sha256State {
    /// As in FIPS 180-4, section 5.3.3.
    fn default() -> Self {
        Self([
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ])
    }
}

impl Sha256State {
    /// Adds the whole blocks of some bytes. Returns the bytes behind them.
    pub fn add_blocks<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        compress256(&mut self.0, blocks);
        rest
    }

    /// The hash in lowercase hexadecimal digits, after the last bytes. All bytes together are `total`.
    #[must_use]
    pub fn finish(mut self, last: &[u8], total: u64) -> String {
        let mut padded = self.add_blocks(last).to_vec();
        padded.push(0x80);
        while padded.len() % BLOCK_BYTES != BLOCK_BYTES - size_of::<u64>() {
            padded.push(0);
        }
        padded.extend(total.wrapping_mul(8).to_be_bytes());
        self.add_blocks(&padded);
        self.0.iter().map(|word| format!("{word:08x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest as _, Sha256};

    use super::*;

    proptest! {
        /// The hash does not depend on the chunks, and the state survives its storage.
        #[test]
        fn chunks_give_the_hash_of_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..700),
            blocks in 1..5_usize,
        ) {
            let mut state = Sha256State::default();
            let mut rest = bytes.as_slice();
            while let Some((chunk, more)) = rest.split_at_checked(blocks * BLOCK_BYTES) {
                prop_assert!(state.add_blocks(chunk).is_empty());
                let stored = serde_json::to_string(&state).unwrap();
                state = serde_json::from_str(&stored).unwrap();
                rest = more;
            }
            let found = state.finish(rest, u64::try_from(bytes.len()).unwrap());
            prop_assert_eq!(found, format!("{:x}", Sha256::digest(&bytes)));
        }
    }
}
