//! Hours of the day in which nothing leaves the application, in a zone whose clocks are put forward
//! and back. Where that makes a time of day ambiguous or skips it, quiet is longer and never shorter.

use chrono::{DateTime, Datelike as _, Days, LocalResult, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::FieldError;
use holdpoint_contracts::notification::{Day, QuietHours};

/// Minutes of a day by the clock.
pub(super) const DAY: u32 = 24 * 60;

/// Most quiet hours that follow each other without a minute between them.
const CHAIN_MAX: usize = 8;

/// Longest time that clocks ever skipped, in minutes.
const SKIPPED_MAX: i64 = 25 * 60;

/// From when to when, on which days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quiet {
    /// Minutes since midnight.
    from: u32,
    /// The same; not later than `from`: on the next day.
    to: u32,
    /// On which days they begin, from Monday.
    days: [bool; 7],
}

impl Quiet {
    /// Reads them, or says all that is wrong.
    pub(super) fn read(said: &QuietHours) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut minutes = |name: &str, text: &str, most: u32| {
            let read = minutes(text).filter(|minutes| *minutes <= most);
            if read.is_none() {
                errors.push(wrong(name, text, "is a time of day such as 22:00"));
            }
            read.unwrap_or_default()
        };
        let from = minutes("from", &said.from, DAY - 1);
        let to = minutes("to", &said.to, DAY);
        if !errors.is_empty() {
            return Err(errors);
        }
        if from == to {
            let message = "is not the same as from; a whole day is from 00:00 to 24:00";
            return Err(vec![wrong("to", &said.to, message)]);
        }
        let mut days = [said.days.is_empty(); 7];
        for day in &said.days {
            for (is_quiet, one) in days.iter_mut().zip(Day::ALL) {
                *is_quiet |= one == *day;
            }
        }
        if (from, to) == (0, DAY) && days == [true; 7] {
            let message =
                "leaves out a day: these never end. To have no mails, disable channels.email";
            return Err(vec![wrong("days", "", message)]);
        }
        Ok(Self { from, to, days })
    }

    /// When quiet hours end that are now; those that follow at once count.
    pub(super) fn until(&self, zone: Tz, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
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

    /// Those that begin on a day.
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

/// The first and the last instant at which clocks show so many minutes after a day's midnight; where
/// they never do, the first one after.
pub(super) fn instants(
    zone: Tz,
    day: NaiveDate,
    minutes: u32,
) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
    let shown = day.and_hms_opt(0, 0, 0)? + TimeDelta::minutes(i64::from(minutes));
    let at = |skipped: i64| {
        let shown = shown + TimeDelta::minutes(skipped);
        match shown.and_local_timezone(zone) {
            LocalResult::Single(one) => Some((one.to_utc(), one.to_utc())),
            LocalResult::Ambiguous(first, last) => Some((first.to_utc(), last.to_utc())),
            LocalResult::None => None,
        }
    };
    (0..=SKIPPED_MAX).find_map(at)
}

/// `HH:MM`, up to `24:00`.
pub(super) fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sum = hours * 60 + minutes;
    (minutes < 60 && sum <= DAY).then_some(sum)
}

fn wrong(name: &str, text: &str, message: &str) -> FieldError {
    FieldError {
        text: text.chars().take(100).collect(),
        ..FieldError::at(
            &format!("/quiet_hours/{name}"),
            format!("quiet_hours.{name} {message}"),
        )
    }
}
