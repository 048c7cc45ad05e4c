//! The commands that suspend runs and their steps (S1).

pub(crate) mod suspend_run;
pub(crate) mod suspend_steps;
