//! Answers queries beside the writer. A query changes nothing and never delays a commit.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use holdpoint_bus::{Bus, BusError};
use holdpoint_contracts::message::{Query, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::subject::{self, Parts};
use holdpoint_telemetry::Vital;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::reply::{reply_json, send_reply};

/// Queries answered at the same time; further ones wait.
const CONCURRENT_MAX: usize = 64;

/// How long the start waits until the server knows the subscription.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(5);

pub const LIMIT_MAX: u64 = 500;

/// Most bytes of JSON in a page: a reply must fit into a message, however large its items are.
const PAGE_BYTES_MAX: usize = 512 * 1024;

pub trait Queries: Send + Sync + 'static {
    /// The name in subjects.
    const NAME: &'static str;

    fn answer<'a>(
        &'a self,
        parts: &'a Parts,
        body: &'a [u8],
    ) -> BoxFuture<'a, Result<serde_json::Value, Problem>>;
}

/// Reads the body of a query.
///
/// # Errors
/// 422 `invalid_body`.
pub fn read_query<Q: Query>(body: &[u8]) -> Result<Q, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", Q::NAME)))
}

/// Writes the reply to a query.
///
/// # Errors
/// 500: a defect.
pub fn write_reply(reply: impl Serialize) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(reply).map_err(|error| {
        tracing::error!(%error, "reply not serialized; the query failed");
        Problem::internal()
    })
}

/// The limit of a page, 1 to 500 items.
///
/// # Errors
/// 400 `invalid_query`.
pub fn check_limit(limit: u64) -> Result<u64, Problem> {
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!("invalid `limit` {limit}; expected 1 to {LIMIT_MAX}");
    Err(Problem::new(400, "invalid_query", detail))
}

/// Keeps the items that fit one page, by count and bytes; at least one. Returns whether there are more: the
/// caller has read one item more than `limit`.
pub fn cut_items<T: Serialize>(items: &mut Vec<T>, limit: u64) -> bool {
    let mut bytes = 0;
    let beyond = items.iter().position(|item| {
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes > PAGE_BYTES_MAX
    });
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let fitting = beyond.unwrap_or(items.len()).max(1).min(limit);
    let has_more = items.len() > fitting;
    items.truncate(fitting);
    has_more
}

/// One page of these items, cut as by [`cut_items`]. Its cursor names its last item.
pub fn cut_page<T: Serialize>(
    mut items: Vec<T>,
    limit: u64,
    cursor: impl Fn(&T) -> String,
) -> Page<T> {
    let has_more = cut_items(&mut items, limit);
    let next_cursor = items.last().filter(|_| has_more).map(cursor);
    Page { items, next_cursor }
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
    // A service that says it is ready must be found.
    bus.flush(SUBSCRIBED_WITHIN).await;
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
