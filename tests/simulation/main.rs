//! Deterministic simulation: all cores on a simulated bus that fails as the real one does. It plays thousands of
//! histories by seed, without real time and without I/O.
//!
//! A failing history is reported by its seed and the fewest turns that still fail.
//! `HOLDPOINT_SEED=<n> cargo test --workspace --test simulation` plays it again.
//! `HOLDPOINT_HISTORIES=<n>` sets the number of histories: 500 by default, 3,000 where `CI` is set.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    reason = "a history ends at the first violated rule"
)]

mod approvals;
mod bus;
mod chance;
mod chaos;
mod checks;
mod conformance;
mod features;
mod histories;
mod mutations;
mod notification;
mod parsers;
mod people;
mod plans;
mod requests;
mod run_actions;
mod schedules;
mod service;
mod sweeps;
mod tables;
mod webhooks;
mod worker;
mod world;
