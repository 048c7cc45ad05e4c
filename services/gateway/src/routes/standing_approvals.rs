//! `/standing-approvals`: approvals of calls in advance. People create them in person.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use holdpoint_contracts::handoff::{
    CreateStandingApproval, GetStandingApproval, ListStandingApprovals, RevokeStandingApproval,
    StandingApprovalTerms, StandingApprovalView,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::StandingApprovalId;

use crate::app::App;
use crate::auth::may::{Decide, InPerson, Look};
use crate::call::{Call, JsonBody, NoBody};
use crate::params::Params;
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/standing-approvals", get(list).post(create))
        .route("/standing-approvals/{id}", get(show).delete(revoke))
}

async fn list(call: Call<Look, NoId, NoBody, Params>) -> JsonResult<Page<StandingApprovalView>> {
    let params = call.params.only(&["agent", "tool", "limit", "cursor"])?;
    let query = ListStandingApprovals {
        limit: params.limit()?,
        agent: params.read_as("agent")?,
        tool: params.read_as("tool")?,
        lasting: false,
        cursor: params.read_as("cursor")?,
    };
    call.caller.query(query).await
}

async fn show(call: Call<Look, StandingApprovalId>) -> JsonResult<StandingApprovalView> {
    call.caller.query(GetStandingApproval { id: call.id }).await
}

async fn create(
    call: Call<InPerson<Decide>, NoId, JsonBody<StandingApprovalTerms>>,
) -> ApiResult<Response> {
    let command = CreateStandingApproval {
        id: StandingApprovalId::fresh(),
        terms: call.body,
    };
    let outcome = call.caller.command(call.key, command).await?;
    Ok(outcome.with_status(StatusCode::CREATED))
}

async fn revoke(call: Call<InPerson<Decide>, StandingApprovalId>) -> ApiResult<Response> {
    let command = RevokeStandingApproval { id: call.id };
    let outcome = call.caller.command(None, command).await?;
    Ok(outcome.without_content())
}
