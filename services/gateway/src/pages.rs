//! The router of the pages: server-rendered HTML with one style sheet and one small script.
//!
//! The pages own their appearance and the browser's session. A form runs the same command as the API,
//! with the same signed assertion of the user; there is no other way into the system. All pages work
//! without the script.
//!
//! Imports point downward: actions and the live stream, pages, cards and forms, navigation, session,
//! and below them layout, labels and sanitize.

mod agent;
mod agents;
mod approval_items;
mod assets;
mod attempt;
mod card;
mod context;
mod cookie;
mod email_link;
mod filter;
mod fragment;
mod inbox;
mod inputs;
mod labels;
mod layout;
mod live;
mod login;
mod navigation;
mod notifications;
mod rehearsal;
mod request;
mod request_actions;
mod request_forms;
mod run;
mod run_actions;
mod runs;
mod sanitize;
mod schema;
mod session;
mod settings;
mod standing_approvals;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod watch_buttons;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::{Redirect, Response};
use axum::routing::{get, post};

use holdpoint_contracts::Problem;

use crate::app::App;
use crate::body_limits::BODY_MAX;

/// A problem as a page, with the headers of all pages.
pub(crate) fn refused(problem: &Problem) -> Response {
    layout::add_security_headers(layout::problem_page(problem))
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(async || Redirect::to("/inbox")))
        .route("/inbox", get(inbox::page))
        .route("/requests/{id}", get(request::page))
        .route("/requests/{id}/act", post(request_actions::act))
        .route("/tasks/{task}", get(request::task_page))
        .route("/agents", get(agents::page))
        .route("/agents/{agent}", get(agent::page))
        .route("/agents/{agent}/act", post(agent::act))
        .route(
            "/agents/{agent}/rehearsal",
            get(rehearsal::page).post(rehearsal::start),
        )
        .route("/rehearsals/{id}", get(rehearsal::stored::page))
        .route("/rehearsals/{id}/act", post(rehearsal::stored::act))
        .route("/runs", get(runs::page))
        .route("/runs/{run}", get(run::page))
        .route("/runs/{run}/act", post(run_actions::act))
        .route("/follow", post(watch_buttons::act))
        .route("/notifications", get(notifications::page))
        .route("/notifications/read", post(notifications::mark_all_read))
        .route("/notifications/{id}/read", post(notifications::mark_read))
        .route("/live", get(live::stream))
        .route(
            "/login",
            get(login::token_form).post(login::sign_in_by_token),
        )
        .route(
            "/login/{code}",
            get(login::show_link)
                .post(login::sign_in_by_link)
                .layer(middleware::map_response(login::hide_path)),
        )
        .route("/logout", post(login::sign_out))
        .route("/workspace", post(login::switch_workspace))
        .route("/assets/{file}", get(assets::file))
        .merge(email_link::routes())
        .merge(settings::routes())
        .merge(standing_approvals::routes())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::map_response(async |response: Response| {
            layout::add_security_headers(response)
        }))
}
