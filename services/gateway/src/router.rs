//! All routes together, and what is around every one of them.

use axum::Router;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::routes::{
    agents, asking, clock, commands, contacts, health, holds, hooks, mails, notifications,
    policies, preferences, requests, runs, scopes, tokens, tools, users, watches, webhooks,
    workspaces,
};
use crate::{access, arrival, pages, problem};

/// The whole surface.
pub(crate) fn router(app: App) -> Router {
    let workspace = Router::new()
        .merge(agents::routes())
        .merge(asking::routes())
        .merge(commands::routes())
        .merge(contacts::routes())
        .merge(holds::routes())
        .merge(hooks::routes())
        .merge(mails::routes())
        .merge(notifications::routes())
        .merge(policies::routes())
        .merge(preferences::routes())
        .merge(requests::routes())
        .merge(runs::routes())
        .merge(scopes::routes())
        .merge(tokens::routes())
        .merge(tools::routes())
        .merge(users::routes())
        .merge(watches::routes())
        .merge(webhooks::routes());
    Router::new()
        .nest("/v1/workspaces/{workspace}", workspace)
        .merge(workspaces::routes())
        .merge(clock::routes())
        .merge(health::routes())
        .merge(pages::routes())
        .method_not_allowed_fallback(problem::no_such_method)
        .fallback(problem::no_such_path)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(arrival::watch))
        .layer(middleware::from_fn(access::log))
        .with_state(app)
}
