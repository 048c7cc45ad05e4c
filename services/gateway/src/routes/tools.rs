//! `/tools`, `/nodes`, `/claims`: tools, the workers that call them, and the steps that workers hold.

use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::{
    DeleteTool, GetTool, ListClaims, ListNodes, ListTools, PutTool,
};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::{ToolSpec, ToolView};
use holdpoint_ids::ToolName;
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::may::{Look, May, Operate};
use crate::body::{from_value, invalid_field};
use crate::call::{Call, JsonBody};
use crate::idempotency::MASKED;
use crate::params::{PageParams, Params};
use crate::path::NoId;
use crate::problem::{ApiResult, JsonResult};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/tools", get(list).post(put))
        .route("/tools/{tool}", get(show).delete(remove))
        .route("/nodes", get(list_nodes))
        .route("/claims", get(list_claims))
}

async fn list(caller: May<Look>, page: PageParams) -> JsonResult<Page<ToolView>> {
    let PageParams { limit, cursor } = page;
    let Json(mut page) = caller.query(ListTools { limit, cursor }).await?;
    if caller.may(Right::Operate).is_err() {
        page.items.iter_mut().for_each(mask);
    }
    Ok(Json(page))
}

async fn show(call: Call<Look, ToolName>) -> JsonResult<ToolView> {
    let Json(mut view) = call.caller.query(GetTool { tool: call.id }).await?;
    if call.caller.may(Right::Operate).is_err() {
        mask(&mut view);
    }
    Ok(Json(view))
}

/// Hides headers and all of the address except its host, because both may contain keys.
fn mask(view: &mut ToolView) {
    let Some(call) = &mut view.tool.http else {
        return;
    };
    for value in call.headers.values_mut() {
        MASKED.clone_into(value);
    }
    call.url = masked(&call.url);
}

fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return MASKED.to_owned();
    };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = match host.rsplit_once('@') {
        Some((_login, host)) => format!("{MASKED}@{host}"),
        None => host.to_owned(),
    };
    let path = match path {
        "" | "/" => path.to_owned(),
        _ => format!("/{MASKED}"),
    };
    format!("{scheme}://{host}{path}")
}

/// 201 for a new or changed tool, else 200.
async fn put(call: Call<Operate, NoId, JsonBody<Map<String, Value>>>) -> ApiResult<Response> {
    let mut fields = call.body;
    let seen = fields.remove("seen").unwrap_or_default();
    let seen = serde_json::from_value(seen)
        .map_err(|_invalid| invalid_field("/seen", "must be the `seen` of `GET /tools/{tool}`"))?;
    // How much harm a tool can do is never guessed (S2-R2).
    if fields.get("risk").is_none_or(Value::is_null) {
        let message = "is missing; expected low, medium or high";
        return Err(invalid_field("/risk", message).into());
    }
    let tool: ToolSpec = from_value(Value::Object(fields))?;
    let outcome = call
        .caller
        .command(call.key, PutTool { tool, seen })
        .await?;
    Ok(outcome.created_if(|tool| tool.changed))
}

async fn remove(call: Call<Operate, ToolName>) -> ApiResult<Response> {
    let name = call.id;
    let outcome = call.caller.command(None, DeleteTool { name }).await?;
    Ok(outcome.without_content())
}

async fn list_nodes(call: Call<Look>) -> JsonResult<Page<NodeView>> {
    call.caller.query(ListNodes {}).await
}

async fn list_claims(caller: May<Look>, params: Params) -> JsonResult<Page<ClaimView>> {
    let limit = params.only(&["limit"])?.limit()?;
    caller.query(ListClaims { limit }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-M15: a key in the address of a tool is not shown.
    #[test]
    fn an_address_is_shown_without_its_keys() {
        for (url, shown) in [
            ("https://x.example", "https://x.example"),
            ("https://x.example/", "https://x.example/"),
            ("https://x.example/services/T0/s", "https://x.example/***"),
            ("https://x.example/?api_key=s", "https://x.example/***"),
            ("https://x.example?k=a@b", "https://x.example/***"),
            ("https://me:s@x.example/a@b", "https://***@x.example/***"),
            ("https://x.example/a#s", "https://x.example/***"),
            ("s", "***"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
