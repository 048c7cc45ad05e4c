//! The time zone in which a person reads times: the one of their preferences (D-10).

use std::time::Duration;

use chrono_tz::Tz;
use holdpoint_contracts::notification::GetPreferences;

use crate::app::App;
use crate::auth::caller::Caller;

/// How long a page waits for the preferences; without them, times are in UTC.
const ASK_WITHIN: Duration = Duration::from_millis(300);

/// The zone of a caller; UTC where the preferences cannot be read at once.
pub(super) async fn of(app: &App, caller: &Caller) -> Tz {
    if let Some(zone) = app.zones.get(&caller.claims) {
        return zone;
    }
    let person = caller.claims.user.clone();
    let query = GetPreferences { person };
    let read = app.bus.query(&caller.workspace, &query);
    let Ok(Ok(preferences)) = tokio::time::timeout(ASK_WITHIN, read).await else {
        return Tz::UTC;
    };
    let zone = preferences.time_zone.parse().unwrap_or(Tz::UTC);
    app.zones.insert(&caller.claims, zone);
    zone
}
