//! The one loop of every service.
//!
//! Messages come in ([`intake`]), one database thread takes what is there, loads the aggregates,
//! lets the service's pure core decide one by one in memory, and saves everything in one
//! transaction with an outbox row ([`writer`], [`commit`], [`decide`]); a publisher then sends,
//! answers and acks ([`publisher`]). A service has no loop and no transaction of its own.
//!
//! Invariants: nothing is published or answered that was not committed; a message is acked after
//! its commit; what cannot be handled becomes a dead letter; of two writers of one aggregate one
//! wins and the other decides again.

mod activity;
mod commit;
pub mod crash;
mod dead_letters;
mod decide;
mod desired_states;
mod facts;
mod idempotency;
mod intake;
mod outbox;
mod publisher;
mod queries;
mod recovery;
mod service;
mod split;
mod start;
mod suspects;
mod sweep;
mod task;
mod writer;

#[cfg(test)]
mod tests;

pub use activity::KernelStatus;
pub use desired_states::{read_first, rows_as_command};
pub use facts::{Facts, FixedFacts};
pub use holdpoint_telemetry::Vital;
pub use queries::{Queries, serve_queries};
pub use service::{
    Acknowledged, AfterRefusal, Changed, DecodedCommand, DesiredState, EffectOf, FactOf, InputOf,
    KeyOf, NeedOf, Outbound, RefusedState, ReplyOf, Service, StateOf, Store,
};
pub use start::{Deps, Handle, KernelError, start};
pub use sweep::{Sweep, SweepPage, SweepTrigger, start_sweep};
