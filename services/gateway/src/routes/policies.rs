//! `/policies`: named rules of approval and escalation. Owners and admins change them.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{GetLibraryEntry, LibraryEntryView, LibraryKind};
use holdpoint_contracts::handoff::{
    DeletePolicy, GetPolicy, ListPolicies, PolicyRules, PolicyView, PutPolicy,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::PolicyName;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::may::{Administer, Look, May};
use crate::body::{from_json, invalid_field};
use crate::call::{Call, JsonBody};
use crate::path::NoId;
use crate::problem::{ApiError, ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/policies", get(list).post(put))
        .route("/policies/{name}", get(show).delete(remove))
}

async fn list(call: Call<Look>) -> JsonResult<Page<PolicyView>> {
    call.caller.query(ListPolicies {}).await
}

async fn show(call: Call<Look, PolicyName>) -> JsonResult<PolicyView> {
    call.caller.query(GetPolicy { name: call.id }).await
}

async fn put(call: Call<Administer, NoId, JsonBody<Map<String, Value>>>) -> ApiResult<Response> {
    let body = take_named_calendar(&call.caller, call.body).await?;
    let command = read_policy(body)?;
    let outcome = call.caller.command(call.key, command).await?;
    Ok(outcome.with_status(StatusCode::CREATED))
}

async fn remove(call: Call<Administer, PolicyName>) -> ApiResult<impl IntoResponse> {
    let name = call.id;
    call.caller.command(None, DeletePolicy { name }).await
}

/// Replaces `calendar: {name, from, to}` by the days of that calendar of the workspace. The policy keeps them: a later
/// change of the calendar changes no policy, as it changes no agent.
async fn take_named_calendar(
    caller: &May<Administer>,
    mut body: Map<String, Value>,
) -> ApiResult<Map<String, Value>> {
    let Some(Value::Object(calendar)) = body.get_mut("calendar") else {
        return Ok(body);
    };
    let Some(name) = calendar.remove("name") else {
        return Ok(body);
    };
    let own = ["time_zone", "days", "holidays"];
    if let Some(own) = own.into_iter().find(|field| calendar.contains_key(*field)) {
        let message = format!("must be absent, because the named calendar has its own `{own}`");
        return Err(invalid_field(&format!("/calendar/{own}"), &message).into());
    }
    let Value::String(name) = name else {
        return Err(invalid_field("/calendar/name", "must be a text").into());
    };
    let kind = LibraryKind::Calendar;
    let found: Result<Json<LibraryEntryView>, ApiError> =
        caller.query(GetLibraryEntry { kind, name }).await;
    let Json(found) = found.map_err(|error| match error.0.status {
        404 => ApiError(invalid_field("/calendar/name", &error.0.detail)),
        _ => error,
    })?;
    if let Some(Value::Object(days)) = found.value {
        calendar.insert("time_zone".to_owned(), "UTC".into());
        calendar.extend(days.into_iter().filter(|(_, value)| !value.is_null()));
    }
    Ok(body)
}

/// Reads `{name, kind, …}` by its kind, so that pointers of errors are exact.
fn read_policy(mut body: Map<String, Value>) -> Result<PutPolicy, Problem> {
    let name = body.remove("name").unwrap_or_default();
    let name = name.as_str().unwrap_or_default().parse();
    let name =
        name.map_err(|error: holdpoint_ids::IdError| invalid_field("/name", &error.to_string()))?;
    let kind = body.remove("kind").unwrap_or_default();
    let rules = match kind.as_str() {
        Some("approval") => PolicyRules::Approval(read_rules(body)?),
        Some("escalation") => PolicyRules::Escalation(read_rules(body)?),
        Some(_) | None => return Err(invalid_field("/kind", "must be approval or escalation")),
    };
    Ok(PutPolicy { name, rules })
}

fn read_rules<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, Problem> {
    from_json(Value::Object(body).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(body: &str) -> Result<PutPolicy, Problem> {
        read_policy(from_json(body.as_bytes())?)
    }

    /// API, Policy: an error points to its field.
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
