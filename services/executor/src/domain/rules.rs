//! One file per rule that several commands share.

pub(crate) mod close_person_hold;
pub(crate) mod conditions;
pub(crate) mod derived_effects;
pub(crate) mod dispatch_step;
pub(crate) mod end_person_step;
pub(crate) mod fail_step;
pub(crate) mod handoff_ends;
pub(crate) mod handoff_events;
pub(crate) mod handoff_spec;
pub(crate) mod kept_answers;
pub(crate) mod lease_expiry;
pub(crate) mod missing_inputs;
pub(crate) mod next_steps;
pub(crate) mod open_hold;
pub(crate) mod open_hold_needs;
pub(crate) mod pauses;
pub(crate) mod person_holds;
pub(crate) mod resolved_args;
pub(crate) mod run_watchers;
pub(crate) mod scope_sync;
pub(crate) mod scopes;
pub(crate) mod step_retries;
pub(crate) mod take_over;
pub(crate) mod timers;
pub(crate) mod tool_questions;
pub(crate) mod uncertain_steps;
