//! Requests of built-in tools to services that may be unavailable for a moment.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use tokio::time::Instant;

/// How long a step waits for an unavailable service.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// Wait between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks until there is a reply. Repetitions are harmless: the envelope has a key or an id, and is applied once.
pub(super) async fn ask_with_retry<C: Command>(
    bus: &Bus,
    workspace: &Workspace,
    envelope: &Envelope<C>,
) -> Result<C::Reply, Problem> {
    let end = Instant::now() + GIVE_UP_AFTER;
    loop {
        match bus.ask(workspace, envelope).await {
            Err(problem) if problem.is_transient() && Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            reply => return reply,
        }
    }
}
