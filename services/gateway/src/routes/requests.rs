//! `/requests`: what waits for a person, acting on it and deciding it.

pub(crate) mod acting;
mod again;
mod batch;
mod completing;
pub(super) mod waiting;

use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{
    DecideRequest, Decided, Decision, Effect, ListRequests, RequestStatus, RequestView,
};
use holdpoint_contracts::notification::{DeliveryView, ListDeliveries};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{HoldId, UserName};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::asking::once_there;
use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::{Body, in_body, invalid_field};
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;
use axum::http::StatusCode;
use axum::response::Response;

/// However many nudges come, the owner is asked no more often than this.
const LOOK_AT_MOST: Duration = Duration::from_millis(50);
/// How long a decision waits for the executor's word.
const EFFECT_WAIT: Duration = Duration::from_secs(2);
/// Longest comment or reason, in characters.
const WORDS_MAX: usize = 10_000;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/requests", get(list))
        .route("/requests/{id}", get(waiting::show))
        .route("/requests/{id}/deliveries", get(deliveries))
        .route("/requests/{id}/respond", post(respond))
        .route("/requests/{id}/approve", post(approve))
        .route("/requests/{id}/reject", post(reject))
        .route("/requests/{id}/complete", post(completing::complete))
        .route("/requests/{id}/accept", post(acting::accept))
        .route("/requests/{id}/take-over", post(acting::take_over))
        .route("/requests/{id}/reassign", post(acting::reassign))
        .route("/requests/{id}/delegate", post(acting::delegate))
        .route("/requests/{id}/acknowledge", post(acting::acknowledge))
        .route("/requests/{id}/snooze", post(acting::snooze))
        .route("/requests/{id}/withdraw", post(acting::withdraw))
        .route("/requests/{id}/ask-again", post(again::ask_again))
        .route("/requests:batch", post(batch::decide))
        .route(
            "/runs/{run}/complete-handoff",
            put(completing::complete_run),
        )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RespondBody {
    /// `response` is the same: `/notifications/{id}/respond` began with that name.
    #[serde(alias = "response")]
    pub(super) answer: Value,
    #[serde(default)]
    pub(super) version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveBody {
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    version: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectBody {
    reason: String,
    #[serde(default)]
    version: Option<u64>,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<RequestView>>, ApiError> {
    caller.may(Right::Look)?;
    let known = [
        "status", "kind", "run", "assignee", "priority", "snoozed", "order", "limit", "cursor",
    ];
    let params = params.only(&known)?;
    let mut query = ListRequests {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        status: None,
        kind: params.read_word("kind")?,
        run: params.read_as("run")?,
        assignee: params.read_as("assignee")?,
        priority: params.read_as("priority")?,
        snoozed: params.read_as("snoozed")?,
        order: params.read_word("order")?.unwrap_or_default(),
        snoozed_by: None,
        cards: false,
    };
    (query.status, query.snoozed) = standing(&params, &query)?;
    query.snoozed_by = whose(&caller, &query);
    Ok(Json(app.requests(&caller, &query).await?))
}

/// Whose putting away counts: of whom the list is, else of whoever looks.
fn whose(caller: &Caller, query: &ListRequests) -> Option<UserName> {
    query.snoozed?;
    let own = || caller.claims.user.clone();
    Some(query.assignee.clone().unwrap_or_else(own))
}

/// How it stands, and whether somebody has put it away for later: `status=snoozed` is open and put
/// away. What one has put away is not in one's list of what is open.
fn standing(
    params: &Params,
    query: &ListRequests,
) -> Result<(Option<RequestStatus>, Option<bool>), Problem> {
    if params.read_as::<String>("status")?.as_deref() == Some("snoozed") {
        return Ok((Some(RequestStatus::Open), Some(true)));
    }
    let status: Option<RequestStatus> = params.read_word("status")?;
    let is_open = status.is_some_and(RequestStatus::is_open);
    let own = query.assignee.is_some() && is_open;
    Ok((status, query.snoozed.or(own.then_some(false))))
}

/// What left the application because of it: mails, and its callback.
async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    PathId(request): PathId<HoldId>,
    params: Params,
) -> Result<Json<Page<DeliveryView>>, ApiError> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListDeliveries {
        request,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn respond(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let RespondBody { answer, version } = body.json()?;
    let decision = Decision::Respond { answer };
    decide(&app, &caller, body, (id, decision, version)).await
}

async fn approve(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let ApproveBody { comment, version } = body.json_or_empty()?;
    if let Some(comment) = &comment {
        short("/comment", comment)?;
    }
    let decision = Decision::Approve { comment };
    decide(&app, &caller, body, (id, decision, version)).await
}

async fn reject(
    State(app): State<App>,
    caller: Caller,
    PathId(id): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let RejectBody { reason, version } = body.json_or_empty()?;
    short("/reason", &reason)?;
    if reason.trim().is_empty() {
        let problem = invalid_field("/reason", "say why; it is put on record and shown");
        return Err(ApiError(problem));
    }
    let decision = Decision::Reject { reason };
    decide(&app, &caller, body, (id, decision, version)).await
}

fn short(pointer: &str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > WORDS_MAX {
        let message = format!("it is {WORDS_MAX} characters at most");
        return Err(invalid_field(pointer, &message));
    }
    Ok(())
}

/// The answer of every route that decides.
pub(super) async fn decide(
    app: &App,
    caller: &Caller,
    body: Body,
    what: (HoldId, Decision, Option<u64>),
) -> Result<Response, ApiError> {
    let (id, decision, version) = what;
    let command = DecideRequest {
        id,
        decision,
        version,
    };
    let answered = decided(app, caller, body.key, command)
        .await
        .map_err(|problem| {
            ["respond", "approve", "reject", "complete"]
                .into_iter()
                .fold(problem, |problem, word| {
                    in_body(problem, &format!("/decision/{word}"), "")
                })
        })?;
    Ok(answered.with_status(StatusCode::OK))
}

/// Records a decision, whichever way led to it (API: one handler decides a request); then asks the
/// same again, which changes nothing, until the executor has said what it did to the run.
pub(crate) async fn decided(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    match when_there(app, caller, key, command.clone()).await? {
        CommandOutcome::Done(decided) => {
            let decided = effect(app, caller, command, decided).await;
            Ok(CommandOutcome::Done(decided))
        }
        later @ CommandOutcome::Accepted(_) => Ok(later),
    }
}

/// Records a decision. A run shows its request a moment before the handoff service has it: then the decision
/// waits for the request (C-3).
async fn when_there(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    command: DecideRequest,
) -> Result<CommandOutcome<Decided>, Problem> {
    let id = command.id;
    match app.command(caller, key.clone(), command.clone()).await {
        Err(problem) if problem.status == 404 => {
            if !is_waited_for(app, caller, id).await {
                return Err(problem);
            }
            once_there(app, &caller.workspace, id, true).await?;
            app.command(caller, key, command).await
        }
        answered => answered,
    }
}

/// Whether a run waits for this request.
async fn is_waited_for(app: &App, caller: &Caller, id: HoldId) -> bool {
    let query = GetRun::of(id.run);
    match app.bus.query(&caller.workspace, &query).await {
        Ok(run) => run.waiting_on.iter().any(|on| on.id == id),
        Err(_no_such_run) => false,
    }
}

/// Waits a moment for what a decision does to the run.
async fn effect(
    app: &App,
    caller: &Caller,
    command: DecideRequest,
    mut decided: Decided,
) -> Decided {
    let by = Instant::now() + EFFECT_WAIT;
    let mut pause = LOOK_AT_MOST;
    // Without the version: it has moved on with the decision itself.
    let again = DecideRequest {
        version: None,
        ..command
    };
    // A vote that does not decide yet has no effect to wait for.
    let is_waited_for =
        |decided: &Decided| decided.effect == Effect::Pending && !decided.request.status.is_open();
    while is_waited_for(&decided) && Instant::now() < by {
        tokio::time::sleep(pause).await;
        pause *= 2;
        match app.ask(caller, None, again.clone()).await {
            Ok(newer) => decided = newer,
            Err(problem) => {
                tracing::debug!(%problem, "the effect of a decision is not known");
                return decided;
            }
        }
    }
    decided
}
