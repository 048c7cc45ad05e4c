//! Completing a handoff (S0-T3): by its request, or by the run that waits for it (S0-R4).

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use holdpoint_auth::Claims;
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::handoff::{
    Completion, DecideRequest, Decided, Decision, Disposition, GetRequest, ListRequests,
    OutcomeType, RequestStatus, RequestView,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::{Problem, instant};
use holdpoint_ids::{HoldId, RunId};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::decisions::{check_length, decide};
use crate::auth::may::{Decide, May};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody, OptionalJson};
use crate::command_outcome::{CommandOutcome, CommandResult};
use crate::nudges::Topic;
use crate::problem::{ApiError, ApiResult, JsonResult};
use crate::redaction::is_named;
use crate::use_cases::await_request::SHORT_QUERY_INTERVAL;
use crate::use_cases::decide_request::decide_request;

/// How long the scheduler may take to acknowledge that no timer is left.
const TIMER_WAIT: Duration = Duration::from_secs(1);

/// Open handoffs of a run that are looked at: most items of a run that are in progress.
const HANDOFFS_MAX: u64 = 100;

/// Handoffs that an error names.
const HANDOFFS_NAMED: usize = 10;

/// Fixed texts (S0-R4).
const NOT_WAITING: &str = "Cannot complete handoff: Execution not in waiting state";
const NOT_FOUND: &str = "Cannot complete handoff: Execution not found";
const NOT_CANCELLED: &str = "Handoff completed but failed to cancel scheduled resume";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteBody {
    #[serde(default)]
    notes: String,
    #[serde(default)]
    outcome_type: OutcomeType,
    /// Required by the route of the request; the route of the run finishes without it.
    #[serde(default, deserialize_with = "not_null")]
    disposition: Option<Disposition>,
    #[serde(default)]
    version: Option<u64>,
}

/// `null` is refused, as for a required field.
fn not_null<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Disposition>, D::Error> {
    Disposition::deserialize(from).map(Some)
}

impl CompleteBody {
    fn into_decision(self) -> Result<Decision, Problem> {
        check_length("/notes", &self.notes)?;
        Ok(Decision::Complete(Completion {
            notes: self.notes,
            outcome_type: self.outcome_type,
            disposition: self.disposition.unwrap_or(Disposition::Finish),
        }))
    }
}

/// `POST /requests/{id}/complete`: the caller has to choose the disposition.
pub(super) async fn complete(
    call: Call<Decide, HoldId, JsonBody<CompleteBody>>,
) -> CommandResult<Decided> {
    if call.body.disposition.is_none() {
        return Err(invalid_field("", "missing field `disposition`").into());
    }
    let version = call.body.version;
    let decision = call.body.into_decision()?;
    decide(&call.caller, call.key, call.id, decision, version).await
}

/// `PUT /runs/{run}/complete-handoff`.
pub(super) async fn complete_run(
    call: Call<Decide, String, OptionalJson<CompleteBody>>,
) -> ApiResult<Response> {
    let caller = call.caller;
    // The text is fixed (S0-R4), also for an invalid id.
    let run = call.id.parse();
    let run: RunId = run.map_err(|_error| Problem::not_found(NOT_FOUND))?;
    let version = call.body.version;
    let decision = call.body.into_decision()?;
    let command = DecideRequest {
        id: find_open_handoff(&caller, run).await?,
        decision,
        version,
        silent: false,
    };
    let decided = decide_request(&caller.app, &caller, call.key, command).await;
    match decided.map_err(with_fixed_text)? {
        CommandOutcome::Done(decided) => {
            let completed = describe_completion(&caller, run, decided).await?;
            Ok(completed.into_response())
        }
        later @ CommandOutcome::Accepted(_) => Ok(later.into_response()),
    }
}

/// S0-R4: the second user who completes a handoff gets the text for a run that does not wait.
fn with_fixed_text(problem: Problem) -> Problem {
    match &*problem.code {
        "already_decided" => Problem::new(409, "not_waiting", NOT_WAITING),
        _ => problem,
    }
}

/// The handoff that the run waits for. Of several, it is the only one that is put to the caller. A repeated completion
/// finds the completed one.
async fn find_open_handoff(caller: &May<Decide>, run: RunId) -> ApiResult<HoldId> {
    let query = |status, limit| ListRequests {
        limit,
        status: Some(status),
        kind: Some(HoldKind::Handoff),
        run: Some(run),
        ..ListRequests::default()
    };
    let open = query(RequestStatus::Open, HANDOFFS_MAX);
    let Json(open) = caller.query(open).await?;
    if let Some(chosen) = choose(&caller.claims, &open.items)? {
        return Ok(chosen);
    }
    let completed = query(RequestStatus::Completed, 1);
    let Json(completed) = caller.query(completed).await?;
    let user = caller.claims.user.as_str();
    let mut completed = completed.items.into_iter();
    if let Some(own) = completed.find(|request| request.decided_by.as_deref() == Some(user)) {
        return Ok(own.id);
    }
    match caller.query(GetRun::of(run)).await {
        // The handoff service may not have the request yet; the decision waits for it.
        Ok(Json(run)) => {
            let waiting = run.waiting_on.iter();
            let handoffs = waiting.filter(|on| on.kind == HoldKind::Handoff);
            match handoffs.map(|on| on.id).collect::<Vec<_>>().as_slice() {
                [] => Err(ApiError(Problem::new(409, "not_waiting", NOT_WAITING))),
                [one] => Ok(*one),
                several => Err(ApiError(several_handoffs(several))),
            }
        }
        Err(ApiError(problem)) if problem.status == 404 => {
            Err(ApiError(Problem::not_found(NOT_FOUND)))
        }
        Err(error) => Err(error),
    }
}

