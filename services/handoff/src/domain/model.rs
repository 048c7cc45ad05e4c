//! The state of the aggregates. It depends on nothing else in the domain.

pub(super) mod aggregate;
pub(super) mod limits;
pub(super) mod policy;
pub(super) mod progress;
pub(super) mod request;
pub(super) mod standing_approval;
pub(super) mod user;
