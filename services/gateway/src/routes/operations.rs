//! `POST /runs:bulk` and `/operations`: one action on all runs that match a filter.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use holdpoint_contracts::Problem;
use holdpoint_contracts::operation::{
    ActionName, CancelOperation, GetOperation, ListOperationResults, ListOperations, OperationView,
    PlanOperation, RunAction, RunFilter, RunResultView, StartOperation,
};
use holdpoint_contracts::run::Page;
use holdpoint_ids::OperationId;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::may::{Look, May, Operate};
use crate::body::invalid_field;
use crate::call::{Call, JsonBody, NoBody};
use crate::command_outcome::CommandResult;
use crate::params::{PageParams, Params};
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/runs:bulk", post(start))
        .route("/operations", get(list))
        .route("/operations/{operation}", get(show).delete(cancel))
        .route("/operations/{operation}/results", get(results))
}

#[derive(Debug, Deserialize)]
struct BulkBody {
    action: BulkAction,
    filter: RunFilter,
    #[serde(default)]
    dry_run: bool,
    /// The fields of an action that is a name.
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// A name with the fields of the action beside it, or an object with the fields below the name.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Value")]
enum BulkAction {
    Name(ActionName),
    Object(ActionName, Map<String, Value>),
}

impl TryFrom<Value> for BulkAction {
    type Error = String;

    fn try_from(action: Value) -> Result<Self, String> {
        let read = |name: Value| {
            serde_json::from_value(name).map_err(|error| format!("invalid `action`: {error}"))
        };
        let Value::Object(named) = action else {
            return read(action).map(Self::Name);
        };
        let mut named = named.into_iter();
        let (Some((name, fields)), None) = (named.next(), named.next()) else {
            let expected = r#"expected one action, such as {"cancel": {"reason": "over"}}"#;
            return Err(format!("invalid `action`: {expected}"));
        };
        match fields {
            Value::Object(fields) => Ok(Self::Object(read(name.into())?, fields)),
            Value::Null => Ok(Self::Object(read(name.into())?, Map::new())),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(format!(
                "invalid `action`: the fields of `{name}` must be an object"
            )),
        }
    }
}

impl BulkBody {
    /// The action with its fields.
    ///
    /// # Errors
    /// 422 for a field that the action does not have, and for a missing or invalid one.
    fn action(&self) -> Result<RunAction, Problem> {
        let (name, fields) = match &self.action {
            BulkAction::Name(name) => (name.as_str(), &self.fields),
            BulkAction::Object(name, fields) => (name.as_str(), fields),
        };
        if let (BulkAction::Object(..), Some(field)) = (&self.action, self.fields.keys().next()) {
            let message = format!("unknown field `{field}`; write the fields of `{name}` below it");
            return Err(invalid_field("", &message));
        }
        serde_json::from_value(json!({ name: fields })).map_err(|error| {
            let message = format!("invalid fields of the action `{name}`: {error}");
            invalid_field("", &message)
        })
    }
}

/// Counts the runs, then begins the operation. A dry run only counts.
async fn start(call: Call<Operate, NoId, JsonBody<BulkBody>>) -> ApiResult<Response> {
    let (caller, body) = (call.caller, call.body);
    let action = body.action()?;
    let plan = PlanOperation {
        action: action.clone(),
        filter: body.filter.clone(),
    };
    let Json(planned) = caller.query(plan).await?;
    if body.dry_run {
        let reply = json!({ "dry_run": true, "matched": planned.matched });
        return Ok(Json(reply).into_response());
    }
    let command = StartOperation {
        id: OperationId::fresh(),
        action,
        filter: body.filter,
        matched: planned.matched,
    };
    let outcome = caller.command(call.key, command).await?;
    Ok(outcome.with_status(StatusCode::ACCEPTED))
}

async fn list(caller: May<Look>, page: PageParams) -> JsonResult<Page<OperationView>> {
    let PageParams { limit, cursor } = page;
    caller.query(ListOperations { limit, cursor }).await
}

async fn show(call: Call<Look, OperationId>) -> JsonResult<OperationView> {
    call.caller.query(GetOperation { id: call.id }).await
}

async fn results(call: Call<Look, OperationId, NoBody, Params>) -> JsonResult<Page<RunResultView>> {
    let params = call.params.only(&["result", "limit", "cursor"])?;
    let query = ListOperationResults {
        id: call.id,
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
        result: params.read_word("result")?,
    };
    call.caller.query(query).await
}

/// Ends the operation early. Runs that it has reached stay as they are.
async fn cancel(call: Call<Operate, OperationId>) -> CommandResult<OperationView> {
    let command = CancelOperation { id: call.id };
    call.caller.command(None, command).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::from_json;

    fn read(body: &str) -> Result<RunAction, Problem> {
        from_json::<BulkBody>(body.as_bytes())?.action()
    }

    #[test]
    fn an_action_has_its_own_fields_only() {
        let action = read(r#"{"action": "cancel", "filter": {}, "reason": "over"}"#).unwrap();
        let reason = Some("over".to_owned());
        assert_eq!(action, RunAction::Cancel { reason });
        let below = r#"{"action": {"cancel": {"reason": "over"}}, "filter": {}, "dry_run": true}"#;
        assert_eq!(read(below).unwrap(), action, "the fields below the name");
        let bare = read(r#"{"action": {"retry": {}}, "filter": {}}"#).unwrap();
        assert_eq!(bare, RunAction::Retry { from_step: None });
        for (body, text) in [
            (
                r#"{"action": "pause", "filter": {}, "reason": "x"}"#,
                "`waiting`",
            ),
            (
                r#"{"action": "retry", "filter": {}, "mode": "now"}"#,
                "`from_step`",
            ),
            (
                r#"{"action": "signal", "filter": {}}"#,
                "missing field `name`",
            ),
            (
                r#"{"action": "cancel", "filter": {"state": "x"}}"#,
                "`state`",
            ),
            (r#"{"action": "cancel"}"#, "missing field `filter`"),
            (r#"{"action": "delete", "filter": {}}"#, "`pause`"),
            (r#"{"action": {"delete": {}}, "filter": {}}"#, "`pause`"),
            (r#"{"action": 7, "filter": {}}"#, "invalid `action`"),
            (r#"{"action": {}, "filter": {}}"#, "expected one action"),
            (
                r#"{"action": {"cancel": {}, "pause": {}}, "filter": {}}"#,
                "expected one action",
            ),
            (
                r#"{"action": {"cancel": "over"}, "filter": {}}"#,
                "must be an object",
            ),
            (
                r#"{"action": {"cancel": {"why": "over"}}, "filter": {}}"#,
                "`reason`",
            ),
            (
                r#"{"action": {"cancel": {}}, "filter": {}, "reason": "over"}"#,
                "unknown field `reason`",
            ),
        ] {
            let problem = read(body).unwrap_err();
            assert_eq!(problem.status, 422, "{body}");
            assert!(problem.detail.contains(text), "{}", problem.detail);
        }
    }
}
