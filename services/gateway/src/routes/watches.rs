//! `/watches`: what the caller follows, to be told of it. Everybody sees and changes their own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{RunEndsOf, WatchRunEnds};
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::notification::{
    ListWatches, Unwatch, Watch, WatchAdded, WatchView, Watched,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::Deserialize;

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/watches", get(list).post(add))
        .route("/watches/{id}", delete(remove))
}

/// Exactly one of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchBody {
    #[serde(default)]
    request: Option<HoldId>,
    #[serde(default)]
    run: Option<RunId>,
    #[serde(default)]
    agent: Option<AgentName>,
}

impl WatchBody {
    fn of(self) -> Result<Watched, Problem> {
        match (self.request, self.run, self.agent) {
            (Some(id), None, None) => Ok(Watched::Request(id)),
            (None, Some(id), None) => Ok(Watched::Run(id)),
            (None, None, Some(name)) => Ok(Watched::Agent(name)),
            _ => Err(Problem::invalid_body(
                "say what you follow: exactly one of `request`, `run`, `agent`",
            )),
        }
    }
}

/// All of them: there are not many.
async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<WatchView>>, ApiError> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    let person = caller.claims.user.clone();
    let query = ListWatches { person };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

/// 201 where it is new, 200 where the caller did already.
async fn add(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<(StatusCode, Json<WatchView>), ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    let of = body.json::<WatchBody>()?.of()?;
    let added = follow(&app, &caller, body.key, of).await?;
    let status = match added.new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(added.watch)))
}

/// The caller follows something from now on. 404 for what is not there, in the words of whoever owns it.
/// The executor tells of ends from before that on, so that none falls between. Of an agent that nobody has
/// followed it may have heard meanwhile that nobody does, so it is told again before the caller is answered.
pub(crate) async fn follow(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    of: Watched,
) -> Result<WatchAdded, Problem> {
    match &of {
        Watched::Request(id) => drop(app.request(caller, *id).await?),
        Watched::Run(_) | Watched::Agent(_) => {
            watch_run_ends(app, caller, of.clone().into()).await?;
        }
    }
    let added = app.ask(caller, key, Watch { of: of.clone() }).await?;
    if let Watched::Agent(name) = &of
        && added.new
        && let Err(problem) = watch_run_ends(app, caller, of.clone().into()).await
    {
        tracing::info!(%problem, agent = %name, "the notification service asks for its ends");
    }
    Ok(added)
}

pub(super) async fn watch_run_ends(
    app: &App,
    caller: &Caller,
    of: RunEndsOf,
) -> Result<(), Problem> {
    let command = WatchRunEnds { of: vec![of] };
    for answer in app.ask(caller, None, command).await? {
        Result::from(answer)?;
    }
    Ok(())
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(of): PathId<Watched>,
    params: Params,
) -> Result<StatusCode, ApiError> {
    caller.may(Right::Look)?;
    caller.in_person()?;
    params.only(&[])?;
    app.ask(&caller, None, Unwatch { of }).await?;
    Ok(StatusCode::NO_CONTENT)
}
