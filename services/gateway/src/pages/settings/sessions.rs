//! The sessions of a user, and signing them out.

use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_contracts::Problem;
use maud::{Markup, html};

use super::super::labels::{self, Tone};
use super::super::session::{PageError, PermittedForm, SignedInUser, Viewer, invalid_form};
use super::form::redirect_done;
use crate::auth::may::{InPerson, Look};
use crate::problem::database_away;
use crate::store::sessions::{self, SessionId, SessionView};

const PATH: &str = "/settings/sessions";

/// The user's sessions in the current workspace.
pub(super) async fn load(viewer: &Viewer) -> Result<Vec<SessionView>, Problem> {
    let owner = (&viewer.caller.workspace, &viewer.caller.claims.user);
    let secret = Some(viewer.secret());
    let found = sessions::list(&viewer.app.readers, owner, secret, viewer.now).await;
    found.map_err(database_away)
}

pub(super) fn list(user: &SignedInUser, sessions: &[SessionView]) -> Markup {
    let button = html! { button.danger { "Sign out everywhere" } };
    html! {
        section #sessions {
            h2 { "Your sessions" }
            ul.hooks { @for session in sessions { li { (entry(user, session)) } } }
            (user.form(PATH, "", &[], &button))
        }
    }
}

fn entry(user: &SignedInUser, session: &SessionView) -> Markup {
    let id = session.id.to_string();
    let button = html! { button { "Sign out" span.hidden { ": " (id) } } };
    html! {
        div.chips {
            @if session.is_this_one { (labels::chip(Tone::Good, "This browser")) }
            @match &session.role {
                Some(role) => { span.kind { "Restricted to " (role) } }
                None => { span.kind { "All your rights" } }
            }
        }
        p.meta {
            span { "Signed in on " (labels::instant(session.created_at, user.zone)) }
            span { "Last seen around " (labels::instant(session.last_seen, user.zone)) }
            span {
                @match session.token {
                    Some(token) => { "By token " code { (token) } }
                    None => { "By sign-in link" }
                }
            }
        }
        (user.form(PATH, "", &[("id", &id)], &button))
    }
}

/// Ends the session that the form names, or all sessions.
pub(super) async fn end(
    PermittedForm(viewer, fields, _): PermittedForm<InPerson<Look>>,
) -> Result<Response, PageError> {
    let id = fields.get("id").map(str::parse::<SessionId>).transpose();
    let id = id.map_err(|error: String| invalid_form(&error))?;
    let owner = (&viewer.caller.workspace, &viewer.caller.claims.user);
    // A session that has ended already is not an error.
    sessions::end_own(&viewer.app.writer, owner, id).await?;
    Ok(match viewer.reload().await? {
        Some(_user) => redirect_done("signed-out"),
        None => Redirect::to("/login").into_response(),
    })
}
