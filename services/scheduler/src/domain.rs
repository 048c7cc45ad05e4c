//! The pure core: one timer or schedule, its inputs and its effects.
//!
//! It never decides what a due time means, and knows no clock, database or bus.

mod commands;
mod decide;
mod decision;
mod effect;
mod input;
mod model;
mod refusal;
mod rules;
mod transition;

pub use decision::{Fact, Need, SchedulerDomain};
pub use effect::{DueReply, Effect, Reply};
pub use input::{Input, SchedulePut};
pub(crate) use model::HORIZON;
pub use model::schedule::{Fire, PendingStart, Schedule, StartAnswer};
pub use model::{Key, Owner, Phase, Timer};
pub use refusal::Refusal;

#[cfg(test)]
mod tests;
