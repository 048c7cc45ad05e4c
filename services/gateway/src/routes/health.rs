//! `/livez` and `/readyz`: the process runs, and it can do its work.

use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::executor::ListAgents;
use holdpoint_contracts::handoff::ListUsers;
use holdpoint_contracts::{FieldError, Problem, Query};
use holdpoint_ids::Workspace;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::app::App;
use crate::problem::ApiError;

/// How long a dependency may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Workspace of the probing queries. It need not exist.
const PROBED_WORKSPACE: &str = "default";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
}

async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let agents = ListAgents {
        limit: 1,
        cursor: None,
    };
    let users = ListUsers {
        limit: 1,
        cursor: None,
    };
    let (database, executor, handoff) = tokio::join!(
        probe_database(&app),
        probe_service(&app, &agents),
        probe_service(&app, &users)
    );
    let bus = if app.bus.is_connected() {
        Ok(())
    } else {
        Err("the bus is not connected".to_owned())
    };
    let mut reasons: Vec<_> = [bus, database, executor, handoff]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if let Some(not_ready) = &app.not_ready {
        reasons.extend(not_ready());
    }
    if reasons.is_empty() {
        return Ok(Json(json!({ "status": "ready" })));
    }
    let errors = reasons
        .iter()
        .map(|reason| FieldError {
            message: reason.clone(),
            ..FieldError::default()
        })
        .collect();
    Err(ApiError(
        Problem::new(503, "not_ready", reasons.join("; ")).with_errors(errors),
    ))
}

async fn probe_database(app: &App) -> Result<(), String> {
    match timeout(ANSWER_MAX, app.readers.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err("the gateway's database does not answer".to_owned()),
    }
}

/// Every answer below 500 shows that the service works.
async fn probe_service<Q: Query + Sync>(app: &App, query: &Q) -> Result<(), String> {
    let silent = || format!("the {} service does not answer", Q::SERVICE);
    let workspace: Workspace = PROBED_WORKSPACE.parse().map_err(|_never| silent())?;
    match timeout(ANSWER_MAX, app.bus.query(&workspace, query)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(problem)) if problem.status < 500 => Ok(()),
        Ok(Err(_)) | Err(_) => Err(silent()),
    }
}
