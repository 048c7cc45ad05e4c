//! Committed messages, from the transaction that stores them to the bus.

mod backlog;
pub(crate) mod publisher;
pub(crate) mod recovery;
pub(crate) mod rows;
