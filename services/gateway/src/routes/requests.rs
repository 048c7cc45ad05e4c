//! `/requests`: what waits for a person, acting on it and deciding it.

pub(crate) mod acting;
mod batch;
mod completing;

use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::{
    self, DecideRequest, Decided, Decision, Effect, GetRequest, ListRequests, RequestView,
};
use holdpoint_contracts::notification::{DeliveryView, ListDeliveries};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::{Asked, Problem};
use holdpoint_contracts::{duration, subject};
use holdpoint_ids::{HoldId, Workspace};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::answered::Answered;
use crate::app::App;
use crate::body::{Body, invalid_field};
use crate::caller::{Caller, Named};
use crate::params::{Params, invalid};
use crate::problem::Refused;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt;

/// The longest that one asks and waits.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// A lost nudge is made up for after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// However many nudges come, the owner is asked no more often than this.
const LOOK_AT_MOST: Duration = Duration::from_millis(50);
/// How long a decision waits for the executor's word.
const EFFECT_WAIT: Duration = Duration::from_secs(2);
/// Longest comment or reason, in characters.
const WORDS_MAX: usize = 10_000;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/requests", get(list))
        .route("/requests/{id}", get(show))
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
        .route("/requests:batch", post(batch::decide))
        .route(
            "/runs/{run}/complete-handoff",
            put(completing::complete_run),
        )
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondBody {
    answer: Value,
    #[serde(default)]
    version: Option<u64>,
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
) -> Result<Json<Page<RequestView>>, Refused> {
    caller.may(Right::Look)?;
    let known = [
        "status", "kind", "run", "assignee", "priority", "limit", "cursor",
    ];
    let params = params.only(&known)?;
    let query = ListRequests {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        status: params.read_word("status")?,
        kind: params.read_word("kind")?,
        run: params.read_as("run")?,
        assignee: params.read_as("assignee")?,
        priority: params.read_as("priority")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

/// One request; with `wait`, when it is not open any more, or when that time is over.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<HoldId>,
    params: Params,
) -> Result<Json<RequestView>, Refused> {
    caller.may(Right::Look)?;
    let params = params.only(&["wait"])?;
    let wait = params
        .read_as::<String>("wait")?
        .map_or(Ok(Duration::ZERO), |text| read_wait(&text))?;
    Ok(Json(until_closed(&app, &caller.workspace, id, wait).await?))
}

/// What left the application because of it: mails, and its callback.
async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    Named(request): Named<HoldId>,
    params: Params,
) -> Result<Json<Page<DeliveryView>>, Refused> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListDeliveries {
        request,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

fn read_wait(text: &str) -> Result<Duration, Problem> {
    let wait = duration::parse(text).map_err(|error| invalid(format!("`wait`: {error}")))?;
    if wait > WAIT_MAX {
        return Err(invalid("`wait` is 60 seconds at most; ask again after it"));
    }
    Ok(wait)
}

/// Looks when the owner nudges, and once a second in case a nudge was lost.
async fn until_closed(
    app: &App,
    workspace: &Workspace,
    id: HoldId,
    wait: Duration,
) -> Result<RequestView, Problem> {
    let query = GetRequest { id };
    let by = Instant::now() + wait;
    if wait.is_zero() {
        return app.bus.query(workspace, &query).await;
    }
    let _permit = app.stream_permit()?;
    let nudges = subject::live(workspace, handoff::SERVICE);
    let mut nudges = app.bus.client().subscribe(nudges).await.map_err(|error| {
        tracing::warn!(%error, "no nudges");
        Problem::unavailable("waiting is not possible at the moment; try again")
    })?;
    loop {
        let asked_at = Instant::now();
        let request = app.bus.query(workspace, &query).await?;
        let is_over = Instant::now() >= by || app.closing.is_cancelled();
        if !request.status.is_open() || is_over {
            return Ok(request);
        }
        let again = by.min(asked_at + LOOK_AGAIN);
        tokio::select! {
            _nudge = nudges.next() => {
                tokio::time::sleep_until(by.min(asked_at + LOOK_AT_MOST)).await;
            }
            () = tokio::time::sleep_until(again) => {}
            () = app.closing.cancelled() => {}
        }
    }
}

async fn respond(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let RespondBody { answer, version } = body.json()?;
    let decision = Decision::Respond { answer };
    decide(&app, &caller, body, (id, decision, version)).await
}

async fn approve(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
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
    Named(id): Named<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, Refused> {
    params.only(&[])?;
    caller.may(Right::Decide)?;
    let RejectBody { reason, version } = body.json_or_empty()?;
    short("/reason", &reason)?;
    if reason.trim().is_empty() {
        let problem = invalid_field("/reason", "say why; it is put on record and shown");
        return Err(Refused(problem));
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

/// Records what a body says.
pub(super) async fn decide(
    app: &App,
    caller: &Caller,
    body: Body,
    what: (HoldId, Decision, Option<u64>),
) -> Result<Response, Refused> {
    decide_under(app, caller, body.key, what).await
}

/// Records a decision; then asks the same again, which changes nothing, until the executor has
/// said what it did to the run.
pub(crate) async fn decide_under(
    app: &App,
    caller: &Caller,
    key: Option<Asked>,
    what: (HoldId, Decision, Option<u64>),
) -> Result<Response, Refused> {
    let (id, decision, version) = what;
    let command = DecideRequest {
        id,
        decision,
        version,
    };
    let answered = app.command(caller, key, command.clone()).await?;
    let answered = match answered {
        Answered::Done(decided) => Answered::Done(effect(app, caller, command, decided).await),
        later @ Answered::Accepted(_) => later,
    };
    Ok(answered.with_status(StatusCode::OK))
}

/// Waits a moment for what a decision does to the run.
pub(crate) async fn effect(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_minute_at_most() {
        assert_eq!(read_wait("30s").unwrap(), Duration::from_secs(30));
        assert!(read_wait("60s").is_ok());
        for wrong in ["61s", "soon", "", "30"] {
            let problem = read_wait(wrong).unwrap_err();
            assert_eq!((problem.status, &*problem.code), (400, "invalid_query"));
        }
    }
}
