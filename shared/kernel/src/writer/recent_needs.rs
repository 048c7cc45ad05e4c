//! The aggregates with which a batch begins.
//!
//! A decision on one aggregate often needs others, such as the agent of a run. A batch that begins without them decides its
//! inputs twice: first to learn what they need. Most batches need the same ones, and they are in the cache.

/// Aggregates that each batch begins with.
const KEYS_MAX: usize = 32;

/// Keys of cached aggregates that recent decisions needed.
#[derive(Debug)]
pub(super) struct RecentNeeds<K> {
    keys: Vec<K>,
}

impl<K> Default for RecentNeeds<K> {
    fn default() -> Self {
        Self { keys: Vec::new() }
    }
}

impl<K: PartialEq> RecentNeeds<K> {
    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Adds what the decisions of a batch asked for. A batch that began with an aggregate does not ask for it.
    pub(super) fn remember(&mut self, needed: Vec<K>, is_cached: impl Fn(&K) -> bool) {
        for key in needed {
            if self.keys.contains(&key) || !is_cached(&key) {
                continue;
            }
            // Those that are still needed come back with the next batch.
            if self.keys.len() >= KEYS_MAX {
                self.keys.clear();
            }
            self.keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_aggregates_are_remembered_once() {
        let mut recent = RecentNeeds::default();
        recent.remember(vec![1, 2, 1, 99], |key| *key < 10);
        assert_eq!(recent.keys(), [1, 2]);
        recent.remember(Vec::new(), |_| true);
        assert_eq!(recent.keys(), [1, 2]);
    }

    #[test]
    fn their_number_has_a_bound() {
        let mut recent = RecentNeeds::default();
        recent.remember((0..=KEYS_MAX).collect(), |_| true);
        assert_eq!(recent.keys(), [KEYS_MAX]);
    }
}
