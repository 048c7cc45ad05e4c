//! The routes that decide one request: respond, approve and reject.

use holdpoint_contracts::handoff::{DecideRequest, Decided, Decision};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::Value;

use crate::auth::may::{Decide, May};
use crate::body::{JsonBody, OptionalJson, invalid_field, rewrite_pointers};
use crate::command_outcome::CommandOutcome;
use crate::params::NoParams;
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};
use crate::use_cases::decide_request::decide_request;

/// Longest comment or reason, in characters.
const COMMENT_MAX: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::routes) struct RespondBody {
    /// `/notifications/{id}/respond` began with the name `response`.
    #[serde(alias = "response")]
    pub(in crate::routes) answer: Value,
    #[serde(default)]
    pub(in crate::routes) version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveBody {
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectBody {
    reason: String,
    #[serde(default)]
    version: Option<u64>,
}

pub(super) async fn respond(
    caller: May<Decide>,
    PathId(id): PathId<HoldId>,
    _: NoParams,
    body: JsonBody<RespondBody>,
) -> ApiResult<CommandOutcome<Decided>> {
    let RespondBody { answer, version } = body.value;
    let decision = Decision::Respond { answer };
    decide(&caller, body.key, id, decision, version).await
}

pub(super) async fn approve(
    caller: May<Decide>,
    PathId(id): PathId<HoldId>,
    _: NoParams,
    body: OptionalJson<ApproveBody>,
) -> ApiResult<CommandOutcome<Decided>> {
    let ApproveBody { comment, version } = body.value;
    if let Some(comment) = &comment {
        check_length("/comment", comment)?;
    }
    let decision = Decision::Approve { comment };
    decide(&caller, body.key, id, decision, version).await
}

pub(super) async fn reject(
    caller: May<Decide>,
    PathId(id): PathId<HoldId>,
    _: NoParams,
    body: OptionalJson<RejectBody>,
) -> ApiResult<CommandOutcome<Decided>> {
    let RejectBody { reason, version } = body.value;
    check_length("/reason", &reason)?;
    if reason.trim().is_empty() {
        let problem = invalid_field("/reason", "must not be empty; it is recorded and shown");
        return Err(ApiError(problem));
    }
    let decision = Decision::Reject { reason };
    decide(&caller, body.key, id, decision, version).await
}

/// # Errors
/// 422 for a text above [`COMMENT_MAX`].
pub(super) fn check_length(pointer: &str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > COMMENT_MAX {
        let message = format!("must have at most {COMMENT_MAX} characters");
        return Err(invalid_field(pointer, &message));
    }
    Ok(())
}

/// The answer of every route that decides one request.
pub(in crate::routes) async fn decide(
    caller: &May<Decide>,
    key: Option<IdempotencyKey>,
    id: HoldId,
    decision: Decision,
    version: Option<u64>,
) -> ApiResult<CommandOutcome<Decided>> {
    let command = DecideRequest {
        id,
        decision,
        version,
    };
    let outcome = decide_request(&caller.app, caller, key, command).await;
    Ok(outcome.map_err(|problem| {
        ["respond", "approve", "reject", "complete"]
            .into_iter()
            .fold(problem, |problem, verb| {
                rewrite_pointers(problem, &format!("/decision/{verb}"), "")
            })
    })?)
}
