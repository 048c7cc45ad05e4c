//! The field `calendar` of an agent: the time zone of its waits, and the days that count as business days.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::NaiveDate;
use holdpoint_calendar::{HOLIDAYS_MAX, WorkingDays, read_zone};
use holdpoint_contracts::duration::MAX_WAIT;
use holdpoint_contracts::handoff::Weekday;
use holdpoint_contracts::problem::FieldError;
use serde_json::Value;

use super::diagnostics::{AgentChecker, Place, shown};
use super::fields;
use crate::domain::expression::diagnostic;
use crate::domain::model::plan::wait_until::{DAYS, Until};
use crate::domain::model::plan::{Action, PlannedStep};

pub(super) const CALENDAR: &str = "calendar";

impl AgentChecker<'_> {
    /// Reads the calendar, and keeps its time zone for the waits.
    pub(super) fn calendar(&mut self, value: Option<&Value>) -> WorkingDays {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return WorkingDays::default();
        };
        let Value::Object(calendar) = value else {
            let message = "`calendar` is an object, such as `calendar: { time_zone: Europe/Berlin }`, or the name of a calendar of the workspace.";
            self.report_field(CALENDAR, &shown(value), message);
            return WorkingDays::default();
        };
        for field in calendar.keys() {
            if self.is_full() {
                break;
            }
            let known = ["time_zone", "days", "holidays"];
            if let Some(error) = fields::inner_field(field, CALENDAR, &known) {
                self.report(Place::Agent(Some(CALENDAR)), error);
            }
        }
        let present = |name: &str| calendar.get(name).filter(|it| !it.is_null());
        match present("time_zone").map(zone_name) {
            Some(Ok(name)) => self.time_zone = name,
            Some(Err(error)) => self.report(Place::Agent(Some(CALENDAR)), *error),
            None => {}
        }
        let default = WorkingDays::default();
        WorkingDays {
            days: present("days").map_or(default.days, |days| self.working_days(days)),
            holidays: present("holidays").map_or(default.holidays, |days| self.holidays(days)),
        }
    }

    /// Refuses waits that are longer than 90 days whenever they begin.
    pub(super) fn check_business_days(&mut self, days: &WorkingDays, steps: &[PlannedStep]) {
        let longest = MAX_WAIT.as_secs() / Duration::from_hours(24).as_secs();
        for (at, step) in steps.iter().enumerate() {
            let Action::WaitUntil(wait) = &step.action else {
                continue;
            };
            if let Until::BusinessDays(count) = wait.until
                && days.fewest_days(count) > longest
            {
                let message = format!(
                    "{count} business days of this calendar take more than {longest} days; a wait has at most {longest} days."
                );
                let text = wait.describe();
                self.report_step((at, &step.id), "wait", diagnostic(&text, message));
            }
        }
    }

    fn working_days(&mut self, value: &Value) -> BTreeSet<Weekday> {
        let days = value.as_array();
        let days = days.filter(|days| (1..=DAYS.len()).contains(&days.len()));
        let days = days.and_then(|days| days.iter().map(read_day).collect::<Option<_>>());
        days.unwrap_or_else(|| {
            let message =
                "`days` is a list of at least one day, from `mon` to `sun`, and each of them once.";
            self.report_field(CALENDAR, &shown(value), message);
            BTreeSet::new()
        })
    }

    fn holidays(&mut self, value: &Value) -> BTreeSet<NaiveDate> {
        let dates = value.as_array().filter(|dates| dates.len() <= HOLIDAYS_MAX);
        let dates = dates.and_then(|dates| dates.iter().map(read_date).collect::<Option<_>>());
        dates.unwrap_or_else(|| {
            let message = format!(
                "`holidays` is a list of at most {HOLIDAYS_MAX} dates such as `2026-12-25`."
            );
            self.report_field(CALENDAR, &shown(value), message);
            BTreeSet::new()
        })
    }
}

/// The name of a time zone that exists.
pub(super) fn zone_name(value: &Value) -> Result<String, Box<FieldError>> {
    let name = shown(value);
    let nearest = match read_zone(&name) {
        Ok(_) if value.is_string() => return Ok(name),
        Ok(_) => Vec::new(),
        Err(nearest) => nearest,
    };
    let message = "`time_zone` is an IANA name such as `Europe/Berlin`.";
    Err(Box::new(FieldError {
        nearest,
        ..diagnostic(&name, message)
    }))
}

/// `mon` or `Monday`.
fn read_day(value: &Value) -> Option<Weekday> {
    let text = value.as_str()?.to_lowercase();
    let mut names = DAYS.iter();
    let found = names.find(|(name, _)| *name == text || name.get(..3) == Some(text.as_str()));
    found.map(|(_, day)| Weekday::from(*day))
}

fn read_date(value: &Value) -> Option<NaiveDate> {
    NaiveDate::parse_from_str(value.as_str()?, "%Y-%m-%d").ok()
}
