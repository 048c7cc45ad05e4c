//! The pure core: one timer, its inputs and its effects.
//!
//! It never decides what a due time means, and knows no clock, database or bus.

mod decide;
mod model;

pub use decide::SchedulerDomain;
pub(crate) use model::HORIZON;
pub use model::{DueReply, Effect, Input, Key, Owner, Phase, Reply, Timer};

#[cfg(test)]
mod tests;
