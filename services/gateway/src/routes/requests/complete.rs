//! Completing a handoff (S0-T3): by its request, or by the run that waits for it (S0-R4).

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{
    Completion, DecideRequest, Decided, Decision, Disposition, GetRequest, ListRequests,
    OutcomeType, RequestStatus, RequestView,
};
use holdpoint_contracts::run::{HoldKind, RunStatus};
use holdpoint_contracts::{Problem, instant};
use holdpoint_ids::{HoldId, RunId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{LOOK_AT_MOST, decide, decided, short};
use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;
use axum::http::StatusCode;

/// How long the scheduler has to say that no timer is left.
const TIMER_WAIT: Duration = Duration::from_secs(1);

/// S0-R4, literally.
const NOT_WAITING: &str = "Cannot complete handoff: Execution not in waiting state";
const NOT_FOUND: &str = "Cannot complete handoff: Execution not found";
const NOT_CANCELLED: &str = "Handoff completed but failed to cancel scheduled resume";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteBody {
    #[serde(default)]
    notes: String,
    #[serde(default)]
    outcome_type: OutcomeType,
    disposition: Disposition,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteRunBody {
    #[serde(default)]
    notes: String,
    #[serde(default)]
    outcome_type: OutcomeType,
    #[serde(default = "finish")]
    disposition: Disposition,
    #[serde(default)]
    version: Option<u64>,
}

const fn finish() -> Disposition {
    Disposition::Finish
}

#[derive(Debug, Serialize)]
struct CompletedHandoff {
    success: bool,
    execution: Execution,
    message: String,
    warnings: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Execution {
    execution_id: RunId,
    status: RunStatus,
    #[serde(with = "holdpoint_contracts::instant::option")]
    completed_at: Option<DateTime<Utc>>,
    completed_by: Option<String>,
}

/// `POST /requests/{id}/complete`: both dispositions are named by whoever completes.
pub(super) async fn complete(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let it: CompleteBody = body.json()?;
    short("/notes", &it.notes)?;
    let decision = Decision::Complete(Completion {
        notes: it.notes,
        outcome_type: it.outcome_type,
        disposition: it.disposition,
    });
    decide(&app, &caller, body, (id, decision, it.version)).await
}

/// `PUT /runs/{run}/complete-handoff`.
pub(super) async fn complete_run(
    State(app): State<App>,
    caller: Caller,
    PathId(run): PathId<String>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    // The words are fixed (S0-R4), also for what cannot be the id of a run.
    let run: RunId = run
        .parse()
        .map_err(|_error| Problem::not_found(NOT_FOUND))?;
    let it: CompleteRunBody = body.json_or_empty()?;
    short("/notes", &it.notes)?;
    let id = open_handoff(&app, &caller, run).await?;
    let command = DecideRequest {
        id,
        decision: Decision::Complete(Completion {
            notes: it.notes,
            outcome_type: it.outcome_type,
            disposition: it.disposition,
        }),
        version: it.version,
    };
    let decided = decided(&app, &caller, body.key, command).await;
    let decided = match decided.map_err(in_old_words)? {
        CommandOutcome::Done(decided) => decided,
        later @ CommandOutcome::Accepted(_) => return Ok(later.with_status(StatusCode::OK)),
    };
    let completed = completed(&app, &caller, run, decided).await?;
    Ok(Json(completed).into_response())
}

/// S0-R4: whoever completes a run's handoff after somebody else is told that the run does not wait.
fn in_old_words(problem: Problem) -> Problem {
    match &*problem.code {
        "already_decided" => Problem::new(409, "not_waiting", NOT_WAITING),
        _ => problem,
    }
}

/// The handoff that the run waits for. A completion that is repeated finds the completed one.
async fn open_handoff(app: &App, caller: &Caller, run: RunId) -> Result<HoldId, Problem> {
    let query = |status| ListRequests {
        limit: 1,
        status: Some(status),
        kind: Some(HoldKind::Handoff),
        run: Some(run),
        ..ListRequests::default()
    };
    for status in [RequestStatus::Open, RequestStatus::Completed] {
        let page = app.bus.query(&caller.workspace, &query(status)).await?;
        let by_caller = |request: &RequestView| {
            status == RequestStatus::Open
                || request.decided_by.as_deref() == Some(caller.claims.user.as_str())
        };
        if let Some(request) = page.items.into_iter().find(by_caller) {
            return Ok(request.id);
        }
    }
    match app.bus.query(&caller.workspace, &GetRun::of(run)).await {
        // The request may be on its way: the decision waits for it.
        Ok(run) => run
            .waiting_on
            .iter()
            .find(|on| on.kind == HoldKind::Handoff)
            .map(|on| on.id)
            .ok_or_else(|| Problem::new(409, "not_waiting", NOT_WAITING)),
        Err(problem) if problem.status == 404 => Err(Problem::not_found(NOT_FOUND)),
        Err(problem) => Err(problem),
    }
}

async fn completed(
    app: &App,
    caller: &Caller,
    run: RunId,
    decided: Decided,
) -> Result<CompletedHandoff, Problem> {
    let is_cleared = timer_is_cleared(app, caller, &decided.request).await;
    let view = app.bus.query(&caller.workspace, &GetRun::of(run)).await?;
    let request = decided.request;
    let by = request.decided_by.clone().unwrap_or_default();
    let at = request.decided_at.map(instant::write).unwrap_or_default();
    tracing::info!(%run, "Handoff completed by {by} at {at}");
    Ok(CompletedHandoff {
        success: true,
        execution: Execution {
            execution_id: run,
            status: view.status,
            completed_at: request.decided_at,
            completed_by: request.decided_by,
        },
        message: format!("Handoff completed by {by} at {at}"),
        warnings: if is_cleared {
            Vec::new()
        } else {
            vec![NOT_CANCELLED]
        },
    })
}

/// Whether the scheduler has confirmed, in its time, that no timer is left.
async fn timer_is_cleared(app: &App, caller: &Caller, request: &RequestView) -> bool {
    let by = Instant::now() + TIMER_WAIT;
    let mut is_open = request.timer_unconfirmed;
    while is_open && Instant::now() < by {
        tokio::time::sleep(LOOK_AT_MOST).await;
        let query = GetRequest { id: request.id };
        match app.bus.query(&caller.workspace, &query).await {
            Ok(newer) => is_open = newer.timer_unconfirmed,
            Err(problem) => tracing::debug!(%problem, "whether the timer is cleared is not known"),
        }
    }
    !is_open
}
