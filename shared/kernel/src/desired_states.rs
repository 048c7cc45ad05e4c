//! Desired states of other services: one row each, sent until its receiver has acknowledged it.

mod batching;
pub(crate) mod command;
mod in_flight;
mod replies;
pub(crate) mod resend;
pub(crate) mod rows;
pub(crate) mod sender;
mod unaccepted;
