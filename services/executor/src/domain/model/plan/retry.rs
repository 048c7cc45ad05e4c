//! How often a step calls its tool before it fails, as its author or the registry of tools states it.

use holdpoint_contracts::tool::{
    ATTEMPTS_DEFAULT, BACKOFF_DEFAULT_MS, MAX_BACKOFF_DEFAULT_MS, ToolRetry,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// With the first one: 1 means no retries.
    pub attempts: u32,
    pub backoff_ms: u64,
    /// At least `backoff_ms`.
    pub max_backoff_ms: u64,
    /// Codes of the failures that are retried; empty: all that another attempt may avoid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
}

impl Retry {
    /// As `retry: none`.
    pub const NONE: Self = Self {
        attempts: 1,
        backoff_ms: BACKOFF_DEFAULT_MS,
        max_backoff_ms: MAX_BACKOFF_DEFAULT_MS,
        on: Vec::new(),
    };

    /// Of an idempotent tool whose author writes no `retry`.
    pub const IDEMPOTENT: Self = Self {
        attempts: ATTEMPTS_DEFAULT,
        backoff_ms: BACKOFF_DEFAULT_MS,
        max_backoff_ms: MAX_BACKOFF_DEFAULT_MS,
        on: Vec::new(),
    };

    /// Time before the attempt after this many failures, without jitter, in milliseconds.
    #[must_use]
    pub fn backoff_after(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        self.backoff_ms
            .saturating_mul(factor)
            .min(self.max_backoff_ms)
    }
}

impl From<&ToolRetry> for Retry {
    fn from(retry: &ToolRetry) -> Self {
        let longest = MAX_BACKOFF_DEFAULT_MS.max(retry.backoff);
        Self {
            attempts: retry.attempts,
            backoff_ms: retry.backoff,
            max_backoff_ms: retry.max_backoff.unwrap_or(longest),
            on: retry.on.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let after = |failures| Retry::IDEMPOTENT.backoff_after(failures);
        assert_eq!(
            [1, 2, 3, 6, 7, 8].map(after),
            [1_000, 2_000, 4_000, 32_000, 60_000, 60_000]
        );
        assert_eq!(after(u32::MAX), 60_000);
    }
}
