//! Working days: which dates count, and the instant a number of them later.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike as _, Days, NaiveDate, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::handoff::Weekday;
use serde::{Deserialize, Serialize};

use crate::zones::first_instant;

/// Most working days of a wait. No wait is longer than 90 days (S0-AC8).
pub const BUSINESS_DAYS_MAX: u32 = 90;

/// Most holidays of a calendar.
pub const HOLIDAYS_MAX: usize = 500;

/// Most dates that are looked at for one wait. One holiday a day cannot make the search longer.
const DATES_MAX: u64 = 366;

/// The days of a week on which work is done, without the holidays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingDays {
    pub days: BTreeSet<Weekday>,
    /// Dates on which no work is done, in the time zone that the caller names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub holidays: BTreeSet<NaiveDate>,
}

impl Default for WorkingDays {
    /// Monday to Friday, without holidays.
    fn default() -> Self {
        let days = [
            Weekday::Mon,
            Weekday::Tue,
            Weekday::Wed,
            Weekday::Thu,
            Weekday::Fri,
        ];
        Self {
            days: BTreeSet::from(days),
            holidays: BTreeSet::new(),
        }
    }
}

impl WorkingDays {
    #[must_use]
    pub fn contains(&self, date: NaiveDate) -> bool {
        self.days.contains(&Weekday::from(date.weekday())) && !self.holidays.contains(&date)
    }

    /// Fewest days in which so many working days can pass. It does not count holidays.
    #[must_use]
    pub fn fewest_days(&self, count: u32) -> u64 {
        let in_week = self.days.len().max(1) as u64;
        let weeks = u64::from(count.saturating_sub(1)) / in_week;
        weeks * 7 + 1
    }

    /// The instant `count` working days later, at the same local time. The present day does not count, whatever its hour.
    ///
    /// A local time that the clocks skip is the end of the gap. A time that they show twice is the first one.
    /// `None`: the calendar has too few working days within a year.
    #[must_use]
    pub fn later(&self, zone: Tz, since: DateTime<Utc>, count: u32) -> Option<DateTime<Utc>> {
        let local = since.with_timezone(&zone).naive_local();
        let following =
            (1..=DATES_MAX).map_while(|ahead| local.date().checked_add_days(Days::new(ahead)));
        let mut working = following.filter(|date| self.contains(*date));
        let last = usize::try_from(count.checked_sub(1)?).ok()?;
        let date = working.nth(last)?;
        Some(first_instant(zone, date.and_time(local.time())))
    }
}

#[cfg(test)]
mod tests;
