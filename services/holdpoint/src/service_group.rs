//! Tasks of services that stop together.

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Default)]
pub(crate) struct ServiceGroup {
    pub(crate) stop: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl ServiceGroup {
    /// Stops the tasks and waits for them until a deadline.
    pub(crate) async fn stop(self, name: &str, deadline: Instant) {
        self.stop.cancel();
        self.tracker.close();
        if timeout_at(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!(
                group = name,
                "did not stop in time; the next start continues from the tables"
            );
        }
    }
}
