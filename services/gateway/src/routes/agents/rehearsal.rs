//! `POST /agents/rehearse`: the runs of an agent on a clock of their own. Nothing is sent or stored.

use std::time::Duration;

use axum::Json;
use holdpoint_contracts::rehearsal::{REPLY_SECONDS_MAX, RehearsalReport, RehearseAgent};

use super::limited_caller::LimitedCaller;
use crate::auth::may::Look;
use crate::body::Body;
use crate::call::Call;
use crate::path::NoId;
use crate::problem::JsonResult;
use crate::use_cases::rehearse::add_handoff_facts;

const REPLY_WITHIN: Duration = Duration::from_secs(REPLY_SECONDS_MAX);

/// The permit is taken after the body: a slow body would keep the workspace from rehearsing.
pub(super) async fn rehearse(
    call: Call<LimitedCaller<Look>, NoId, Body>,
) -> JsonResult<RehearsalReport> {
    let mut query: RehearseAgent = call.body.json(false)?;
    let caller = call.caller.caller;
    let user = caller.claims.user.as_str();
    let _permit = caller.app.rehearsals.take(&caller.workspace, user)?;
    add_handoff_facts(&caller.app, &caller.workspace, &mut query).await?;
    let Json(rehearsal) = caller.query_within(query, REPLY_WITHIN).await?;
    Ok(Json(rehearsal.into()))
}
