//! Rules of schedules, one file for each.

pub(crate) mod fire_schedule;
pub(crate) mod fire_times;
