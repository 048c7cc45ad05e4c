//! `/livez` and `/readyz`: whether the process runs, and whether it can do its work.

use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::executor::ListAgents;
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::Workspace;
use serde::Serialize;
use tokio::time::timeout;

use crate::app::App;
use crate::problem::Refused;

/// How long what we need may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Where the executor is asked something; it need not hold anything.
const PROBED_WORKSPACE: &str = "default";

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
}

#[derive(Debug, Serialize)]
struct Health {
    status: &'static str,
}

async fn live() -> Json<Health> {
    Json(Health { status: "live" })
}

async fn ready(State(app): State<App>) -> Result<Json<Health>, Refused> {
    let (database, executor) = tokio::join!(database(&app), executor(&app));
    let bus = if app.bus.is_connected() {
        Ok(())
    } else {
        Err("the bus is not connected")
    };
    let reasons: Vec<_> = [bus, database, executor]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if reasons.is_empty() {
        return Ok(Json(Health { status: "ready" }));
    }
    let errors = reasons
        .iter()
        .map(|reason| FieldError {
            message: (*reason).to_owned(),
            ..FieldError::default()
        })
        .collect();
    Err(Refused(
        Problem::new(503, "not_ready", reasons.join("; ")).with_errors(errors),
    ))
}

async fn database(app: &App) -> Result<(), &'static str> {
    match timeout(PATIENCE, app.readers.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err("the gateway's database does not answer"),
    }
}

/// Any answer will do, if it is not one of distress.
async fn executor(app: &App) -> Result<(), &'static str> {
    let silent = "the executor does not answer";
    let workspace: Workspace = PROBED_WORKSPACE.parse().map_err(|_never| silent)?;
    let query = ListAgents {
        limit: 1,
        cursor: None,
    };
    match timeout(PATIENCE, app.bus.query(&workspace, &query)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(problem)) if problem.status < 500 => Ok(()),
        Ok(Err(_)) | Err(_) => Err(silent),
    }
}
