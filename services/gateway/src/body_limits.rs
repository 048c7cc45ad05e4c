//! Limits of bodies on every route: size, deadline and least rate.
//!
//! A client that still sends does not read, and would lose the answer to a refused body in a reset. So the
//! rest of a body is read and dropped, within a limit, before the answer goes out.

use std::error::Error;
use std::iter;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::Problem;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use crate::problem::ApiError;

/// The largest body, in bytes.
pub(crate) const BODY_MAX: usize = 1024 * 1024;
/// How long a body may take to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(30);
/// Time in which [`LEAST`] bytes must arrive.
const WINDOW: Duration = Duration::from_secs(10);
/// Bytes that must arrive in a [`WINDOW`].
const LEAST: usize = 1_024;
/// Most bytes of an unread body that are read and dropped, and for how long.
const DROPPED_MAX: usize = 32 * 1_024 * 1_024;
const DROPPING_MAX: Duration = Duration::from_secs(10);

pub(crate) fn too_large() -> Problem {
    let detail = format!("body too large; expected at most {BODY_MAX} bytes");
    Problem::new(413, "too_large", detail)
}

/// The body did not arrive in time: 408.
#[derive(Debug, thiserror::Error)]
#[error("the body arrived too slowly")]
pub(crate) struct TooSlow;

/// Whether an error of a body has [`TooSlow`] as its source.
pub(crate) fn is_too_slow(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |&error| error.source()).any(|error| error.is::<TooSlow>())
}

/// Limits the body of a request, and drops its rest before the answer goes out.
pub(crate) async fn limit(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let waits = request.headers().contains_key(header::EXPECT);
    let announced = announced(request.headers());
    // A client with `Expect` sends nothing before it is asked to, so it can be refused without cost.
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
    // A length that is not a number is above every limit.
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
        tracing::debug!("rest of a body did not arrive; its connection is closed");
    }
}

/// A body that fails when it arrives too slowly.
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

/// The body as a handler reads it. The unread rest goes back to [`limit`].
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
