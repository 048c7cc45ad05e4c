//! `/schedules`: cron expressions that start runs of an agent. Operators change them.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::GetAgent;
use holdpoint_contracts::run::Page;
use holdpoint_contracts::scheduler::{
    DeleteSchedule, GetSchedule, ListSchedules, PutSchedule, ScheduleSpec, ScheduleView,
};
use holdpoint_ids::{AgentName, ScheduleName};

use crate::app::App;
use crate::auth::may::{Look, May, Operate};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody};
use crate::params::PageParams;
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/schedules", get(list).post(put))
        .route("/schedules/{name}", get(show).delete(remove))
}

async fn list(caller: May<Look>, page: PageParams) -> JsonResult<Page<ScheduleView>> {
    let PageParams { limit, cursor } = page;
    caller.query(ListSchedules { limit, cursor }).await
}

async fn show(call: Call<Look, ScheduleName>) -> JsonResult<ScheduleView> {
    call.caller.query(GetSchedule { name: call.id }).await
}

/// Creates or changes a schedule. A later deletion of the agent is shown on the schedule when it fires.
async fn put(call: Call<Operate, NoId, JsonBody<ScheduleSpec>>) -> ApiResult<Response> {
    let schedule = call.body;
    require_agent(&call.caller, schedule.agent.clone()).await?;
    let outcome = call.caller.command(call.key, PutSchedule { schedule });
    Ok(outcome.await?.with_status(StatusCode::CREATED))
}

async fn remove(call: Call<Operate, ScheduleName>) -> ApiResult<Response> {
    let name = call.id;
    let outcome = call.caller.command(None, DeleteSchedule { name }).await?;
    Ok(outcome.without_content())
}

/// Refuses an agent that does not exist: the schedule would start nothing.
async fn require_agent(caller: &May<Operate>, agent: AgentName) -> Result<(), Problem> {
    let query = GetAgent { agent };
    match caller.app.bus.query(&caller.workspace, &query).await {
        Err(problem) if problem.status == 404 => Err(invalid_field("/agent", &problem.detail)),
        Err(problem) => Err(problem),
        Ok(_) => Ok(()),
    }
}
