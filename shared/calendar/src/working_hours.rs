//! Working time: when rungs of a policy with a calendar count and fire.
//!
//! A working day is an interval in the calendar's time zone. Its two ends are converted to instants, so that
//! clock changes need no other care. Durations are real time inside such intervals.

use chrono::{DateTime, Days, NaiveTime, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::handoff::Calendar;

use crate::{WorkingDays, first_instant};

/// Most days that one rung spans: more than the longest rung takes with the shortest week.
const DAYS_MAX: usize = 20_000;

/// Shortest working day, in minutes.
const DAY_MINUTES_MIN: i64 = 60;

/// A calendar that was validated.
#[derive(Debug)]
pub struct WorkingHours {
    days: WorkingDays,
    zone: Tz,
    from: NaiveTime,
    /// None: midnight at the end of the day.
    to: Option<NaiveTime>,
}

/// An invalid field of a calendar, and the error.
pub type CalendarError = (&'static str, String);

impl WorkingHours {
    /// # Errors
    /// An invalid field.
    pub fn read(calendar: &Calendar) -> Result<Self, CalendarError> {
        let zone = calendar.time_zone.parse::<Tz>().map_err(|_unknown| {
            let name = &calendar.time_zone;
            let text = format!(
                "invalid time zone `{name}`; expected a name such as `Europe/Berlin` or `UTC`"
            );
            ("time_zone", text)
        })?;
        let from = time(&calendar.from).ok_or_else(|| ("from", clock_text(&calendar.from)))?;
        let to = match calendar.to.as_str() {
            "24:00" => None,
            text => Some(time(text).ok_or_else(|| ("to", clock_text(text)))?),
        };
        let end = to.map_or(TimeDelta::days(1), |to| to - NaiveTime::MIN);
        if end - (from - NaiveTime::MIN) < TimeDelta::minutes(DAY_MINUTES_MIN) {
            let text = "`to` must be at least one hour after `from`";
            return Err(("to", text.to_owned()));
        }
        if calendar.days.is_empty() {
            return Err(("days", "expected at least one day of the week".to_owned()));
        }
        let days = WorkingDays {
            days: calendar.days.iter().copied().collect(),
            holidays: calendar.holidays.iter().copied().collect(),
        };
        Ok(Self {
            days,
            zone,
            from,
            to,
        })
    }

    /// The instant at which so much working time has passed since another one. It lies in working time, and
    /// never on the last instant of a day.
    #[must_use]
    pub fn after(&self, since: DateTime<Utc>, ms: u64) -> Option<DateTime<Utc>> {
        let mut left = TimeDelta::try_milliseconds(i64::try_from(ms).ok()?)?;
        for (opens, closes) in self.days(since) {
            let begins = opens.max(since);
            let available = closes - begins;
            if available <= TimeDelta::zero() {
                continue;
            }
            if left < available {
                return Some(begins + left);
            }
            left -= available;
        }
        None
    }

    /// Working time between two instants, in milliseconds.
    #[must_use]
    pub fn between(&self, since: DateTime<Utc>, until: DateTime<Utc>) -> u64 {
        let mut passed = TimeDelta::zero();
        for (opens, closes) in self.days(since) {
            if opens >= until {
                break;
            }
            let part = closes.min(until) - opens.max(since);
            passed += part.max(TimeDelta::zero());
        }
        u64::try_from(passed.num_milliseconds()).unwrap_or(0)
    }

    /// Opening and closing instants of the working days, beginning with the day of an instant.
    fn days(&self, since: DateTime<Utc>) -> impl Iterator<Item = (DateTime<Utc>, DateTime<Utc>)> {
        // A change of the zone's date may keep the day before open at this instant.
        let first = since.with_timezone(&self.zone).date_naive();
        let first = first.pred_opt().unwrap_or(first);
        let dates = (0_u64..).map_while(move |day| first.checked_add_days(Days::new(day)));
        let working = dates
            .take(DAYS_MAX)
            .filter(|date| self.days.contains(*date));
        working.map(|date| {
            let closes = match self.to {
                Some(to) => first_instant(self.zone, date.and_time(to)),
                None => {
                    let next = date.succ_opt().unwrap_or(date);
                    first_instant(self.zone, next.and_time(NaiveTime::MIN))
                }
            };
            (first_instant(self.zone, date.and_time(self.from)), closes)
        })
    }
}

fn time(text: &str) -> Option<NaiveTime> {
    NaiveTime::parse_from_str(text, "%H:%M").ok()
}

fn clock_text(text: &str) -> String {
    format!("invalid time of day `{text}`; expected a text such as `09:00`")
}
