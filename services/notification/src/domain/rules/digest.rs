//! One mail a day that gathers what is open.

use chrono::{DateTime, Datelike as _, Days, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_ids::NotificationId;

use super::quiet_hours::instants;
use crate::domain::decision::{Outcome, decided};
use crate::domain::effect::{Effect, NewDeliveries, Reply};
use crate::domain::model::{DeliveryRules, DeliveryTarget, PlannedDelivery, Preferences};

/// Quiet hours hold a digest back.
const PRIORITY: Priority = Priority::Low;

/// Days in which the next digest is searched: zones have skipped a day.
const DAYS: u64 = 4;

impl DeliveryRules {
    /// The first instant after now at which clocks show the time of the digest. On a day on which they skip
    /// it, it is a little later; on a day on which they show it twice, it comes once.
    pub(in crate::domain) fn digest_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let minutes = self.digest?;
        let today = now.with_timezone(&self.zone).date_naive();
        let first = today.checked_sub_days(Days::new(1))?;
        let days = (0..DAYS).filter_map(|later| first.checked_add_days(Days::new(later)));
        let mut starts = days.filter_map(|day| Some(instants(self.zone, day, minutes)?.0));
        starts.find(|start| *start > now)
    }

    /// The day that clocks show, such as 20260131.
    fn day(&self, at: DateTime<Utc>) -> u64 {
        let day = at.with_timezone(&self.zone).date_naive();
        let year = u64::try_from(day.year()).unwrap_or_default();
        year * 10_000 + u64::from(day.month()) * 100 + u64::from(day.day())
    }
}

/// Creates the digest that is due: at most one a day, however often preferences change in between. Missed
/// days are skipped.
pub(in crate::domain) fn create_digest(known: &Preferences, now: DateTime<Utc>) -> Outcome {
    let Some(due) = known.digest_at.filter(|due| *due <= now) else {
        return Outcome::Unchanged(Reply::Done);
    };
    let rules = DeliveryRules::read(&known.said).unwrap_or_default();
    let to = DeliveryTarget::Digest(known.person.clone());
    let posting = PlannedDelivery::after_quiet_hours(to, &rules, PRIORITY, now);
    let deliver = Effect::Deliver(NewDeliveries {
        workspace: known.workspace.clone(),
        id: NotificationId::digest(rules.day(due)),
        priority: PRIORITY,
        to: vec![posting],
    });
    let next = Preferences {
        digest_at: rules.digest_after(now),
        version: known.version + 1,
        ..known.clone()
    };
    decided(next, vec![deliver], Reply::Done)
}
