//! Counts of concurrent work, each below a limit.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// How many permits are in use, by what they count for.
#[derive(Debug)]
pub(crate) struct Permits<K: Eq + Hash>(Arc<Mutex<HashMap<K, usize>>>);

/// Permits one piece of work until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit<K: Eq + Hash> {
    permits: Permits<K>,
    keys: Vec<K>,
}

impl<K: Eq + Hash> Clone for Permits<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Eq + Hash> Default for Permits<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> Permits<K> {
    /// Takes a permit that counts for several keys, each with a limit.
    ///
    /// # Errors
    /// The place of the first key that has reached its limit.
    pub(crate) fn take<const N: usize>(&self, limits: [(K, usize); N]) -> Result<Permit<K>, usize> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |(key, most): &(K, usize)| used.get(key).is_some_and(|used| used >= most);
        if let Some(place) = limits.iter().position(is_full) {
            return Err(place);
        }
        let keys = Vec::from(limits.map(|(key, _most)| key));
        for key in &keys {
            *used.entry(key.clone()).or_default() += 1;
        }
        drop(used);
        let permits = self.clone();
        Ok(Permit { permits, keys })
    }

    #[cfg(test)]
    pub(crate) fn are_unused(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let used = self.permits.0.lock();
        let mut used = used.unwrap_or_else(PoisonError::into_inner);
        for key in self.keys.drain(..) {
            if let Some(count) = used.get_mut(&key) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    used.remove(&key);
                }
            }
        }
    }
}
