//! `GET /requests/{id}`: a request, or a long poll for its end.

use std::time::Duration;

use axum::Json;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::{Problem, duration};
use holdpoint_ids::HoldId;
use tokio::time::Instant;

use crate::auth::run_reader::RunReader;
use crate::call::{Call, NoBody};
use crate::params::{Params, invalid};
use crate::problem::JsonResult;
use crate::redaction::redact_for;
use crate::routes::asking;
use crate::use_cases::await_request::await_request;
use crate::use_cases::plan_warnings::with_plan_warnings;

const WAIT_MAX: Duration = Duration::from_mins(1);

/// The request as far as the reader may see it. With `wait`, once it has ended or that time is over.
pub(crate) async fn show(call: Call<RunReader, HoldId, NoBody, Params>) -> JsonResult<RequestView> {
    let (reader, id) = (call.caller, call.id);
    let params = call.params.only(&["wait"])?;
    let wait = params
        .read_as::<String>("wait")?
        .map_or(Ok(Duration::ZERO), |text| read_wait(&text))?;
    let Some(claims) = reader.user() else {
        return Ok(Json(asking::show_to_step(&reader, id, wait).await?));
    };
    let deadline = Instant::now() + wait;
    let has_ended = |request: &RequestView| !request.status.is_open();
    let request = await_request(&reader, id, deadline, has_ended).await?;
    let seen = redact_for(claims, request);
    let shown = with_plan_warnings(&reader.app, &reader.workspace, seen);
    Ok(Json(shown.await))
}

pub(crate) fn read_wait(text: &str) -> Result<Duration, Problem> {
    let wait =
        duration::parse(text).map_err(|error| invalid(format!("invalid `wait`: {error}")))?;
    if wait > WAIT_MAX {
        return Err(invalid("invalid `wait`; expected at most 60 seconds"));
    }
    Ok(wait)
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
