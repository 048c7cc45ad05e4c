//! The pure core: one timer, its inputs and its effects.
//!
//! It never decides what a due time means, and knows no clock, database or bus.

mod decide;
mod effect;
mod input;
mod model;

pub use decide::SchedulerDomain;
pub use effect::{DueReply, Effect, Reply};
pub use input::Input;
pub(crate) use model::HORIZON;
pub use model::{Key, Owner, Phase, Timer};

#[cfg(test)]
mod tests;
