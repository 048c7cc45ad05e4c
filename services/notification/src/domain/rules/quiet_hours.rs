//! When quiet hours hold a delivery back, in a zone whose clocks are put forward and back.
//!
//! Where that makes a time of day ambiguous or skips it, quiet hours become longer and never shorter.

use chrono::{DateTime, Datelike as _, Days, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::PendingReason;

use crate::domain::model::{DAY, DeliveryRules, DeliveryTarget, PlannedDelivery, QuietHours};

/// This priority leaves the application during quiet hours too.
const BREAKS_QUIET: Priority = Priority::Urgent;

/// Most quiet hours that follow each other without a minute between them.
const CHAIN_MAX: usize = 8;

impl DeliveryRules {
    /// Until when this priority is held back. `None`: it may leave now. The instant is outside of quiet
    /// hours and at most some days away.
    #[must_use]
    pub fn held_until(&self, priority: Priority, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if priority >= BREAKS_QUIET {
            return None;
        }
        self.quiet.as_ref()?.until(self.zone, now)
    }
}

impl PlannedDelivery {
    /// It leaves as soon as the quiet hours of the person allow it.
    #[must_use]
    pub fn after_quiet_hours(
        to: DeliveryTarget,
        rules: &DeliveryRules,
        priority: Priority,
        now: DateTime<Utc>,
    ) -> Self {
        match rules.held_until(priority, now) {
            Some(until) => Self {
                due_at: until,
                waits: PendingReason::QuietHours,
                ..Self::at_once(to, now)
            },
            None => Self::at_once(to, now),
        }
    }
}

impl QuietHours {
    /// When the current quiet hours end, including those that follow without a gap.
    fn until(&self, zone: Tz, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut end = self.end(zone, now)?;
        for _ in 0..CHAIN_MAX {
            match self.end(zone, end) {
                Some(later) => end = later,
                None => break,
            }
        }
        Some(end)
    }

    fn end(&self, zone: Tz, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let today = now.with_timezone(&zone).date_naive();
        let yesterday = today.checked_sub_days(Days::new(1));
        let began = [yesterday, Some(today)].into_iter().flatten();
        let ends = began.filter_map(|day| {
            let (start, end) = self.on(zone, day)?;
            (start <= now && now < end).then_some(end)
        });
        ends.max()
    }

    /// The quiet hours that begin on a day.
    fn on(&self, zone: Tz, day: NaiveDate) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let weekday = usize::try_from(day.weekday().num_days_from_monday()).ok()?;
        if !*self.days.get(weekday)? {
            return None;
        }
        let over_night = if self.to <= self.from { DAY } else { 0 };
        let start = instants(zone, day, self.from)?.0;
        let end = instants(zone, day, self.to + over_night)?.1;
        Some((start, end))
    }
}

/// The first and the last instant at which clocks show so many minutes after midnight of a day. If they
/// never do, the first instant after that.
pub(super) fn instants(
    zone: Tz,
    day: NaiveDate,
    minutes: u32,
) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let midnight = day.and_hms_opt(0, 0, 0)?;
    let shown = midnight.checked_add_signed(TimeDelta::minutes(i64::from(minutes)))?;
    holdpoint_calendar::instants(zone, shown)
}
