//! `POST /requests:batch`: one decision on many requests, with a result each; with `atomic` on all of
//! them or on none.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    DecideRequest, DecideRequests, DecidedOne, Decision, Effect, Votes,
};
use holdpoint_contracts::problem::BATCH_ABORTED;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::{Body, invalid_field, key_of_part};
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{ApiError, ProblemBody};

/// Most requests of one batch.
const IDS_MAX: usize = DecideRequests::IDS_MAX;

/// Code of a batch that is all or none, and of which none was decided.
const NONE_DECIDED: &str = "none_decided";

/// Decisions that are on their way at a time.
const AT_ONCE: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody {
    ids: Vec<HoldId>,
    decision: Decision,
    #[serde(default)]
    atomic: bool,
    /// As they were seen, where that matters.
    #[serde(default)]
    versions: BTreeMap<HoldId, u64>,
}

#[derive(Debug, Serialize)]
struct Results {
    items: Vec<Decided>,
}

/// What became of one of them: `effect`, or `problem`.
#[derive(Debug, Serialize)]
struct Decided {
    id: HoldId,
    recorded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    /// So far, where more are needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    votes: Option<Votes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

pub(super) async fn decide(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let batch: BatchBody = body.json()?;
    check(&batch)?;
    if batch.atomic {
        return together(&app, &caller, body.key, batch).await;
    }
    let BatchBody {
        ids,
        decision,
        versions,
        atomic: _,
    } = batch;
    let results = stream::iter(ids).map(|id| {
        let command = DecideRequest {
            id,
            decision: decision.clone(),
            version: versions.get(&id).copied(),
        };
        let id_text = id.to_string();
        let key = body.key.as_ref();
        let key = key.map(|key| key_of_part(key, &id_text, key.digest.as_bytes()));
        let (app, caller) = (&app, &caller);
        async move {
            let answered = app.command(caller, key, command).await;
            result(id, answered.map(one))
        }
    });
    let items = results.buffered(AT_ONCE).collect().await;
    Ok(Json(Results { items }).into_response())
}

/// All or none, in one commit of their owner.
async fn together(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    batch: BatchBody,
) -> Result<Response, ApiError> {
    let command = DecideRequests {
        ids: batch.ids.clone(),
        decision: batch.decision,
        versions: batch.versions,
    };
    let replies = match app.command(caller, key, command).await? {
        CommandOutcome::Done(replies) => replies,
        later @ CommandOutcome::Accepted(_) => return Ok(later.with_status(StatusCode::OK)),
    };
    let told = batch.ids.into_iter().zip(replies);
    let items: Vec<_> = told
        .map(|(id, reply)| result(id, Result::from(reply)))
        .collect();
    match items.iter().find_map(stopped) {
        None => Ok(Json(Results { items }).into_response()),
        Some(detail) => {
            let problem = Problem::new(409, NONE_DECIDED, detail);
            Err(ApiError(problem.with_data(json!({ "items": items }))))
        }
    }
}

/// Whether this is one of those that stopped all, and why.
fn stopped(one: &Decided) -> Option<String> {
    let problem = one.problem.as_ref()?;
    let detail = &problem.detail;
    (problem.code != BATCH_ABORTED).then(|| format!("none was decided: `{}`: {detail}", one.id))
}

fn check(batch: &BatchBody) -> Result<(), Problem> {
    if batch.ids.is_empty() || batch.ids.len() > IDS_MAX {
        return Err(invalid_field("/ids", &format!("1 to {IDS_MAX} requests")));
    }
    let unique: HashSet<_> = batch.ids.iter().collect();
    if batch.atomic && unique.len() < batch.ids.len() {
        return Err(invalid_field("/ids", "each once"));
    }
    if let Some(other) = batch.versions.keys().find(|id| !unique.contains(id)) {
        let pointer = format!("/versions/{other}");
        return Err(invalid_field(&pointer, "it is none of `ids`"));
    }
    Ok(())
}

/// Stored for later counts as recorded and not yet heard of.
fn one(answered: CommandOutcome<holdpoint_contracts::handoff::Decided>) -> DecidedOne {
    match answered {
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

fn result(id: HoldId, decided: Result<DecidedOne, Problem>) -> Decided {
    match decided {
        Ok(DecidedOne { effect, votes }) => Decided {
            id,
            recorded: true,
            effect: Some(effect),
            votes,
            problem: None,
        },
        Err(problem) => Decided {
            id,
            recorded: false,
            effect: None,
            votes: None,
            problem: Some(problem.into()),
        },
    }
}
