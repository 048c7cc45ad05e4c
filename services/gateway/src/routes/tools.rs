//! `/tools`, `/nodes`, `/claims`: what steps can call, who does it, and who is at it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use axum::{Json, Router};
use holdpoint_auth::Right;
use holdpoint_contracts::executor::{DeleteTool, ListClaims, ListNodes, ListTools, PutTool};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::ToolView;
use holdpoint_ids::ToolName;

use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/tools", get(list).post(put))
        .route("/tools/{tool}", delete(remove))
        .route("/nodes", get(nodes))
        .route("/claims", get(claims))
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<ToolView>>, ApiError> {
    caller.may(Right::Look)?;
    let params = params.only(&["limit", "cursor"])?;
    let query = ListTools {
        limit: params.limit()?,
        cursor: params.read_as("cursor")?,
    };
    let mut page = app.bus.query(&caller.workspace, &query).await?;
    if caller.may(Right::Operate).is_err() {
        page.items.iter_mut().for_each(mask);
    }
    Ok(Json(page))
}

/// Stands for what is not shown.
const MASKED: &str = "***";

/// Keys are in headers, and anywhere in an address but its host. Who may not register tools sees none.
fn mask(view: &mut ToolView) {
    let call = &mut view.tool.http;
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
    let (host, behind) = rest.split_at(end);
    let host = match host.rsplit_once('@') {
        Some((_login, host)) => format!("{MASKED}@{host}"),
        None => host.to_owned(),
    };
    let behind = match behind {
        "" | "/" => behind.to_owned(),
        _ => format!("/{MASKED}"),
    };
    format!("{scheme}://{host}{behind}")
}

/// 201, or 200 where it was registered so already.
async fn put(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let tool = body.json()?;
    let answered = app.command(&caller, body.key, PutTool { tool }).await?;
    Ok(answered.respond(|tool| {
        let status = if tool.changed {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        (status, Json(tool)).into_response()
    }))
}

async fn remove(
    State(app): State<App>,
    caller: Caller,
    PathId(name): PathId<ToolName>,
    params: Params,
) -> Result<Response, ApiError> {
    caller.may(Right::Operate)?;
    params.only(&[])?;
    let answered = app.command(&caller, None, DeleteTool { name }).await?;
    Ok(answered.respond(|()| StatusCode::NO_CONTENT.into_response()))
}

async fn nodes(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<NodeView>>, ApiError> {
    caller.may(Right::Look)?;
    params.only(&[])?;
    Ok(Json(app.bus.query(&caller.workspace, &ListNodes {}).await?))
}

async fn claims(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Page<ClaimView>>, ApiError> {
    caller.may(Right::Look)?;
    let limit = params.only(&["limit"])?.limit()?;
    let query = ListClaims { limit };
    Ok(Json(app.bus.query(&caller.workspace, &query).await?))
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
