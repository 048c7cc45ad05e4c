//! Sign-in by the one-time link that `up` prints or by a token, and sign-out.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};

use super::cookie::{expired_cookie, read_cookie, session_cookie};
use super::layout::{anonymous_page, set_headers};
use super::session::{Fields, PageError, PostedForm, check_origin, local_path};
use crate::app::App;
use crate::auth::caller::claims;
use crate::params::Params;
use crate::store::sessions;
use crate::store::tokens::{self, Holder, TokenId};

/// The path of a sign-in link is a secret, so referrers contain only the origin. Without any referrer
/// browsers would send the form with `Origin: null`, and it would be refused.
pub(super) async fn hide_path(response: Response) -> Response {
    set_headers(response, [(header::REFERRER_POLICY, "strict-origin")])
}

pub(super) async fn token_form(params: Params) -> Result<Response, PageError> {
    let next: Option<String> = params.read_as("next")?;
    Ok(token_page(next.as_deref(), None).into_response())
}

pub(super) async fn sign_in_by_token(
    State(app): State<App>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, PageError> {
    check_origin(&headers)?;
    let fields = Fields::read(request, &app).await?;
    let token = fields.get("token").unwrap_or_default().trim();
    let known = tokens::holder(&app.readers, token, app.clock.now()).await?;
    let known = known.map(|(id, holder)| (holder, Some(id)));
    let next = fields.get("next");
    Ok(match sign_in(&app, &headers, known).await? {
        Some(cookie) => redirect_with(cookie, local_path(next)),
        None => {
            let wrong = "Invalid token: it is unknown or expired, or its user is disabled.";
            let page = token_page(next, Some(wrong));
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
    })
}

/// Shows which user a one-time link signs in. Opening it does not consume it, so that link previews do
/// no harm.
pub(super) async fn show_link(
    State(app): State<App>,
    Path(code): Path<String>,
) -> Result<Response, PageError> {
    let Some(holder) = sessions::login(&app.readers, &code, app.clock.now()).await? else {
        return Ok(consumed_link_page());
    };
    let main = html! {
        div.panel {
            h1 { "Sign in" }
            p { "User " strong { (holder.user) } " in workspace " strong { (holder.workspace) } "." }
            form method="post" {
                button.primary autofocus { "Sign in as " (holder.user) }
            }
            p.muted { "This link can be used once." }
        }
    };
    Ok(anonymous_page("Sign in", &main).into_response())
}

/// Signs in with a one-time link and consumes it.
pub(super) async fn sign_in_by_link(
    State(app): State<App>,
    headers: HeaderMap,
    Path(code): Path<String>,
) -> Result<Response, PageError> {
    check_origin(&headers)?;
    let now = app.clock.now();
    if let Some(holder) = sessions::login(&app.writer, &code, now).await? {
        // If the user cannot be read now, this fails before the link is consumed.
        claims(&app, holder).await?;
    }
    let holder = sessions::take_login(&app.writer, &code, now).await?;
    let known = holder.map(|holder| (holder, None));
    Ok(match sign_in(&app, &headers, known).await? {
        Some(cookie) => redirect_with(cookie, "/inbox"),
        None => consumed_link_page(),
    })
}

/// Signs the browser out of all workspaces.
pub(super) async fn sign_out(
    headers: HeaderMap,
    PostedForm(viewer, _): PostedForm,
) -> Result<Response, PageError> {
    sessions::end(&viewer.app.writer, viewer.secret()).await?;
    Ok(redirect_with(expired_cookie(&headers), "/login"))
}

/// Switches to another workspace that the browser is signed in to.
pub(super) async fn switch_workspace(
    PostedForm(viewer, fields): PostedForm,
) -> Result<Redirect, PageError> {
    if let Ok(workspace) = fields.get("workspace").unwrap_or_default().parse() {
        sessions::show(&viewer.app.writer, viewer.secret(), &workspace).await?;
    }
    Ok(Redirect::to("/inbox"))
}

/// The cookie of a new session; absent for an unknown, disabled or deleted user.
async fn sign_in(
    app: &App,
    headers: &HeaderMap,
    known: Option<(Holder, Option<TokenId>)>,
) -> Result<Option<String>, PageError> {
    let Some((holder, token)) = known else {
        return Ok(None);
    };
    if claims(app, holder.clone()).await?.is_none() {
        return Ok(None);
    }
    let before = read_cookie(headers);
    let secret = sessions::open(&app.writer, &holder, token, before, app.clock.now()).await?;
    Ok(Some(session_cookie(&secret, headers)))
}

fn redirect_with(cookie: String, path: &str) -> Response {
    ([(header::SET_COOKIE, cookie)], Redirect::to(path)).into_response()
}

fn consumed_link_page() -> Response {
    let main = html! {
        div.panel role="alert" {
            h1 { "This link is no longer valid" }
            p { "A sign-in link can be used once and expires after one day, also of a test clock. Restart "
                code { "holdpoint up" } " for a new link, or " a href="/login" { "sign in with a token" } "." }
        }
    };
    (StatusCode::GONE, anonymous_page("Sign in", &main)).into_response()
}

fn token_page(next: Option<&str>, wrong: Option<&str>) -> Markup {
    let main = html! {
        div.panel {
            h1 { "Sign in" }
            @if let Some(wrong) = wrong { p.error #wrong role="alert" { (wrong) } }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(local_path(next));
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="current-password" required
                    autofocus placeholder="hp_…" aria-describedby=[wrong.map(|_| "wrong")];
                button.primary { "Sign in" }
            }
            p.muted { code { "holdpoint up" } " prints a token and a sign-in link at startup. "
                code { "holdpoint token create" } " creates a token for another user." }
        }
    };
    anonymous_page("Sign in", &main)
}
