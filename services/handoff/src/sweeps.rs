//! What the handoff service does without a command.

mod reassignment;
mod retention;

pub(crate) use reassignment::Reassignment;
