//! All routes together, and what is around every one of them.

use axum::Router;
use axum::middleware;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::routes::{agents, clock, contacts, health, mails, runs};
use crate::{access, problem};

/// The whole surface.
pub(crate) fn router(app: App) -> Router {
    let workspace = Router::new()
        .merge(agents::routes())
        .merge(contacts::routes())
        .merge(mails::routes())
        .merge(runs::routes());
    Router::new()
        .nest("/v1/workspaces/{workspace}", workspace)
        .merge(clock::routes())
        .merge(health::routes())
        .method_not_allowed_fallback(problem::no_such_method)
        .fallback(problem::no_such_path)
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(access::log))
        .with_state(app)
}
