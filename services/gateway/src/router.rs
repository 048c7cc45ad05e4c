//! All routes, and the layers around them.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use holdpoint_contracts::Problem;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::problem::{self, ApiError};
use crate::routes::{
    agents, asking, clock, commands, contacts, dead_letters, health, holds, inbound_hooks, library,
    mails, notifications, operations, policies, rehearsals, requests, runs, schedules, sessions,
    standing_approvals, tokens, tools, users, watches, webhooks, workspaces,
};
use crate::{access_log, body_limits, pages, tls};

pub(crate) fn router(app: App) -> Router {
    let workspace = Router::new()
        .merge(agents::routes())
        .merge(asking::routes())
        .merge(commands::routes())
        .merge(contacts::routes())
        .merge(holds::routes())
        .merge(inbound_hooks::routes())
        .merge(dead_letters::routes())
        .merge(mails::routes())
        .merge(notifications::routes())
        .merge(operations::routes())
        .merge(library::routes())
        .merge(rehearsals::routes())
        .merge(policies::routes())
        .merge(schedules::routes())
        .merge(requests::routes())
        .merge(runs::routes())
        .merge(sessions::routes())
        .merge(tokens::routes())
        .merge(tools::routes())
        .merge(standing_approvals::routes())
        .merge(users::routes())
        .merge(watches::routes())
        .merge(webhooks::routes());
    let api = Router::new()
        .nest("/v1/workspaces/{workspace}", workspace)
        .merge(workspaces::routes())
        .merge(clock::routes())
        .layer(middleware::map_response(forbid_caching));
    Router::new()
        .merge(api)
        .merge(health::routes())
        .merge(pages::routes())
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(path_not_found)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(tls::enforce_tls))
        .layer(middleware::from_fn(body_limits::limit))
        .layer(middleware::from_fn(access_log::log_request))
        .with_state(app)
}

/// Answers contain data for their caller only, and some a token. No cache may keep them.
async fn forbid_caching(mut response: Response) -> Response {
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn path_not_found(uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    if expects_page(&uri, &headers) {
        return pages::refused(&Problem::not_found(format!(
            "No page has the address {path}. It may be incomplete."
        )));
    }
    ApiError(Problem::not_found(format!("path {path} not found"))).into_response()
}

/// The header `Allow` lists the methods of the path.
async fn method_not_allowed(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let refused = |detail| Problem::new(405, "method_not_allowed", detail);
    if expects_page(&uri, &headers) {
        let detail = format!("{path} is the address of a form. Open its page and use the form.");
        return pages::refused(&refused(detail));
    }
    let detail = format!(
        "method {method} is not allowed at {path}; the header `Allow` lists the allowed ones"
    );
    ApiError(refused(detail)).into_response()
}

/// Whether a browser asks for a path outside the API.
fn expects_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let accepts_pages = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    accepts_pages && !uri.path().starts_with("/v1/")
}
