//! The core by examples, by its table, and by properties.

mod approval_policies;
mod approval_records;
mod approved_items;
mod ask_again;
mod decide_request;
mod early_approvals;
mod erase_hold;
mod escalation;
mod handoff_events;
mod histories;
mod holds_table;
mod mentions;
mod open_hold;
mod policies;
mod progress;
mod put_user;
mod quorum;
mod races;
mod reassign_orphaned;
mod repeated_decisions;
mod set_holds;
mod standing_approvals;
mod working_hours;
mod world;
