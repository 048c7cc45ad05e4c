//! Deterministic simulation: all cores wired over a simulated bus as unkind as the real one, tens of
//! thousands of histories by seed, without real time and without I/O.
//!
//! A failing history is told by its seed and the fewest turns that still fail:
//! `HOLDPOINT_SEED=<n> cargo test --workspace --test simulation` plays it again.
//! `HOLDPOINT_HISTORIES=<n>` says how many are played: 500 unless said, 10,000 where `CI` is set.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    reason = "a history ends where something is not as it should be"
)]

mod bus;
mod chance;
mod checks;
mod conformance;
mod features;
mod histories;
mod notification;
mod parsers;
mod people;
mod plans;
mod planted;
mod requests;
mod service;
mod sweeps;
mod tables;
mod worker;
mod world;
