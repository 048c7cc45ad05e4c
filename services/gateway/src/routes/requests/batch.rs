//! `POST /requests:batch`: one decision on many requests, with a result each.

use axum::Json;
use axum::extract::State;
use futures_util::{StreamExt, stream};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DecideRequest, Decision, Effect};
use holdpoint_ids::HoldId;
use serde::{Deserialize, Serialize};

use crate::answered::Answered;
use crate::app::App;
use crate::body::{Body, invalid_field, key_of_part};
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::Refused;

/// Most requests of one batch.
const IDS_MAX: usize = 500;

/// Decisions that are on their way at a time.
const AT_ONCE: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody {
    ids: Vec<HoldId>,
    decision: Decision,
    #[serde(default)]
    atomic: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

pub(super) async fn decide(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<impl axum::response::IntoResponse, Refused> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let batch: BatchBody = body.json()?;
    check(&batch)?;
    let BatchBody { ids, decision, .. } = batch;
    let results = stream::iter(ids).map(|id| {
        let command = DecideRequest {
            id,
            decision: decision.clone(),
            version: None,
        };
        let id_text = id.to_string();
        let key = body.key.as_ref();
        let key = key.map(|key| key_of_part(key, &id_text, key.digest.as_bytes()));
        let (app, caller) = (&app, &caller);
        async move {
            let answered = app.command(caller, key, command).await;
            result(id, answered.map(effect))
        }
    });
    let items = results.buffered(AT_ONCE).collect().await;
    Ok(Json(Results { items }))
}

fn check(batch: &BatchBody) -> Result<(), Problem> {
    if batch.atomic {
        let message = "all or none is not there yet; without it each has a result of its own";
        return Err(invalid_field("/atomic", message));
    }
    if batch.ids.is_empty() || batch.ids.len() > IDS_MAX {
        return Err(invalid_field("/ids", &format!("1 to {IDS_MAX} requests")));
    }
    Ok(())
}

/// Stored for later counts as recorded and not yet heard of.
fn effect(answered: Answered<holdpoint_contracts::handoff::Decided>) -> Effect {
    match answered {
        Answered::Done(decided) => decided.effect,
        Answered::Accepted(_) => Effect::Pending,
    }
}

fn result(id: HoldId, decided: Result<Effect, Problem>) -> Decided {
    match decided {
        Ok(effect) => Decided {
            id,
            recorded: true,
            effect: Some(effect),
            problem: None,
        },
        Err(problem) => Decided {
            id,
            recorded: false,
            effect: None,
            problem: Some(problem),
        },
    }
}
