//! The time zone in which a person reads times: the one of their preferences (D-10).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono_tz::Tz;
use holdpoint_contracts::notification::GetPreferences;
use holdpoint_ids::{UserName, Workspace};
use tokio::time::Instant;

use crate::app::App;
use crate::caller::Caller;

/// How long a page waits for the preferences; without them, times are in UTC.
const ASK_WITHIN: Duration = Duration::from_millis(300);

/// How long a zone is used before it is read again: another gateway may have changed it.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Zones that are kept; above it all are read again.
const KEPT_MAX: usize = 10_000;

/// Zones that were read a short time ago, by person.
#[derive(Debug, Default)]
pub(crate) struct Zones(Mutex<HashMap<(Workspace, UserName), (Tz, Instant)>>);

impl Zones {
    fn kept(&self, key: &(Workspace, UserName)) -> Option<Tz> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (zone, read_at) = kept.get(key)?;
        (read_at.elapsed() < KEPT_FOR).then_some(*zone)
    }

    fn keep(&self, key: (Workspace, UserName), zone: Tz) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, (zone, Instant::now()));
    }

    /// The person has changed their preferences.
    pub(crate) fn forget(&self, caller: &Caller) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&key(caller));
    }
}

fn key(caller: &Caller) -> (Workspace, UserName) {
    (caller.workspace.clone(), caller.claims.user.clone())
}

/// The zone of a caller; UTC where the preferences cannot be read at once.
pub(super) async fn of(app: &App, caller: &Caller) -> Tz {
    let key = key(caller);
    if let Some(zone) = app.zones.kept(&key) {
        return zone;
    }
    let person = key.1.clone();
    let query = GetPreferences { person };
    let read = app.bus.query(&caller.workspace, &query);
    let Ok(Ok(preferences)) = tokio::time::timeout(ASK_WITHIN, read).await else {
        return Tz::UTC;
    };
    let zone = preferences.time_zone.parse().unwrap_or(Tz::UTC);
    app.zones.keep(key, zone);
    zone
}
