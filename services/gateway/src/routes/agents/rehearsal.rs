//! `POST /agents/rehearse`: the runs of an agent on a clock of their own. Nothing is sent or stored.

use std::time::Duration;

use axum::Json;
use holdpoint_contracts::rehearsal::{RehearsalReport, RehearseAgent, SECONDS_MAX};

use super::planning::Planning;
use crate::auth::may::Look;
use crate::body::Body;
use crate::call::Call;
use crate::path::NoId;
use crate::problem::JsonResult;

/// The executor ends a rehearsal itself. It may wait for another one before.
const REPLY_WITHIN: Duration = Duration::from_secs(SECONDS_MAX + 10);

pub(super) async fn rehearse(
    call: Call<Planning<Look>, NoId, Body>,
) -> JsonResult<RehearsalReport> {
    let query: RehearseAgent = call.body.json(false)?;
    let Json(rehearsal) = call.caller.caller.query_within(query, REPLY_WITHIN).await?;
    Ok(Json(rehearsal.into()))
}
