//! Bodies on their way in: a deadline and a least rate for every route, and a bounded rest that is read
//! and dropped.
//!
//! A client that still sends does not read. The answer to a body that nobody wanted would be lost in a
//! reset, so the rest is read before the answer is given.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::body::{BODY_MAX, too_large};
use crate::problem::ApiError;

/// How long a body may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
/// In each of these windows [`LEAST`] bytes must arrive.
const WINDOW: Duration = Duration::from_secs(10);
/// Bytes that a sender of a body manages in a [`WINDOW`].
const LEAST: usize = 1_024;
/// What is read and dropped of a body that nobody reads, in bytes, and for how long.
const DROPPED_MAX: usize = 32 * 1_024 * 1_024;
const DROPPING_MAX: Duration = Duration::from_secs(10);

/// The body did not arrive in time: 408.
#[derive(Debug, thiserror::Error)]
#[error("the body arrived too slowly")]
pub(crate) struct TooSlow;

/// Whether an error of a body says that it was too slow.
pub(crate) fn is_too_slow(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<TooSlow>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Watches a request's body, and drops the rest before the answer goes out.
pub(crate) async fn watch(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let waits = request.headers().contains_key(header::EXPECT);
    let announced = announced(request.headers());
    // Such a client sends nothing before it is told to, so that it can be refused without cost.
    if waits && announced.is_some_and(|bytes| bytes > BODY_MAX) {
        return ApiError(too_large()).into_response();
    }
    let (parts, body) = request.into_parts();
    let (left, mut rest) = oneshot::channel();
    let arriving = Arriving {
        arrival: Some(Arrival::of(body)),
        left: Some(left),
    };
    let request = Request::from_parts(parts, Body::from_stream(arriving));
    let response = next.run(request).await;
    if let Ok(rest) = rest.try_recv()
        && !waits
        && announced.is_none_or(|bytes| bytes <= DROPPED_MAX)
    {
        drop_rest(rest).await;
    }
    response
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    // A length beyond every number is beyond every limit, too.
    Some(length.parse().unwrap_or(usize::MAX))
}

async fn drop_rest(mut rest: Arrival) {
    let all = async {
        let mut dropped = 0_usize;
        while let Some(Ok(chunk)) = rest.next().await {
            dropped = dropped.saturating_add(chunk.len());
            if dropped > DROPPED_MAX {
                return;
            }
        }
    };
    if tokio::time::timeout(DROPPING_MAX, all).await.is_err() {
        tracing::debug!("the rest of a body did not arrive; its connection is closed");
    }
}

/// A body whose sender is given up when it is too slow.
struct Arrival {
    body: BodyDataStream,
    window: Pin<Box<Sleep>>,
    /// Bytes in this window.
    arrived: usize,
    deadline: Instant,
    has_ended: bool,
}

impl Arrival {
    fn of(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            window: Box::pin(tokio::time::sleep(WINDOW)),
            arrived: 0,
            deadline: Instant::now() + ARRIVAL_MAX,
            has_ended: false,
        }
    }

    fn too_slow(&mut self) -> Poll<Option<Result<Bytes, axum::Error>>> {
        self.has_ended = true;
        Poll::Ready(Some(Err(axum::Error::new(TooSlow))))
    }
}

impl Stream for Arrival {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        loop {
            if let Poll::Ready(chunk) = self.body.poll_next_unpin(cx) {
                match &chunk {
                    Some(Ok(_)) if Instant::now() >= self.deadline => return self.too_slow(),
                    Some(Ok(bytes)) => self.arrived = self.arrived.saturating_add(bytes.len()),
                    Some(Err(_)) | None => self.has_ended = true,
                }
                return Poll::Ready(chunk);
            }
            ready!(self.window.as_mut().poll(cx));
            let now = Instant::now();
            if self.arrived < LEAST || now >= self.deadline {
                return self.too_slow();
            }
            self.arrived = 0;
            self.window.as_mut().reset(now + WINDOW);
        }
    }
}

/// What a handler reads; what it leaves goes back to [`watch`].
struct Arriving {
    arrival: Option<Arrival>,
    left: Option<oneshot::Sender<Arrival>>,
}

impl Stream for Arriving {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.arrival
            .as_mut()
            .map_or(Poll::Ready(None), |arrival| arrival.poll_next_unpin(cx))
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let arrival = self.arrival.take().filter(|arrival| !arrival.has_ended);
        if let (Some(arrival), Some(left)) = (arrival, self.left.take()) {
            // The request may be gone with its connection.
            drop(left.send(arrival));
        }
    }
}
