//! `/agents`: definitions, and starting runs of them.

mod batch;
mod start;

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::agent::AgentView;
use holdpoint_contracts::executor::{
    AppliedAgent, ApplyAgent, DeleteAgent, GetAgent, ListAgents, PlanAgent, PlannedAgent,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::AgentName;
use serde::Deserialize;

use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::concurrency::ConcurrencyPermit;
use crate::params::{NoParams, Params};
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/agents", get(list).post(apply))
        .route("/agents/plan", post(plan))
        .route("/agents/{agent}", get(show).delete(remove))
        .route("/agents/{agent}/runs", post(start::one))
        .route("/agents/{agent}/runs:batch", post(batch::many))
}

/// A caller who may have one more agent compiled. It is taken before the body is read: bodies that wait
/// for the compiler would fill the memory.
struct Planning {
    caller: Caller,
    _permit: ConcurrencyPermit,
}

impl FromRequestParts<App> for Planning {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let user = caller.claims.user.as_str();
        Ok(Self {
            _permit: app.plans.take(&caller.workspace, user)?,
            caller,
        })
    }
}

async fn apply(
    State(app): State<App>,
    planning: Planning,
    _: NoParams,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = &planning.caller;
    caller.may(Right::Operate)?;
    let text = body.agent_text()?;
    let agent = match name_in(text) {
        Some(agent) => agent,
        // The executor says what is wrong with the text, or what it is called after all.
        None => plan_of(&app, caller, text).await?.agent,
    };
    let text = text.to_owned();
    let answered = app
        .command(caller, body.key, ApplyAgent { agent, text })
        .await?;
    let answered = match answered {
        CommandOutcome::Done(applied) => CommandOutcome::Done(warned(&app, caller, applied).await),
        accepted @ CommandOutcome::Accepted(_) => accepted,
    };
    Ok(answered.respond(|applied| {
        let status = if applied.changed {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        (status, Json(applied)).into_response()
    }))
}

/// The agent with its warnings. It is stored already, so that a question that fails costs no more than
/// the warnings.
async fn warned(app: &App, caller: &Caller, mut applied: AppliedAgent) -> AppliedAgent {
    let query = GetAgent {
        agent: applied.agent.agent.clone(),
    };
    if let Ok(view) = app.bus.query(&caller.workspace, &query).await {
        applied.agent.warnings = view.warnings;
    }
    applied
}

async fn plan(
    State(app): State<App>,
    planning: Planning,
    _: NoParams,
    body: Body,
) -> Result<Json<PlannedAgent>, ApiError> {
    let caller = &planning.caller;
    caller.may(Right::Look)?;
    Ok(Json(plan_of(&app, caller, body.agent_text()?).await?))
}

async fn plan_of(app: &App, caller: &Caller, text: &str) -> Result<PlannedAgent, Problem> {
    app.bus
        .query(
            &caller.workspace,
            &PlanAgent {
                text: text.to_owned(),
            },
        )
        .await
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<AgentView>>, ApiError> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListAgents {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(agent): PathId<AgentName>,
    _: NoParams,
) -> Result<Json<AgentView>, ApiError> {
    caller.may(Right::Look)?;
    Ok(Json(
        app.bus
            .query(&caller.workspace, &GetAgent { agent })
            .await?,
    ))
}

/// Its open runs fail, and its name is free again (S0-AC9).
async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(agent): PathId<AgentName>,
    params: Params,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let answered = app.command(&caller, None, DeleteAgent { agent }).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// The agent's name, if it is easy to see; everything else is read by the executor alone. It is where the
/// command goes, and the executor refuses a text that names another agent.
fn name_in(text: &str) -> Option<AgentName> {
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
            assert_eq!(name_in(text).unwrap().as_str(), "outreach", "{text}");
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
            assert_eq!(name_in(text), None, "{text}");
        }
    }
}
