//! Quiet hours as a person writes them.

use holdpoint_contracts::FieldError;
use holdpoint_contracts::handoff::Weekday;
use holdpoint_contracts::notification as contract;

/// Minutes of a day by the clock.
pub(crate) const DAY: u32 = 24 * 60;

/// Hours of the day in which nothing leaves the application, on some days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuietHours {
    /// Minutes since midnight.
    pub(in crate::domain) from: u32,
    /// The same. If it is not later than `from`, they end on the next day.
    pub(in crate::domain) to: u32,
    /// The days on which they begin, from Monday.
    pub(in crate::domain) days: [bool; 7],
}

impl QuietHours {
    /// Parses them, or returns every error.
    pub(super) fn read(said: &contract::QuietHours) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut minutes = |name: &str, text: &str, most: u32| {
            let read = minutes_of_day(text).filter(|minutes| *minutes <= most);
            if read.is_none() {
                errors.push(field_error(name, text, "is a time of day such as 22:00"));
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
            return Err(vec![field_error("to", &said.to, message)]);
        }
        let mut days = [said.days.is_empty(); 7];
        for day in &said.days {
            for (is_quiet, one) in days.iter_mut().zip(Weekday::ALL) {
                *is_quiet |= one == *day;
            }
        }
        if (from, to) == (0, DAY) && days == [true; 7] {
            let message =
                "leaves out a day: these never end. To have no mails, disable channels.email";
            return Err(vec![field_error("days", "", message)]);
        }
        Ok(Self { from, to, days })
    }
}

/// `HH:MM`, up to `24:00`.
pub(crate) fn minutes_of_day(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_plain)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sum = hours * 60 + minutes;
    (minutes < 60 && sum <= DAY).then_some(sum)
}

fn field_error(name: &str, text: &str, message: &str) -> FieldError {
    FieldError {
        text: text.chars().take(100).collect(),
        ..FieldError::at(
            &format!("/quiet_hours/{name}"),
            format!("quiet_hours.{name} {message}"),
        )
    }
}
