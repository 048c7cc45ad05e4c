//! How a built-in tool asks another service that may be away for a moment.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use tokio::time::Instant;

/// How long a step waits for a service that is away.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks until there is an answer. The same key, or the same id: done once, however often it is asked.
pub(super) async fn patiently<C: Command>(
    bus: &Bus,
    workspace: &Workspace,
    envelope: &Envelope<C>,
) -> Result<C::Reply, Problem> {
    let end = Instant::now() + PATIENCE;
    loop {
        match bus.ask(workspace, envelope).await {
            Err(problem) if problem.is_transient() && Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}
