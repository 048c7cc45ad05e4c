//! Time zones of users, cached for a short time so that a page does not ask for the preferences again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono_tz::Tz;
use holdpoint_auth::Claims;
use holdpoint_ids::{UserName, Workspace};
use tokio::time::Instant;

/// After this time a zone is read again: the user may have changed it at another gateway.
const TTL: Duration = Duration::from_secs(30);
/// At this size the cache is emptied.
const ENTRIES_MAX: usize = 10_000;

type Entries = HashMap<(Workspace, UserName), (Tz, Instant)>;

#[derive(Debug, Default)]
pub(crate) struct TimeZones(Mutex<Entries>);

impl TimeZones {
    pub(crate) fn get(&self, claims: &Claims) -> Option<Tz> {
        let entries = self.entries();
        let (zone, read_at) = entries.get(&key(claims))?;
        (read_at.elapsed() < TTL).then_some(*zone)
    }

    pub(crate) fn insert(&self, claims: &Claims, zone: Tz) {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            entries.clear();
        }
        entries.insert(key(claims), (zone, Instant::now()));
    }

    /// The user has changed their preferences here.
    pub(crate) fn forget(&self, claims: &Claims) {
        self.entries().remove(&key(claims));
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(claims: &Claims) -> (Workspace, UserName) {
    (claims.workspace.clone(), claims.user.clone())
}
