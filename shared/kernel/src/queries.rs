//! Answers questions that change nothing, beside the writer and never in its way.

use std::sync::Arc;

use bytes::Bytes;
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

use crate::commit::write;
use crate::task::fitting;

/// Queries answered at the same time; the others wait their turn.
const CONCURRENT_MAX: usize = 64;

/// Answers the queries of one service.
pub trait Queries: Send + Sync + 'static {
    /// As in subjects.
    const NAME: &'static str;

    /// Answers one query with the JSON of its answer.
    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<serde_json::Value, Problem>>;
}

/// Answers queries until it is told to stop.
///
/// # Errors
/// [`BusError::Subscribe`] when the connection is closed.
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
    let places = Arc::new(Semaphore::new(CONCURRENT_MAX));
    let inner = tracker.clone();
    let vital = Vital {
        service: Q::NAME,
        part: "queries",
    };
    tracker.spawn(vital.run(async move {
        while let Some(Some(message)) = stop.run_until_cancelled(requests.next()).await {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                break;
            };
            let (bus, queries) = (bus.clone(), Arc::clone(&queries));
            inner.spawn(async move {
                answer(&bus, &*queries, message).await;
                drop(place);
            });
        }
    }));
    Ok(())
}

async fn answer<Q: Queries>(bus: &Bus, queries: &Q, message: async_nats::Message) {
    let reply = message.reply.map(|reply| reply.to_string());
    let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
        tracing::debug!(subject = %message.subject, "a query without an inbox was not answered");
        return;
    };
    let result = match subject::parse(&message.subject) {
        Some(parts) => queries.answer(&parts, &message.payload).await,
        None => Err(Problem::not_found(format!(
            "`{}` is no query",
            message.subject
        ))),
    };
    let body: Bytes = fitting(bus, write(&Reply::from(result)));
    if let Err(error) = bus.send(reply, body).await {
        tracing::warn!(%error, "an answer was not sent");
    }
}
