//! `wait` as its author writes it: a duration, a date, a weekday, or a placeholder for one of the first two.

use chrono::{DateTime, Weekday};
use holdpoint_calendar::BUSINESS_DAYS_MAX;
use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde_json::{Map, Value};

use super::calendar::zone_name;
use super::diagnostics::shown;
use super::step::StepReader;
use crate::domain::expression::{diagnostic, has_placeholder};
use crate::domain::model::plan::Action;
use crate::domain::model::plan::wait_until::{DAYS, Until, WaitUntil, read_local};

const WAIT: [&str; 5] = ["until", "weekday", "at", "business_days", "time_zone"];

impl StepReader<'_, '_> {
    pub(super) fn wait(&mut self, value: &Value) -> Option<Action> {
        if let Value::Object(_) = value {
            let fields = self.object("wait", value, &WAIT)?;
            let wait = self.wait_object(value, fields)?;
            return Some(Action::WaitUntil(Box::new(wait)));
        }
        let text = value.as_str().unwrap_or_default();
        if let Some(days) = business_days_text(text) {
            let until = self.business_days(&Value::from(days))?;
            let time_zone = self.default_time_zone();
            return Some(Action::WaitUntil(Box::new(WaitUntil { until, time_zone })));
        }
        if has_placeholder(text.trim_start()) || looks_like_date(text) {
            let until = self.until(value)?;
            let time_zone = self.default_time_zone();
            return Some(Action::WaitUntil(Box::new(WaitUntil { until, time_zone })));
        }
        let duration_ms = self.duration_ms("wait", value)?;
        Some(Action::Wait { duration_ms })
    }

    fn wait_object(&mut self, value: &Value, fields: &Map<String, Value>) -> Option<WaitUntil> {
        let time_zone = self.time_zone(fields.get("time_zone"));
        let ends = ["until", "weekday", "business_days"].map(|name| fields.get(name));
        let until = match (ends, fields.get("at")) {
            ([Some(until), None, None], None) => self.until(until),
            ([None, None, Some(days)], None) => self.business_days(days),
            ([None, Some(day), None], at) => {
                let day = self.weekday(day);
                let minutes = self.time_of_day(at);
                Some(Until::Weekday {
                    day: day?,
                    minutes: minutes?,
                })
            }
            ([_, _, _], _) => {
                let message = "A `wait` object has either `until: DATE`, `business_days: 2`, or `weekday: DAY` with `at: \"HH:MM\"`. It may have a `time_zone`.";
                self.refuse("wait", value, message)
            }
        };
        Some(WaitUntil {
            until: until?,
            time_zone: time_zone?,
        })
    }

    fn until(&mut self, value: &Value) -> Option<Until> {
        let text = value.as_str().unwrap_or_default().trim();
        let is_date = read_local(text).is_some() || DateTime::parse_from_rfc3339(text).is_ok();
        if has_placeholder(text) || is_date {
            return Some(Until::Text(text.to_owned()));
        }
        let message = "The end of a wait is a date such as `2026-12-24`, a time such as `2026-12-24T09:00`, or a placeholder.";
        self.refuse("wait", value, message)
    }

    fn business_days(&mut self, value: &Value) -> Option<Until> {
        let days = value.as_u64().and_then(|days| u32::try_from(days).ok());
        let days = days.filter(|days| (1..=BUSINESS_DAYS_MAX).contains(days));
        days.map(Until::BusinessDays).or_else(|| {
            let message = format!("A wait has 1 to {BUSINESS_DAYS_MAX} business days.");
            self.refuse("wait", value, message)
        })
    }

    fn weekday(&mut self, value: &Value) -> Option<Weekday> {
        let text = shown(value).to_lowercase();
        if let Some((_, day)) = DAYS.iter().find(|(name, _)| *name == text) {
            return Some(*day);
        }
        let names = DAYS.iter().map(|(name, _)| *name);
        let error = FieldError {
            nearest: nearest(&text, names),
            ..diagnostic(
                &shown(value),
                "`weekday` is a day from `monday` to `sunday`.",
            )
        };
        self.report("wait", error);
        None
    }

    /// Minutes after midnight; the default is midnight.
    fn time_of_day(&mut self, value: Option<&Value>) -> Option<u32> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Some(0);
        };
        let minutes = value.as_str().and_then(read_time);
        minutes.or_else(|| {
            let message = "`at` is a time from `\"00:00\"` to `\"23:59\"`, in quotes.";
            self.refuse("wait", value, message)
        })
    }

    fn time_zone(&mut self, value: Option<&Value>) -> Option<String> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Some(self.default_time_zone());
        };
        let read = zone_name(value);
        read.map_err(|error| self.report("wait", *error)).ok()
    }
}

/// The number in `2 business days`, if the text says so.
pub(super) fn business_days_text(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let mut words = lower.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let is_unit = matches!(words.next(), Some("business" | "working"))
        && matches!(words.next(), Some("day" | "days"));
    (is_unit && words.next().is_none()).then_some(count)
}

fn read_time(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let part = |text: &str, below: u32| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u32>().ok().filter(|_| is_number)?;
        (number < below).then_some(number)
    };
    Some(part(hour, 24)? * 60 + part(minute, 60)?)
}

fn looks_like_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_some()
}
