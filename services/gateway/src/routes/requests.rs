//! `/requests`: requests to people, and what they do with them.

pub(crate) mod actions;
mod batch;
mod complete;
pub(super) mod decisions;
pub(super) mod wait;

use axum::routing::{get, post, put};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{ListRequests, RequestAction, RequestStatus, RequestView};
use holdpoint_contracts::notification::{DeliveryView, ListDeliveries};
use holdpoint_contracts::run::Page;
use holdpoint_ids::{HoldId, UserName};

use self::actions::{act_on, hand_on};
use crate::app::App;
use crate::auth::caller::Caller;
use crate::auth::may::{Look, May};
use crate::call::{Call, NoBody};
use crate::params::{PageParams, Params};
use crate::problem::JsonResult;

pub(crate) fn routes() -> Router<App> {
    use RequestAction::{Accept, Acknowledge, Delegate, Reassign, TakeOver};
    Router::new()
        .route("/requests", get(list))
        .route("/requests/{id}", get(wait::show))
        .route("/requests/{id}/deliveries", get(list_deliveries))
        .route("/requests/{id}/respond", post(decisions::respond))
        .route("/requests/{id}/approve", post(decisions::approve))
        .route("/requests/{id}/reject", post(decisions::reject))
        .route("/requests/{id}/revise", post(decisions::revise))
        .route("/requests/{id}/complete", post(complete::complete))
        .route("/requests/{id}/accept", post(|call| act_on(call, Accept)))
        .route(
            "/requests/{id}/take-over",
            post(|call| act_on(call, TakeOver)),
        )
        .route(
            "/requests/{id}/reassign",
            post(|call| hand_on(call, |to| Reassign { to })),
        )
        .route(
            "/requests/{id}/delegate",
            post(|call| hand_on(call, |to| Delegate { to })),
        )
        .route(
            "/requests/{id}/acknowledge",
            post(|call| act_on(call, Acknowledge)),
        )
        .route("/requests/{id}/snooze", post(actions::snooze))
        .route("/requests/{id}/withdraw", post(actions::withdraw))
        .route("/requests/{id}/ask-again", post(actions::ask_again))
        .route("/requests:batch", post(batch::decide))
        .route("/runs/{run}/complete-handoff", put(complete::complete_run))
}

async fn list(caller: May<Look>, params: Params) -> JsonResult<Page<RequestView>> {
    let params = params.only(&[
        "status", "kind", "run", "assignee", "priority", "snoozed", "order", "limit", "cursor",
    ])?;
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
    (query.status, query.snoozed) = read_status(&params, &query)?;
    query.snoozed_by = find_snoozer(&caller, &query);
    Ok(Json(caller.app.requests(&caller, &query).await?))
}

/// The user whose snoozes count: the assignee of the list, else the caller.
fn find_snoozer(caller: &Caller, query: &ListRequests) -> Option<UserName> {
    query.snoozed?;
    let own = || caller.claims.user.clone();
    Some(query.assignee.clone().unwrap_or_else(own))
}

/// Status and snooze filter. `status=snoozed` means open and snoozed. The open requests of an assignee do not
/// include those that the assignee has snoozed.
fn read_status(
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

async fn list_deliveries(
    call: Call<Look, HoldId, NoBody, PageParams>,
) -> JsonResult<Page<DeliveryView>> {
    let PageParams { limit, cursor } = call.params;
    let query = ListDeliveries {
        request: call.id,
        limit,
        cursor,
    };
    call.caller.query(query).await
}
