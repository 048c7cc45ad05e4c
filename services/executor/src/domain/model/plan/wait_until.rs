//! A wait until an instant that is known when the step starts.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Weekday};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Waits until a date, a weekday, or what a placeholder says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitUntil {
    pub until: Until,
    /// IANA name of the time zone that a date or time without an offset is in.
    pub time_zone: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// A date, a date with a time, or a duration; perhaps a placeholder for one of them.
    Text(String),
    /// The next such day after the present one, or the present one if its time is still to come.
    Weekday {
        day: Weekday,
        /// Minutes after midnight.
        minutes: u32,
    },
    /// So many working days later, at the same local time.
    BusinessDays(u32),
}

impl WaitUntil {
    /// What may hold placeholders.
    #[must_use]
    pub fn template(&self) -> Value {
        match &self.until {
            Until::Text(text) => json!({ "until": text }),
            Until::Weekday { .. } | Until::BusinessDays(_) => Value::Null,
        }
    }

    /// One line for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let zone = &self.time_zone;
        match &self.until {
            Until::Text(text) if text.contains('$') || text.contains("{{") => {
                format!("Wait until {text}")
            }
            Until::Text(text) => format!("Wait until {text} ({zone})"),
            Until::Weekday { day, minutes } => {
                let (hour, minute) = (minutes / 60, minutes % 60);
                let day = day_name(*day);
                format!("Wait until {day} at {hour:02}:{minute:02} ({zone})")
            }
            Until::BusinessDays(1) => format!("Wait 1 business day ({zone})"),
            Until::BusinessDays(days) => format!("Wait {days} business days ({zone})"),
        }
    }
}

/// The names of the weekdays, as authors write them.
pub const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Mon),
    ("tuesday", Weekday::Tue),
    ("wednesday", Weekday::Wed),
    ("thursday", Weekday::Thu),
    ("friday", Weekday::Fri),
    ("saturday", Weekday::Sat),
    ("sunday", Weekday::Sun),
];

const fn day_name(day: Weekday) -> &'static str {
    match day {
        Weekday::Mon => "Monday",
        Weekday::Tue => "Tuesday",
        Weekday::Wed => "Wednesday",
        Weekday::Thu => "Thursday",
        Weekday::Fri => "Friday",
        Weekday::Sat => "Saturday",
        Weekday::Sun => "Sunday",
    }
}

/// A date, or a date with a time, without an offset.
#[must_use]
pub fn read_local(text: &str) -> Option<NaiveDateTime> {
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Some(date.and_time(NaiveTime::MIN));
    }
    let forms = [
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d %H:%M:%S",
    ];
    let mut read = forms
        .iter()
        .map(|form| NaiveDateTime::parse_from_str(text, form));
    read.find_map(Result::ok)
}
