//! The one loop of every service.
//!
//! 1. Messages arrive and are decoded ([`intake`]).
//! 2. One database thread ([`writer`]) takes all that wait and loads their aggregates.
//! 3. The service's pure core decides the inputs one by one, in memory.
//! 4. One transaction saves everything, with an outbox row and desired states.
//! 5. The publisher sends messages, replies and acks ([`outbox`]).
//!
//! A service has no loop and no transaction of its own.
//!
//! Invariants:
//! - Nothing is published or replied that was not committed.
//! - A message is acked after its commit.
//! - A message that cannot be handled becomes a dead letter.
//! - Of two writers of one aggregate one wins, and the other decides again.

mod completion;
mod dead_letters;
mod desired_states;
mod erasure;
mod error_chain;
mod idempotency;
mod intake;
mod isolation;
mod origin;
mod outbox;
mod queries;
mod reply;
mod retention;
mod service;
mod start;
mod status;
mod suspects;
mod sweeps;
mod task;
mod traces;
mod writer;

#[cfg(test)]
mod tests;

pub use desired_states::command::{read_first, rows_as_command};
pub use erasure::{count_unacknowledged, erase_traces};
pub use holdpoint_telemetry::Vital;
pub use queries::{
    LIMIT_MAX, Queries, check_limit, cut_items, cut_page, read_query, serve_queries, write_reply,
};
pub use retention::{Expiring, start_retention};
pub use service::{
    AfterRefusal, Changed, DecodedCommand, DesiredState, EffectOf, FactOf, InputOf, KeyOf, NeedOf,
    Outbound, ReplyOf, SentState, Service, StateOf, Store,
};
pub use start::{Deps, Handle, KernelError, RETENTION_DEFAULT, start};
pub use status::KernelStatus;
pub use sweeps::{PendingSweep, Sweep, SweepPage, SweepTrigger, start_sweep};
pub use traces::Traces;
