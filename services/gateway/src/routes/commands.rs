//! `GET /commands/{id}`: how far a command has come that was answered with 202.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::{Problem, Reply};
use holdpoint_ids::CommandId;
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::caller::{Caller, PathId};
use crate::params::NoParams;
use crate::problem::{ApiError, ProblemBody, database_away};
use crate::store::commands;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/commands/{id}", get(show))
}

#[derive(Debug, Serialize)]
struct CommandView {
    id: CommandId,
    /// `accepted` or `done`.
    state: &'static str,
    /// What its owner said.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Value>,
    /// Why its owner did not do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<CommandId>,
    _: NoParams,
) -> Result<Json<CommandView>, ApiError> {
    caller.may(Right::Look)?;
    let progress = commands::progress(&app.readers, id)
        .await
        .map_err(database_away)?
        .filter(|progress| progress.workspace == caller.workspace.as_str())
        .ok_or_else(|| Problem::not_found(format!("there is no command `{id}`")))?;
    let (state, answer, problem) = match progress.answer {
        None => ("accepted", None, None),
        Some(Reply::Ok(answer)) => ("done", Some(answer), None),
        Some(Reply::Problem(problem)) => ("done", None, Some(problem.into())),
    };
    Ok(Json(CommandView {
        id,
        state,
        answer,
        problem,
    }))
}
