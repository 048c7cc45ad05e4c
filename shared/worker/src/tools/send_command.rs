//! Commands and queries of built-in tools to the services that own what a tool changes or reads.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::{Command, Envelope, Query};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use tokio::time::Instant;

use crate::tool::BoxFuture;

/// How long a step waits for an unavailable service.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_secs(1);

type CommandReply<C> = Result<<C as Command>::Reply, Problem>;

/// Sends a command and returns the reply of the service.
pub type SendCommand<C> =
    Arc<dyn Fn(Workspace, Envelope<C>) -> BoxFuture<'static, CommandReply<C>> + Send + Sync>;

/// Sends a query and returns the reply of the service.
pub type SendQuery<Q> = Arc<
    dyn Fn(Workspace, Q) -> BoxFuture<'static, Result<<Q as Query>::Reply, Problem>> + Send + Sync,
>;

/// Sends over the bus until there is a reply. Repetitions are harmless: the envelope has a key or an id, and is
/// applied once.
#[must_use]
pub fn send_over<C: Command + Sync + 'static>(bus: Bus) -> SendCommand<C> {
    Arc::new(move |workspace, envelope| {
        let bus = bus.clone();
        Box::pin(async move { until_reply(|| bus.ask(&workspace, &envelope)).await })
    })
}

/// Sends over the bus until there is a reply.
#[must_use]
pub fn query_over<Q: Query + Sync + 'static>(bus: Bus) -> SendQuery<Q> {
    Arc::new(move |workspace, query| {
        let bus = bus.clone();
        Box::pin(async move { until_reply(|| bus.query(&workspace, &query)).await })
    })
}

async fn until_reply<R, F>(send: impl Fn() -> F) -> Result<R, Problem>
where
    F: Future<Output = Result<R, Problem>>,
{
    let end = Instant::now() + GIVE_UP_AFTER;
    loop {
        match send().await {
            Err(problem) if problem.is_transient() && Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            reply => return reply,
        }
    }
}
