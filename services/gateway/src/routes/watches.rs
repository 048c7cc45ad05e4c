//! `/watches`: the requests, runs and agents that the caller watches. Every user reads and changes only their own.

use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::notification::{ListWatches, Unwatch, WatchView, Watched};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::Deserialize;

use crate::app::App;
use crate::auth::may::{InPerson, Look};
use crate::call::{Call, JsonBody};
use crate::command_outcome::created_or_ok;
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};
use crate::use_cases::watch::watch;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/watches", get(list).post(add))
        .route("/watches/{id}", delete(remove))
}

/// Exactly one field is present.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchBody {
    request: Option<HoldId>,
    run: Option<RunId>,
    agent: Option<AgentName>,
}

impl WatchBody {
    fn into_watched(self) -> Result<Watched, Problem> {
        match (self.request, self.run, self.agent) {
            (Some(id), None, None) => Ok(Watched::Request(id)),
            (None, Some(id), None) => Ok(Watched::Run(id)),
            (None, None, Some(name)) => Ok(Watched::Agent(name)),
            _ => Err(Problem::invalid_body(
                "invalid watch; expected exactly one of `request`, `run` and `agent`",
            )),
        }
    }
}

/// All watches of the caller, without pages.
async fn list(call: Call<Look>) -> JsonResult<Page<WatchView>> {
    let person = call.caller.claims.user.clone();
    call.caller.query(ListWatches { person }).await
}

/// 201 for a new watch, else 200.
async fn add(
    call: Call<InPerson<Look>, NoId, JsonBody<WatchBody>>,
) -> ApiResult<(StatusCode, Json<WatchView>)> {
    let of = call.body.into_watched()?;
    let added = watch(&call.caller.app, &call.caller, call.key, of).await?;
    Ok((created_or_ok(added.new), Json(added.watch)))
}

async fn remove(call: Call<InPerson<Look>, Watched>) -> ApiResult<StatusCode> {
    let Json(_watch) = call.caller.ask(None, Unwatch { of: call.id }).await?;
    Ok(StatusCode::NO_CONTENT)
}
