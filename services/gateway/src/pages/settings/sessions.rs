//! In which browsers somebody is signed in, and signing out of them from here.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use maud::{Markup, html};

use super::super::labels::{self, Tone};
use super::super::session::{PageError, Posted, SignedInUser};
use super::{HERE, done};
use crate::app::App;
use crate::problem::database_away;
use crate::store::sessions::own::{self, SessionId, SessionView};

/// Those of whoever looks, in the workspace that they look at.
pub(super) async fn load(app: &App, person: &SignedInUser) -> Result<Vec<SessionView>, Problem> {
    let whose = (&person.caller.workspace, &person.caller.claims.user);
    own::list(&app.readers, whose, Some(person.secret()), person.now)
        .await
        .map_err(database_away)
}

pub(super) fn list(person: &SignedInUser, sessions: &[SessionView]) -> Markup {
    html! {
        section #sessions {
            h2 { "Where you are signed in" }
            ul.hooks {
                @for session in sessions { li { (one(person, session)) } }
            }
            form method="post" action={ (HERE) "/sessions" } {
                input type="hidden" name="csrf" value=(person.csrf());
                button.danger { "Sign out everywhere" }
            }
        }
    }
}

fn one(person: &SignedInUser, session: &SessionView) -> Markup {
    html! {
        div.chips {
            @if session.is_this_one { (labels::chip(Tone::Good, "This browser")) }
            @match &session.role {
                Some(role) => { span.kind { "Narrowed to " (role) } }
                None => { span.kind { "All your rights" } }
            }
        }
        p.meta {
            span { "Signed in on " (labels::instant(session.created_at, person.zone)) }
            span { "Last seen around " (labels::instant(session.last_seen, person.zone)) }
            span {
                @match session.token {
                    Some(token) => { "With token " code { (token) } }
                    None => { "With a log-in link" }
                }
            }
        }
        form method="post" action={ (HERE) "/sessions" } {
            input type="hidden" name="csrf" value=(person.csrf());
            input type="hidden" name="id" value=(session.id);
            button { "Sign out" span.hidden { ": " (session.id) } }
        }
    }
}

/// Ends the session that the form names, or all.
pub(super) async fn end(State(app): State<App>, posted: Posted) -> Result<Response, PageError> {
    let Posted { person, fields } = posted;
    person.caller.may(Right::Look)?;
    person.caller.in_person()?;
    let no_id = |detail: String| Problem::new(422, "invalid_form", detail);
    let which = fields.get("id").map(str::parse::<SessionId>);
    let which = which.transpose().map_err(no_id)?;
    let whose = (&person.caller.workspace, &person.caller.claims.user);
    // One that has ended meanwhile is what was wanted.
    own::end(&app.writer, whose, which)
        .await
        .map_err(database_away)?;
    Ok(match person.again(&app).await? {
        Some(_still_there) => done("signed-out"),
        None => Redirect::to("/login").into_response(),
    })
}
