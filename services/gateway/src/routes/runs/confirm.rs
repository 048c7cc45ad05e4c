//! `POST /runs/{run}/confirm`: the inputs that a run needs before its first step (S2-R12).

use axum::Json;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{Decided, Decision, ListRequests, RequestStatus, RequestView};
use holdpoint_contracts::run::{HoldKind, WaitingOn};
use holdpoint_ids::{HoldId, RunId};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::may::{Decide, May};
use crate::body::rewrite_prefixes;
use crate::call::{Call, JsonBody};
use crate::command_outcome::CommandResult;
use crate::problem::{ApiError, ApiResult};
use crate::redaction::runs::MISSING_INPUT;
use crate::routes::requests::decisions::decide;
use crate::use_cases::await_request::read_when_delivered;

/// Most answered questions of one run that are searched.
const QUESTIONS_MAX: u64 = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfirmBody {
    answers: Map<String, Value>,
    version: Option<u64>,
}

/// Answers the request for the inputs. So one of two answers wins, whichever way they arrive.
pub(super) async fn confirm(
    call: Call<Decide, RunId, JsonBody<ConfirmBody>>,
) -> CommandResult<Decided> {
    let ConfirmBody { answers, version } = call.body;
    let answer = Value::Object(answers);
    let decision = Decision::Respond { answer };
    let id = find_request(&call.caller, call.id).await?;
    let decided = decide(&call.caller, call.key, id, decision, version).await;
    decided.map_err(|ApiError(it)| rewrite_prefixes(it, &[("/answer", "/answers")]).into())
}

/// The request for the missing inputs of a run.
async fn find_request(caller: &May<Decide>, run: RunId) -> ApiResult<HoldId> {
    let Json(view) = caller.query(GetRun::of(run)).await?;
    // A question of a step names the step.
    let is_first = |on: &&WaitingOn| on.kind == HoldKind::Input && on.step.is_empty();
    let Some(first) = view.waiting_on.iter().find(is_first) else {
        return find_answered_request(caller, run).await;
    };
    // The handoff service may not have the request yet. A failure shows when the decision is sent.
    drop(read_when_delivered(&caller.app, &caller.workspace, first.id, true).await);
    Ok(first.id)
}

/// The request if it was answered before. A repeated answer gets the same reply, and another one learns who was
/// first.
async fn find_answered_request(caller: &May<Decide>, run: RunId) -> ApiResult<HoldId> {
    let query = ListRequests {
        limit: QUESTIONS_MAX,
        status: Some(RequestStatus::Decided),
        kind: Some(HoldKind::Input),
        run: Some(run),
        ..ListRequests::default()
    };
    let Json(page) = caller.query(query).await?;
    let is_first = |request: &RequestView| request.reason.as_deref() == Some(MISSING_INPUT);
    let first = page.items.into_iter().find(is_first);
    first.map(|request| request.id).ok_or_else(|| {
        let detail = format!("run `{run}` does not wait for inputs; see its `questions`");
        ApiError(Problem::new(409, "nothing_asked", detail))
    })
}
