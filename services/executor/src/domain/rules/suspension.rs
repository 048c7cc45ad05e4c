//! Suspending a run, its snapshot, and what a resume does with the steps that were in progress (S1).

pub(crate) mod kept_blobs;
pub(crate) mod new_snapshot;
pub(crate) mod resumed_steps;
pub(crate) mod sandbox_state;
pub(crate) mod snapshot;
pub(crate) mod supplements;
pub(crate) mod suspend;
