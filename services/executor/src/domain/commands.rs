//! One file per command, named after its verb on the wire: what an input does to its aggregate.

pub(crate) mod apply_agent;
pub(crate) mod cancel_run;
pub(crate) mod handoffs_updated;
pub(crate) mod heartbeat;
pub(crate) mod holds_closed;
pub(crate) mod lease_ended;
pub(crate) mod migrate_run;
pub(crate) mod pause_run;
pub(crate) mod pause_scope;
pub(crate) mod put_contact;
pub(crate) mod put_tool;
pub(crate) mod record_incident;
pub(crate) mod register_tools;
pub(crate) mod request_input;
pub(crate) mod resume_run;
pub(crate) mod retry_run;
pub(crate) mod signal_run;
pub(crate) mod start_operation;
pub(crate) mod start_run;
pub(crate) mod start_scheduled;
pub(crate) mod start_steps;
pub(crate) mod step_results;
pub(crate) mod suspension;
pub(crate) mod take_over_run;
pub(crate) mod timers_fired;
pub(crate) mod watch_run_ends;
