//! Derived texts and views of a run. Nothing here is stored.

pub mod handoff_briefing;
pub mod hold_messages;
pub mod run;
pub mod stored_steps;
pub mod warm_lead;
