//! The state of the aggregates, and what can be read from it without a decision.

pub mod agent;
pub mod contact;
pub mod lease;
pub mod node;
pub mod plan;
pub mod run;
pub mod scope;
pub mod step_row;
pub mod time;
pub mod tool;
