//! One file for each command of a schedule. Timers have none: `decide` sets and fires them.

pub(crate) mod delete_schedule;
pub(crate) mod put_schedule;
pub(crate) mod start_answered;
