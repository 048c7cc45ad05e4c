//! The routes that decide one request: respond, approve, reject and revise.

use holdpoint_contracts::handoff::{DecideRequest, Decided, Decision};
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use serde::Deserialize;
use serde_json::Value;

use crate::auth::may::{Decide, May};
use crate::body::{invalid_field, rewrite_prefixes};
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::CommandResult;
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
    /// Arguments of the gated call instead of the requested ones (S2-R4).
    #[serde(default, alias = "editedArgs")]
    edited_args: Option<Value>,
    /// The digest of the arguments that the person has seen.
    #[serde(default)]
    digest: Option<String>,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviseBody {
    instructions: String,
    #[serde(default)]
    version: Option<u64>,
}

type DecisionCall<B> = Call<Decide, HoldId, B>;

pub(super) async fn respond(call: DecisionCall<JsonBody<RespondBody>>) -> CommandResult<Decided> {
    let RespondBody { answer, version } = call.body;
    let decision = Decision::Respond { answer };
    decide(&call.caller, call.key, call.id, decision, version).await
}

pub(super) async fn approve(
    call: DecisionCall<OptionalJson<ApproveBody>>,
) -> CommandResult<Decided> {
    let ApproveBody {
        comment,
        edited_args,
        digest,
        version,
    } = call.body;
    if let Some(comment) = &comment {
        check_length("/comment", comment)?;
    }
    let decision = Decision::Approve {
        comment,
        edited_args,
        digest,
    };
    decide(&call.caller, call.key, call.id, decision, version).await
}

pub(super) async fn reject(call: DecisionCall<OptionalJson<RejectBody>>) -> CommandResult<Decided> {
    let RejectBody { reason, version } = call.body;
    check_required("/reason", &reason)?;
    let decision = Decision::Reject { reason };
    decide(&call.caller, call.key, call.id, decision, version).await
}

pub(super) async fn revise(call: DecisionCall<JsonBody<ReviseBody>>) -> CommandResult<Decided> {
    let ReviseBody {
        instructions,
        version,
    } = call.body;
    check_required("/instructions", &instructions)?;
    let decision = Decision::Revise { instructions };
    decide(&call.caller, call.key, call.id, decision, version).await
}

fn check_required(pointer: &str, text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        let message = "must not be empty; it is recorded and shown";
        return Err(invalid_field(pointer, message));
    }
    check_length(pointer, text)
}

/// # Errors
/// 422 for a text above [`COMMENT_MAX`].
pub(in crate::routes) fn check_length(pointer: &str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > COMMENT_MAX {
        let message = format!("must have at most {COMMENT_MAX} characters");
        return Err(invalid_field(pointer, &message));
    }
    Ok(())
}

/// Members of the command, and where the bodies have them.
const BODY_POINTERS: [(&str, &str); 5] = [
    ("/decision/respond", ""),
    ("/decision/approve", ""),
    ("/decision/reject", ""),
    ("/decision/revise", ""),
    ("/decision/complete", ""),
];

/// The answer of every route that decides one request.
pub(in crate::routes) async fn decide(
    caller: &May<Decide>,
    key: Option<IdempotencyKey>,
    id: HoldId,
    decision: Decision,
    version: Option<u64>,
) -> CommandResult<Decided> {
    let command = DecideRequest {
        id,
        decision,
        version,
        silent: false,
    };
    let outcome = decide_request(&caller.app, caller, key, command).await;
    Ok(outcome.map_err(|problem| rewrite_prefixes(problem, &BODY_POINTERS))?)
}
