//! What people look at: HTML made here, one style sheet and one small script of our own.
//!
//! It owns how things look and how a browser is signed in. It has no way of its own into the
//! system: what a form does goes through the same commands, with the same signed assertion of the
//! person, as a call of the API. Everything works without the script.

mod assets;
mod card;
mod context;
mod email_link;
mod inbox;
mod labels;
mod layout;
mod live;
mod login;
mod notifications;
mod request;
mod request_actions;
mod request_forms;
mod run;
mod runs;
mod sanitize;
mod schema;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod time_zone;
mod timeline;
mod watch_buttons;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::response::{Redirect, Response};
use axum::routing::{get, post};

use holdpoint_contracts::Problem;

use crate::app::App;
use crate::body::BODY_MAX;

pub(crate) use time_zone::Zones;

/// A problem as a page, with the headers that every page has.
pub(crate) fn refused(problem: &Problem) -> Response {
    layout::secured(layout::refused(problem))
}

/// All pages, with the headers that they are served under.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(async || Redirect::to("/inbox")))
        .route("/inbox", get(inbox::page))
        .route("/requests/{id}", get(request::page))
        .route("/requests/{id}/act", post(request_actions::act))
        .route("/tasks/{task}", get(request::task))
        .route("/runs", get(runs::page))
        .route("/runs/{run}", get(run::page))
        .route("/runs/{run}/act", post(run::controls::act))
        .route("/follow", post(watch_buttons::act))
        .route("/notifications", get(notifications::page))
        .route("/notifications/read", post(notifications::read_all))
        .route("/notifications/{id}/read", post(notifications::read))
        .route("/live", get(live::stream))
        .route("/login", get(login::form).post(login::with_token))
        .route(
            "/login/{code}",
            get(login::link)
                .post(login::with_link)
                .layer(middleware::map_response(login::hidden)),
        )
        .route("/logout", post(login::out))
        .route("/workspace", post(login::show_workspace))
        .route("/assets/{file}", get(assets::file))
        .merge(email_link::routes())
        .merge(settings::routes())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::map_response(async |response: Response| {
            layout::secured(response)
        }))
}
