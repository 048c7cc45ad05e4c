//! `GET /commands/{id}`: the progress of a command that was answered with 202.

use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::{Problem, Reply};
use holdpoint_ids::CommandId;
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::auth::may::Look;
use crate::call::Call;
use crate::problem::{JsonResult, ProblemBody};
use crate::store::commands;

pub(crate) fn routes() -> Router<App> {
    Router::new().route("/commands/{id}", get(show))
}

#[derive(Debug, Serialize)]
struct CommandView {
    id: CommandId,
    /// `accepted` or `done`.
    state: &'static str,
    /// The reply of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Value>,
    /// Why the service refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

async fn show(call: Call<Look, CommandId>) -> JsonResult<CommandView> {
    let (caller, id) = (call.caller, call.id);
    let progress = commands::progress(&caller.app.readers, id)
        .await?
        .filter(|progress| progress.workspace == caller.workspace.as_str())
        .ok_or_else(|| Problem::not_found(format!("command `{id}` not found")))?;
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
