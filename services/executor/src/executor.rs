//! The executor as a service of the kernel: `store` and `outbound` implement its traits.

use std::sync::Arc;

use holdpoint_auth::Keys;
use holdpoint_clock::Clock;
use holdpoint_ids::{ContactId, Workspace};
use holdpoint_kernel::{PendingSweep, Vital};
use holdpoint_user_directory::Confirmation;

use crate::queues::Queues;
use crate::woken_keys::WokenKeys;
use crate::workspace_shares::WorkspaceShares;

/// The keys, the clock and the shared state of the executor's tasks.
#[derive(Debug, Clone)]
pub struct Executor {
    /// Verify assertions and sign the tokens of steps.
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    /// Commands for many that some of their runs do not follow yet.
    pub(crate) pages: Arc<PendingSweep>,
    /// Operations that have not reached all their runs.
    pub(crate) operations: Arc<PendingSweep>,
    /// Erasures that have not deleted all their runs.
    pub(crate) erasures: Arc<PendingSweep>,
    pub(crate) queues: Arc<Queues>,
    /// Keys with a place that a queued run may take.
    pub(crate) places: Arc<WokenKeys<String>>,
    /// Contacts that have replied, or whose reply a run begins to wait for.
    pub(crate) replies: Arc<WokenKeys<(Workspace, ContactId)>>,
    /// Which dispatches go to the overflow of their queue.
    pub(crate) shares: Arc<WorkspaceShares>,
    /// When the copy of the user directory was last confirmed.
    pub(crate) directory: Confirmation,
}

impl Executor {
    /// An executor that verifies assertions with `keys` at the time of `clock`.
    #[must_use]
    pub fn new(keys: Keys, clock: Clock) -> Self {
        Self {
            keys,
            clock,
            pages: Arc::default(),
            operations: Arc::default(),
            erasures: Arc::default(),
            queues: Arc::default(),
            places: Arc::default(),
            replies: Arc::default(),
            shares: Arc::default(),
            directory: Confirmation::default(),
        }
    }
}

/// A task whose panic ends the process, because without it steps would stop silently.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "executor",
        part,
    }
}
