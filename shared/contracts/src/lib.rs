//! Every message on the bus and every body at the edge: its type, its subject, its name.
//!
//! Modules are named after the service that handles a command or publishes an event. No subject is
//! written as text anywhere else. Commands are strict (unknown fields are refused), events and
//! views are tolerant for readers. This crate holds no rule and does no I/O.

#[macro_use]
mod macros;

pub mod agent;
pub mod asking;
#[cfg(test)]
mod catalogue;
pub mod contact;
pub mod dead_letter;
pub mod duration;
pub mod erasure;
pub mod executor;
pub mod form;
pub mod handoff;
pub mod history;
pub mod hold;
pub mod instant;
pub mod link;
pub mod message;
pub mod notification;
pub mod operation;
mod page;
pub mod permission;
pub mod problem;
pub mod rehearsal;
pub mod run;
pub mod scheduler;
pub mod secret;
pub mod size;
pub mod steps;
pub mod subject;
pub mod suspension;
pub mod tool;
pub mod value_limits;

pub use message::{Actor, Command, Envelope, IdempotencyKey, Query, Reply};
pub use problem::{FieldError, Problem};

/// Whether a field has its default value; a message then leaves it out.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
