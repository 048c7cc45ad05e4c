//! Working time: when rungs of a policy with a calendar count, and when they may fire.
//!
//! A working day is an interval in the time zone of the calendar; what the clock change does to it is in
//! the instants of its ends. Durations are counted in real time inside such intervals.

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::handoff::{Calendar, Weekday};

/// Days that are looked at for one rung: more than the longest one takes on the shortest week.
const DAYS_MAX: usize = 20_000;

/// Shortest working day, in minutes.
pub(crate) const DAY_MINUTES_MIN: i64 = 60;

/// A calendar as it was read.
#[derive(Debug)]
pub(crate) struct WorkingHours<'a> {
    calendar: &'a Calendar,
    zone: Tz,
    from: NaiveTime,
    /// None: the end of the day.
    to: Option<NaiveTime>,
}

/// Which field of a calendar is wrong, and how.
pub(crate) type Wrong = (&'static str, String);

impl<'a> WorkingHours<'a> {
    /// Reads a calendar.
    pub(crate) fn read(calendar: &'a Calendar) -> Result<Self, Wrong> {
        let zone = calendar.time_zone.parse::<Tz>().map_err(|_unknown| {
            let name = &calendar.time_zone;
            let text = format!("`{name}` is no time zone: write one as `Europe/Berlin` or `UTC`");
            ("time_zone", text)
        })?;
        let from = time(&calendar.from).ok_or_else(|| ("from", clock_text(&calendar.from)))?;
        let to = match calendar.to.as_str() {
            "24:00" => None,
            text => Some(time(text).ok_or_else(|| ("to", clock_text(text)))?),
        };
        let end = to.map_or(TimeDelta::days(1), |to| to - NaiveTime::MIN);
        if end - (from - NaiveTime::MIN) < TimeDelta::minutes(DAY_MINUTES_MIN) {
            let text = "a working day has at least an hour, and `to` is after `from`";
            return Err(("to", text.to_owned()));
        }
        if calendar.days.is_empty() {
            return Err(("days", "at least one day of the week".to_owned()));
        }
        Ok(Self {
            calendar,
            zone,
            from,
            to,
        })
    }

    /// The instant at which so much working time has passed since another one: always within working
    /// time, its last instant excluded.
    pub(crate) fn after(&self, since: DateTime<Utc>, ms: u64) -> Option<DateTime<Utc>> {
        let mut rest = TimeDelta::try_milliseconds(i64::try_from(ms).ok()?)?;
        for (opens, closes) in self.days(since) {
            let begins = opens.max(since);
            let there_is = closes - begins;
            if there_is <= TimeDelta::zero() {
                continue;
            }
            if rest < there_is {
                return Some(begins + rest);
            }
            rest -= there_is;
        }
        None
    }

    /// How much working time lies between two instants, in milliseconds.
    pub(crate) fn between(&self, since: DateTime<Utc>, until: DateTime<Utc>) -> u64 {
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

    /// Working days from that of an instant on, as instants.
    fn days(&self, since: DateTime<Utc>) -> impl Iterator<Item = (DateTime<Utc>, DateTime<Utc>)> {
        // The day before may still be open where the instant is, by a zone's change of the date.
        let first = since.with_timezone(&self.zone).date_naive();
        let first = first.pred_opt().unwrap_or(first);
        let dates = (0_u64..).map_while(move |day| first.checked_add_days(Days::new(day)));
        let working = dates.take(DAYS_MAX).filter(|date| self.is_working(*date));
        working.map(|date| {
            let closes = match self.to {
                Some(to) => self.instant(date, to),
                None => {
                    let next = date.succ_opt().unwrap_or(date);
                    self.instant(next, NaiveTime::MIN)
                }
            };
            (self.instant(date, self.from), closes)
        })
    }

    fn is_working(&self, date: NaiveDate) -> bool {
        let day = Weekday::of(date.weekday());
        self.calendar.days.contains(&day) && !self.calendar.holidays.contains(&date)
    }

    /// The instant of a local time: the first one where the clock shows it twice, and the first one
    /// after it where the clock leaves it out.
    fn instant(&self, date: NaiveDate, time: NaiveTime) -> DateTime<Utc> {
        let mut local = date.and_time(time);
        // No clock change leaves out more than a day.
        for _ in 0..=96 {
            if let Some(found) = self.zone.from_local_datetime(&local).earliest() {
                return found.to_utc();
            }
            local += TimeDelta::minutes(15);
        }
        Utc.from_utc_datetime(&local)
    }
}

fn time(text: &str) -> Option<NaiveTime> {
    NaiveTime::parse_from_str(text, "%H:%M").ok()
}

fn clock_text(text: &str) -> String {
    format!("`{text}` is no time of day: write `09:00`")
}
