//! The core of runs: every arrow as an example, and what holds in every history.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it looks for, and fails on anything else"
)]

mod approvals;
mod approver_rights;
mod asked_items;
mod called_tools;
mod change_library;
mod child_runs;
mod doubtful_failures;
mod ending;
mod fan_out;
mod gate_entries;
mod histories;
mod leases;
mod limits;
mod many;
mod migrating;
mod missing_tools;
mod on_error;
mod operations;
mod patching;
mod pausing;
mod people;
mod planner;
mod redaction;
mod rehearsals;
mod repeated_lines;
mod replies;
mod require_active_user;
mod retry_run;
mod retrying;
mod revisions;
mod scheduled;
mod signals;
mod starting;
mod suspension;
mod table;
mod tool_registry;
mod tools;
mod uncertain;
mod waiting;
mod watching;
mod working;
mod world;
