//! `/agents`: agent definitions, and starting runs of them.

mod batch;
pub(crate) mod limited_caller;
mod rehearsal;
mod start;

use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_contracts::agent::{AgentStats, AgentView, GetAgentStats};
use holdpoint_contracts::executor::{
    AppliedAgent, ApplyAgent, DeleteAgent, GetAgent, ListAgents, PlanAgent, PlannedAgent,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::AgentName;
use serde::Deserialize;

use self::limited_caller::LimitedCaller;
use crate::app::App;
use crate::auth::may::{Demand, Look, May, Operate};
use crate::body::Body;
use crate::call::{Call, NoBody};
use crate::command_outcome::CommandOutcome;
use crate::params::{PageParams, Params, invalid};
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};
use crate::use_cases::policy_warnings::policy_warnings;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/agents", get(list).post(apply))
        .route("/agents/plan", post(plan))
        .route("/agents/rehearse", post(rehearsal::rehearse))
        .route("/agents/{agent}", get(show).delete(remove))
        .route("/agents/{agent}/stats", get(stats))
        .route("/agents/{agent}/runs", post(start::start_one))
        .route("/agents/{agent}/runs:batch", post(batch::start_many))
}

async fn apply(call: Call<LimitedCaller<Operate>, NoId, Body>) -> ApiResult<Response> {
    let caller = &call.caller.caller;
    let text = call.body.agent_text()?.to_owned();
    let agent = match find_name(&text) {
        Some(agent) => agent,
        // The executor finds the name, or refuses the text with its errors.
        None => {
            let text = text.clone();
            caller.query(PlanAgent { text }).await?.0.agent
        }
    };
    let outcome = caller.command(call.key, ApplyAgent { agent, text }).await?;
    let outcome = match outcome {
        CommandOutcome::Done(applied) => CommandOutcome::Done(with_warnings(caller, applied).await),
        accepted @ CommandOutcome::Accepted(_) => accepted,
    };
    Ok(outcome.created_if(|applied| applied.changed))
}

/// The agent with its warnings. It is stored already, so a failed query costs only the warnings.
async fn with_warnings(caller: &May<Operate>, mut applied: AppliedAgent) -> AppliedAgent {
    let query = GetAgent {
        agent: applied.agent.agent.clone(),
    };
    if let Ok(Json(view)) = agent_view(caller, query).await {
        applied.agent.warnings = view.warnings;
    }
    applied
}

async fn agent_view<D: Demand>(caller: &May<D>, query: GetAgent) -> JsonResult<AgentView> {
    let Json(mut view) = caller.query(query).await?;
    let warnings = policy_warnings(&caller.app, &caller.workspace, &view.steps);
    view.warnings.extend(warnings.await);
    Ok(Json(view))
}

async fn plan(call: Call<LimitedCaller<Look>, NoId, Body>) -> JsonResult<PlannedAgent> {
    plan_text(&call.caller.caller, call.body.agent_text()?).await
}

async fn plan_text<D: Demand>(caller: &May<D>, text: &str) -> JsonResult<PlannedAgent> {
    let text = text.to_owned();
    let Json(mut planned) = caller.query(PlanAgent { text }).await?;
    let warnings = policy_warnings(&caller.app, &caller.workspace, &planned.steps);
    planned.warnings.extend(warnings.await);
    Ok(Json(planned))
}

async fn list(caller: May<Look>, page: PageParams) -> JsonResult<Page<AgentView>> {
    let PageParams { limit, cursor } = page;
    caller.query(ListAgents { limit, cursor }).await
}

async fn show(call: Call<Look, AgentName>) -> JsonResult<AgentView> {
    agent_view(&call.caller, GetAgent { agent: call.id }).await
}

/// Statistics of the newest runs, since an instant.
async fn stats(call: Call<Look, AgentName, NoBody, Params>) -> JsonResult<AgentStats> {
    let since = call.params.only(&["since"])?.read_as("since");
    let since = since.map_err(|_error| {
        invalid("invalid `since`; expected an instant such as 2026-12-01T00:00:00Z")
    })?;
    let agent = call.id;
    call.caller.query(GetAgentStats { agent, since }).await
}

/// Fails the open runs of the agent and frees its name (S0-AC9).
async fn remove(call: Call<Operate, AgentName>) -> ApiResult<impl IntoResponse> {
    let agent = call.id;
    call.caller.command(None, DeleteAgent { agent }).await
}

/// The name of the agent if it is easy to find. It addresses the command; only the executor reads the whole text,
/// and refuses one that names another agent.
fn find_name(text: &str) -> Option<AgentName> {
    #[derive(Deserialize)]
    struct Name {
        agent: AgentName,
    }
    if let Ok(Name { agent }) = serde_json::from_str(text) {
        return Some(agent);
    }
    let mut names = text.lines().filter_map(|line| line.strip_prefix("agent:"));
    let name = names.next()?;
    if names.next().is_some() {
        return None;
    }
    let name = name.split(" #").next().unwrap_or_default().trim();
    name.trim_matches(['"', '\'']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_read_from_yaml_and_json() {
        for text in [
            "agent: outreach\ninstructions: |\n  Wait 5 days\n",
            "# who\nagent: 'outreach'  # the name\n",
            r#"{"agent":"outreach"}"#,
        ] {
            assert_eq!(find_name(text).unwrap().as_str(), "outreach", "{text}");
        }
    }

    #[test]
    fn a_text_without_a_readable_name_has_none() {
        for text in [
            "",
            "agent: [1]",
            "agent: -x",
            "steps: []",
            "{",
            "agent: a\nagent: b",
        ] {
            assert_eq!(find_name(text), None, "{text}");
        }
    }
}
