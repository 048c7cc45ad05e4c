//! One request, asked and waited for: until it is not open any more, or until the time is over.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures_util::{Stream, StreamExt};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{self, GetRequest, RequestNudge, RequestView};
use holdpoint_contracts::{duration, subject};
use holdpoint_ids::HoldId;
use tokio::time::Instant;

use super::LOOK_AT_MOST;
use crate::app::App;
use crate::caller::{PathId, Reader};
use crate::params::{Params, invalid};
use crate::problem::ApiError;
use crate::routes::asking;
use crate::sight::redact_for;

/// The longest that one asks and waits.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// A lost nudge is made up for after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// One request, as far as the reader may see it; with `wait`, when it is not open any more, or when
/// that time is over.
pub(crate) async fn show(
    State(app): State<App>,
    reader: Reader,
    PathId(id): PathId<HoldId>,
    params: Params,
) -> Result<Json<RequestView>, ApiError> {
    let params = params.only(&["wait"])?;
    let wait = params
        .read_as::<String>("wait")?
        .map_or(Ok(Duration::ZERO), |text| read_wait(&text))?;
    let Some(claims) = reader.user() else {
        return Ok(Json(asking::show_to_step(&app, &reader, id, wait).await?));
    };
    let by = Instant::now() + wait;
    let is_closed = |request: &RequestView| !request.status.is_open();
    let request = until(&app, (&reader, id), by, is_closed).await?;
    Ok(Json(redact_for(claims, request)))
}

fn read_wait(text: &str) -> Result<Duration, Problem> {
    let wait = duration::parse(text).map_err(|error| invalid(format!("`wait`: {error}")))?;
    if wait > WAIT_MAX {
        return Err(invalid("`wait` is 60 seconds at most; ask again after it"));
    }
    Ok(wait)
}

/// Looks when the owner nudges, and now and then in case a nudge was lost.
pub(in crate::routes) async fn until(
    app: &App,
    (reader, id): (&Reader, HoldId),
    by: Instant,
    has_ended: impl Fn(&RequestView) -> bool,
) -> Result<RequestView, Problem> {
    let (workspace, query) = (&reader.workspace, GetRequest { id });
    if by <= Instant::now() {
        return app.bus.query(workspace, &query).await;
    }
    let _permit = app.streams.take(workspace, &reader.name())?;
    let nudges = subject::live(workspace, handoff::SERVICE);
    let mut nudges = app.bus.client().subscribe(nudges).await.map_err(|error| {
        tracing::warn!(%error, "no nudges");
        Problem::unavailable("waiting is not possible at the moment; try again")
    })?;
    loop {
        let asked_at = Instant::now();
        let request = app.bus.query(workspace, &query).await?;
        let is_over = Instant::now() >= by || app.closing.is_cancelled();
        if has_ended(&request) || is_over {
            return Ok(request);
        }
        let again = by.min(asked_at + LOOK_AGAIN);
        tokio::select! {
            () = nudged(&mut nudges, id) => {
                tokio::time::sleep_until(by.min(asked_at + LOOK_AT_MOST)).await;
            }
            () = tokio::time::sleep_until(again) => {}
            () = app.closing.cancelled() => {}
        }
    }
}

/// Waits for a nudge that names a request, or that cannot be read.
async fn nudged(nudges: &mut (impl Stream<Item = async_nats::Message> + Unpin), id: HoldId) {
    while let Some(message) = nudges.next().await {
        match serde_json::from_slice::<RequestNudge>(&message.payload) {
            Ok(nudge) if !nudge.requests.contains_key(&id) => {}
            Ok(_) | Err(_) => return,
        }
    }
    // The bus is going away; the slow look goes on.
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_minute_at_most() {
        assert_eq!(read_wait("30s").unwrap(), Duration::from_secs(30));
        assert!(read_wait("60s").is_ok());
        for wrong in ["61s", "soon", "", "30"] {
            let problem = read_wait(wrong).unwrap_err();
            assert_eq!((problem.status, &*problem.code), (400, "invalid_query"));
        }
    }
}
