//! All routes together, and what is around every one of them.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::routes::{
    agents, asking, clock, commands, contacts, dead_letters, health, holds, hooks, mails,
    notifications, policies, preferences, requests, runs, scopes, sessions, tokens, tools, users,
    watches, webhooks, workspaces,
};
use crate::{access, arrival, pages, problem, tls};

/// The whole surface.
pub(crate) fn router(app: App) -> Router {
    let workspace = Router::new()
        .merge(agents::routes())
        .merge(asking::routes())
        .merge(commands::routes())
        .merge(contacts::routes())
        .merge(holds::routes())
        .merge(hooks::routes())
        .merge(dead_letters::routes())
        .merge(mails::routes())
        .merge(notifications::routes())
        .merge(policies::routes())
        .merge(preferences::routes())
        .merge(requests::routes())
        .merge(runs::routes())
        .merge(scopes::routes())
        .merge(sessions::routes())
        .merge(tokens::routes())
        .merge(tools::routes())
        .merge(users::routes())
        .merge(watches::routes())
        .merge(webhooks::routes());
    let api = Router::new()
        .nest("/v1/workspaces/{workspace}", workspace)
        .merge(workspaces::routes())
        .merge(clock::routes())
        .layer(middleware::map_response(not_kept));
    Router::new()
        .merge(api)
        .merge(health::routes())
        .merge(pages::routes())
        .method_not_allowed_fallback(problem::no_such_method)
        .fallback(problem::no_such_path)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(tls::keep_to_tls))
        .layer(middleware::from_fn(arrival::watch))
        .layer(middleware::from_fn(access::log))
        .with_state(app)
}

/// Answers hold what only their caller may know, and some a token: no cache keeps them.
async fn not_kept(mut response: Response) -> Response {
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
