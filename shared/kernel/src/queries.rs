//! Answers queries beside the writer. A query changes nothing and never delays a commit.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use holdpoint_bus::{Bus, BusError};
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_telemetry::Vital;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::reply::{reply_json, send_reply};

/// Queries answered at the same time; further ones wait.
const CONCURRENT_MAX: usize = 64;

/// Answers the queries of one service.
pub trait Queries: Send + Sync + 'static {
    /// The name in subjects.
    const NAME: &'static str;

    /// Answers one query with JSON.
    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<serde_json::Value, Problem>>;
}

/// Answers queries until the service stops.
///
/// # Errors
/// [`BusError::Subscribe`]: the connection is closed.
pub async fn serve_queries<Q: Queries>(
    bus: &Bus,
    queries: Arc<Q>,
    stop: CancellationToken,
    tracker: &TaskTracker,
) -> Result<(), BusError> {
    let filter = subject::queries_filter(Q::NAME);
    let mut requests = bus
        .client()
        .queue_subscribe(filter, Q::NAME.to_owned())
        .await?;
    let bus = bus.clone();
    let permits = Arc::new(Semaphore::new(CONCURRENT_MAX));
    let inner = tracker.clone();
    let vital = Vital {
        service: Q::NAME,
        part: "queries",
    };
    tracker.spawn(vital.run(async move {
        while let Some(Some(message)) = stop.run_until_cancelled(requests.next()).await {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                break;
            };
            let (bus, queries) = (bus.clone(), Arc::clone(&queries));
            inner.spawn(async move {
                answer(&bus, &*queries, message).await;
                drop(permit);
            });
        }
    }));
    Ok(())
}

async fn answer<Q: Queries>(bus: &Bus, queries: &Q, message: async_nats::Message) {
    let reply = message.reply.map(|reply| reply.to_string());
    let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
        tracing::debug!(subject = %message.subject, "query without an inbox not answered");
        return;
    };
    let result = match subject::parse(&message.subject) {
        Some(parts) => queries.answer(&parts, &message.payload).await,
        None => Err(Problem::not_found(format!(
            "`{}` is not the subject of a query",
            message.subject
        ))),
    };
    let body = reply_json(&Reply::from(result));
    send_reply(bus, Some(reply), Some(body)).await;
}
