//! Calendars: time zones and the instants of their local times, and working days with holidays.
//!
//! Every wait, schedule, quiet hour and working day uses these rules. They do not know what a time is for.

mod working_days;
mod working_hours;
mod zones;

pub use working_days::{BUSINESS_DAYS_MAX, HOLIDAYS_MAX, WorkingDays};
pub use working_hours::{CalendarError, WorkingHours};
pub use zones::{NAME_CHARS_MAX, first_instant, instants, read_zone};
