//! `/policies`: who approves, and who is told when nobody acts, by name. They are the handoff service's;
//! owner and admin change them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    DeletePolicy, GetPolicy, ListPolicies, PolicyRules, PolicyView, PutPolicy,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::PolicyName;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app::App;
use crate::body::{Body, from_json, invalid_field};
use crate::caller::{Caller, PathId};
use crate::params::{NoParams, Params};
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/policies", get(list).post(put))
        .route("/policies/{name}", get(show).delete(delete))
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<PolicyView>>, ApiError> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    let policies = app.bus.query(&caller.workspace, &ListPolicies {}).await?;
    Ok(Json(policies))
}

async fn show(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<PolicyName>,
    _: NoParams,
) -> Result<Json<PolicyView>, ApiError> {
    caller.may(Right::Look)?;
    let policy = app
        .bus
        .query(&caller.workspace, &GetPolicy { name })
        .await?;
    Ok(Json(policy))
}

async fn put(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let policy = read(body.json()?)?;
    let answered = app.command(&caller, body.key, policy).await?;
    Ok(answered.with_status(StatusCode::CREATED))
}

async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<PolicyName>,
    params: Params,
) -> Result<Response, ApiError> {
    caller.may(Right::Administer)?;
    params.only(&[])?;
    let answered = app.command(&caller, None, DeletePolicy { name }).await?;
    Ok(answered.with_status(StatusCode::OK))
}

/// `{name, kind, …}`: by its kind, so that what is wrong is said at its place.
fn read(mut body: Map<String, Value>) -> Result<PutPolicy, Problem> {
    let name = body.remove("name").unwrap_or_default();
    let name = name.as_str().unwrap_or_default().parse();
    let name =
        name.map_err(|error: holdpoint_ids::IdError| invalid_field("/name", &error.to_string()))?;
    let kind = body.remove("kind").unwrap_or_default();
    let rules = match kind.as_str() {
        Some("approval") => PolicyRules::Approval(rest(body)?),
        Some("escalation") => PolicyRules::Escalation(rest(body)?),
        Some(_) | None => return Err(invalid_field("/kind", "one of approval, escalation")),
    };
    Ok(PutPolicy { name, rules })
}

fn rest<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, Problem> {
    from_json(Value::Object(body).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(body: &str) -> Result<PutPolicy, Problem> {
        read(from_json(body.as_bytes())?)
    }

    /// API, Policy: what is wrong is said at its place.
    #[test]
    fn a_policy_is_read_by_its_kind() {
        let rungs = r#"{"name": "on-call", "kind": "escalation", "rungs": [
            {"after": "30m", "do": "notify", "to": "@role.ops", "repeat": {"every": "1h", "times": 2}}]}"#;
        let read = policy(rungs).unwrap();
        let PolicyRules::Escalation(rules) = &read.rules else {
            panic!("{read:?}");
        };
        assert_eq!(
            (rules.rungs[0].after, rules.rungs[0].to.len()),
            (1_800_000, 1)
        );
        for (body, pointer) in [
            (r#"{"kind": "approval"}"#, "/name"),
            (r#"{"name": "a b", "kind": "approval"}"#, "/name"),
            (r#"{"name": "a"}"#, "/kind"),
            (
                r#"{"name": "a", "kind": "approval", "decide_within": "2"}"#,
                "/decide_within",
            ),
            (
                r#"{"name": "a", "kind": "approval", "rungs": []}"#,
                "/rungs",
            ),
            (
                r#"{"name": "a", "kind": "escalation", "rungs": [{"after": "1h", "do": "page"}]}"#,
                "/rungs/0/do",
            ),
        ] {
            let problem = policy(body).unwrap_err();
            assert_eq!(problem.status, 422, "{body}");
            assert_eq!(
                problem.errors[0].pointer.as_deref(),
                Some(pointer),
                "{body}"
            );
        }
    }
}
