//! The tables of every service, one migrator each, with its own migration table.
//!
//! Forward only; CHECKs, UNIQUEs and partial indexes stand in the creating migration, since SQLite
//! cannot add them later. Migrations never use entities: those change.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the migration trait leaves out the manager's lifetime"
)]

pub mod executor;
pub mod gateway;
pub mod handoff;
mod kernel;
pub mod notification;
mod people;
pub mod scheduler;