/// The handoff that a caller means. 409 if it is not clear: each item of a step with `for_each` has a handoff.
fn choose(claims: &Claims, open: &[RequestView]) -> Result<Option<HoldId>, Problem> {
    if let [] | [_] = open {
        return Ok(open.first().map(|request| request.id));
    }
    let is_own = |request: &&RequestView| {
        let is_assigned = request.assignee.as_deref() == Some(claims.user.as_str());
        is_assigned || request.to.iter().any(|to| is_named(claims, to))
    };
    let own: Vec<_> = open.iter().filter(is_own).collect();
    if let [own] = own.as_slice() {
        return Ok(Some(own.id));
    }
    let ids: Vec<_> = open.iter().map(|request| request.id).collect();
    Err(several_handoffs(&ids))
}

fn several_handoffs(handoffs: &[HoldId]) -> Problem {
    let named = handoffs.iter().take(HANDOFFS_NAMED);
    let named: Vec<_> = named.map(ToString::to_string).collect();
    let detail = format!(
        "the run waits for {} handoffs; complete one with `POST /requests/{{id}}/complete`, such as {}",
        handoffs.len(),
        named.join(", ")
    );
    Problem::new(409, "several_handoffs", detail)
}

async fn describe_completion(
    caller: &May<Decide>,
    run: RunId,
    decided: Decided,
) -> JsonResult<Value> {
    let is_cleared = has_no_timer(caller, &decided.request).await;
    let Json(view) = caller.query(GetRun::of(run)).await?;
    let request = decided.request;
    let (by, at) = (request.decided_by, request.decided_at.map(instant::write));
    let message = format!(
        "Handoff completed by {} at {}",
        by.as_deref().unwrap_or_default(),
        at.as_deref().unwrap_or_default()
    );
    tracing::info!(%run, "{message}");
    let warning = (!is_cleared).then_some(NOT_CANCELLED);
    Ok(Json(json!({
        "success": true,
        "execution": { "execution_id": run, "status": view.status, "completed_at": at, "completed_by": by },
        "message": message,
        "warnings": warning.as_slice(),
    })))
}

/// Whether the scheduler acknowledges within [`TIMER_WAIT`] that no timer is left.
async fn has_no_timer(caller: &May<Decide>, request: &RequestView) -> bool {
    let deadline = Instant::now() + TIMER_WAIT;
    let mut changes = caller.app.nudges.subscribe(Topic::Request(request.id));
    let mut is_cleared = !request.timer_unconfirmed;
    while !is_cleared {
        match caller.query(GetRequest { id: request.id }).await {
            Ok(Json(newer)) => is_cleared = !newer.timer_unconfirmed,
            Err(ApiError(problem)) => tracing::debug!(%problem, "state of the timer is unknown"),
        }
        // The last query comes at the deadline.
        if is_cleared || Instant::now() >= deadline {
            break;
        }
        let latest = deadline.min(Instant::now() + SHORT_QUERY_INTERVAL);
        drop(timeout_at(latest, changes.next()).await);
    }
    is_cleared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redaction::testing::request;
    use crate::testing::claims;

    /// S0-R4: a run with several handoffs completes the one of the caller, never that of another person.
    #[test]
    fn a_caller_completes_their_own_handoff() {
        let to = |number: u32, to: &str| {
            let mut request = request();
            request.id.number = number;
            (request.to, request.assignee) = (vec![to.to_owned()], None);
            request
        };
        let (ada, bob, sales) = (to(1, "@user.ada"), to(2, "@user.bob"), to(3, "@role.sales"));
        let chosen = |user, roles: &[&str], open: &[&RequestView]| {
            let open: Vec<_> = open.iter().copied().cloned().collect();
            let found = choose(&claims(user, roles), &open);
            found
                .map(|id| id.map(|id| id.number))
                .map_err(|problem| problem.code)
        };
        assert_eq!(chosen("bob", &["member"], &[]), Ok(None));
        assert_eq!(chosen("bob", &["member"], &[&ada]), Ok(Some(1)));
        assert_eq!(chosen("bob", &["member"], &[&ada, &bob]), Ok(Some(2)));
        assert_eq!(
            chosen("eva", &["sales"], &[&ada, &bob, &sales]),
            Ok(Some(3))
        );
        let unclear = Err("several_handoffs".into());
        assert_eq!(chosen("eva", &["member"], &[&ada, &bob]), unclear);
        assert_eq!(chosen("bob", &["sales"], &[&bob, &sales]), unclear);
    }
}
