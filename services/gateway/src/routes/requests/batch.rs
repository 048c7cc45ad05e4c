//! `POST /requests:batch`: one decision on many requests, with a result for each. With `atomic` all of them are
//! decided or none.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, TryStreamExt, stream};
use holdpoint_contracts::handoff::{DecideRequest, DecideRequests, DecidedOne, Decision, Effect};
use holdpoint_contracts::problem::BATCH_ABORTED;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::auth::may::{Decide, May};
use crate::body::{invalid_field, key_of_part};
use crate::call::{Call, JsonBody};
use crate::command_outcome::CommandOutcome;
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, ProblemBody};
use crate::use_cases::decide_request::check_edited_plan;

const IDS_MAX: usize = DecideRequests::IDS_MAX;

/// Code of an atomic batch of which no request was decided.
const NONE_DECIDED: &str = "none_decided";

/// Decisions of a batch that are sent at the same time.
const AT_ONCE: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody {
    ids: Vec<HoldId>,
    decision: Decision,
    #[serde(default)]
    atomic: bool,
    #[serde(default)]
    versions: BTreeMap<HoldId, u64>,
}

#[derive(Debug, Serialize)]
struct Results {
    items: Vec<DecisionResult>,
}

/// The result for one request: `effect`, with `votes` while more approvals are needed, or `problem`.
#[derive(Debug, Serialize)]
struct DecisionResult {
    id: HoldId,
    recorded: bool,
    #[serde(flatten)]
    decided: Option<DecidedOne>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

pub(super) async fn decide(call: Call<Decide, NoId, JsonBody<BatchBody>>) -> ApiResult<Response> {
    let (caller, key, batch) = (call.caller, call.key, call.body);
    check_ids(&batch)?;
    if batch.atomic {
        return decide_together(&caller, key, batch).await;
    }
    let results = stream::iter(batch.ids).map(|id| {
        let command = DecideRequest {
            id,
            decision: batch.decision.clone(),
            version: batch.versions.get(&id).copied(),
            silent: true,
        };
        let part = key.as_ref();
        let part = part.map(|key| key_of_part(key, &id.to_string(), key.digest.as_bytes()));
        let (app, caller) = (&caller.app, &caller);
        async move {
            let workspace = &caller.workspace;
            let checked = check_edited_plan(app, workspace, id, &command.decision).await;
            if let Err(problem) = checked {
                return result_of(id, Err(problem));
            }
            // A repeated decision changes nothing, so it needs no key.
            let decided = app.command_after(caller, part, None, command).await;
            result_of(id, decided.map(summarize))
        }
    });
    let items = results.buffered(AT_ONCE).collect().await;
    Ok(Json(Results { items }).into_response())
}

/// Decides all or none, in one commit of the handoff service.
async fn decide_together(
    caller: &May<Decide>,
    key: Option<IdempotencyKey>,
    batch: BatchBody,
) -> ApiResult<Response> {
    let (app, workspace, decision) = (&caller.app, &caller.workspace, &batch.decision);
    let ids = stream::iter(batch.ids.iter().copied().map(Ok));
    let check = |id| check_edited_plan(app, workspace, id, decision);
    ids.try_for_each_concurrent(AT_ONCE, check).await?;
    let command = DecideRequests {
        ids: batch.ids.clone(),
        decision: batch.decision,
        versions: batch.versions,
    };
    let replies = match caller.command(key, command).await? {
        CommandOutcome::Done(replies) => replies,
        later @ CommandOutcome::Accepted(_) => return Ok(later.into_response()),
    };
    let results = batch.ids.into_iter().zip(replies);
    let items: Vec<_> = results
        .map(|(id, reply)| result_of(id, Result::from(reply)))
        .collect();
    match items.iter().find_map(reason_to_abort) {
        None => Ok(Json(Results { items }).into_response()),
        Some(detail) => {
            let problem = Problem::new(409, NONE_DECIDED, detail);
            Err(ApiError(problem.with_data(json!({ "items": items }))))
        }
    }
}

/// Why a request aborted the batch, if it did.
fn reason_to_abort(one: &DecisionResult) -> Option<String> {
    let problem = one.problem.as_ref()?;
    let detail = &problem.detail;
    (problem.code != BATCH_ABORTED)
        .then(|| format!("no request was decided because of `{}`: {detail}", one.id))
}

fn check_ids(batch: &BatchBody) -> Result<(), Problem> {
    if batch.ids.is_empty() || batch.ids.len() > IDS_MAX {
        return Err(invalid_field(
            "/ids",
            &format!("must have 1 to {IDS_MAX} ids"),
        ));
    }
    let unique: HashSet<_> = batch.ids.iter().collect();
    if batch.atomic && unique.len() < batch.ids.len() {
        return Err(invalid_field("/ids", "must not repeat an id"));
    }
    if let Some(other) = batch.versions.keys().find(|id| !unique.contains(id)) {
        let pointer = format!("/versions/{other}");
        return Err(invalid_field(&pointer, "must be one of `ids`"));
    }
    Ok(())
}

/// A command that was stored for later counts as recorded with a pending effect.
fn summarize(outcome: CommandOutcome<holdpoint_contracts::handoff::Decided>) -> DecidedOne {
    match outcome {
        CommandOutcome::Done(decided) => DecidedOne {
            effect: decided.effect,
            votes: decided.request.votes_so_far(),
        },
        CommandOutcome::Accepted(_) => DecidedOne {
            effect: Effect::Pending,
            votes: None,
        },
    }
}

fn result_of(id: HoldId, decided: Result<DecidedOne, Problem>) -> DecisionResult {
    let (decided, problem) = match decided {
        Ok(decided) => (Some(decided), None),
        Err(problem) => (None, Some(problem.into())),
    };
    DecisionResult {
        id,
        recorded: decided.is_some(),
        decided,
        problem,
    }
}
