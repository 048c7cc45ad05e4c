//! The commands that suspend runs and their steps, and those of a step that continues (S1).

pub(crate) mod continue_step;
pub(crate) mod put_blob;
pub(crate) mod suspend_run;
pub(crate) mod suspend_steps;
