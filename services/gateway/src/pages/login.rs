//! Signing in: by the one-time link that `up` prints, or by a token; and out again.

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use holdpoint_contracts::Problem;
use maud::{Markup, html};

use super::layout;
use super::session::{Fields, PageError, Posted, cookie, forget, keep, own_path, same_origin};
use crate::app::App;
use crate::caller::claims;
use crate::params::Params;
use crate::problem::database_away;
use crate::store::sessions;
use crate::store::tokens::{self, Holder, TokenId};

/// The path of a log-in link is a secret. Referrers name the address without the path: with none at all
/// browsers would send the form with `Origin: null`, and it would be refused.
pub(super) async fn hidden(mut response: Response) -> Response {
    response.headers_mut().insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("strict-origin"),
    );
    response
}

/// The form for a token.
pub(super) async fn form(params: Params) -> Result<Response, PageError> {
    let next: Option<String> = params.read_as("next")?;
    Ok(token_page(next.as_deref(), None).into_response())
}

/// Signs in whoever the token is of.
pub(super) async fn with_token(
    State(app): State<App>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, PageError> {
    same_origin(&headers)?;
    let fields = Fields::read(request, &app).await?;
    let token = fields.get("token").unwrap_or_default().trim();
    let known = tokens::known(&app.readers, token, app.clock.now())
        .await
        .map_err(database_away)?;
    let signed_in = match known {
        Some((id, holder)) => sign_in(&app, &headers, holder, Some(id)).await?,
        None => None,
    };
    let next = fields.get("next");
    Ok(match signed_in {
        Some(cookie) => go(cookie, own_path(next)),
        None => {
            let wrong = "This token is not known here, has expired, or its user is disabled.";
            let page = token_page(next, Some(wrong));
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
    })
}

/// Shows whom a one-time link signs in. Looking uses nothing up, so that whatever previews links
/// does no harm.
pub(super) async fn link(
    State(app): State<App>,
    Path(code): Path<String>,
) -> Result<Response, PageError> {
    let holder = sessions::login(&app.readers, &code, app.clock.now())
        .await
        .map_err(database_away)?;
    let Some(holder) = holder else {
        return Ok(used_up());
    };
    let main = html! {
        div.panel {
            h1 { "Sign in" }
            p { "You become " strong { (holder.user) } " in the workspace " strong { (holder.workspace) } "." }
            form method="post" {
                button.primary autofocus { "Sign in as " (holder.user) }
            }
            p.muted { "This link works once." }
        }
    };
    Ok(layout::bare("Sign in", &main).into_response())
}

/// Signs in with a one-time link, and uses it up.
pub(super) async fn with_link(
    State(app): State<App>,
    headers: HeaderMap,
    Path(code): Path<String>,
) -> Result<Response, PageError> {
    same_origin(&headers)?;
    let now = app.clock.now();
    let found = sessions::login(&app.writer, &code, now).await;
    if let Some(holder) = found.map_err(database_away)? {
        // Where users cannot be looked up now, the link is still good afterwards.
        claims(&app, holder).await?;
    }
    let holder = sessions::take_login(&app.writer, &code, now)
        .await
        .map_err(database_away)?;
    let signed_in = match holder {
        Some(holder) => sign_in(&app, &headers, holder, None).await?,
        None => None,
    };
    Ok(match signed_in {
        Some(cookie) => go(cookie, "/inbox"),
        None => used_up(),
    })
}

/// Signs the browser out of everything.
pub(super) async fn out(
    State(app): State<App>,
    headers: HeaderMap,
    posted: Posted,
) -> Result<Response, PageError> {
    sessions::end(&app.writer, posted.person.secret())
        .await
        .map_err(database_away)?;
    Ok(go(forget(&headers), "/login"))
}

/// Shows another workspace that the browser is signed in to.
pub(super) async fn show_workspace(
    State(app): State<App>,
    posted: Posted,
) -> Result<Response, PageError> {
    let name = posted.fields.get("workspace").unwrap_or_default();
    if let Ok(workspace) = name.parse() {
        sessions::show(&app.writer, posted.person.secret(), &workspace)
            .await
            .map_err(database_away)?;
    }
    Ok(Redirect::to("/inbox").into_response())
}

/// The cookie of a new session; none for a user who is disabled or gone.
async fn sign_in(
    app: &App,
    headers: &HeaderMap,
    holder: Holder,
    token: Option<TokenId>,
) -> Result<Option<String>, Problem> {
    if claims(app, holder.clone()).await?.is_none() {
        return Ok(None);
    }
    let before = cookie(headers);
    let secret = sessions::open(&app.writer, &holder, token, before, app.clock.now())
        .await
        .map_err(database_away)?;
    Ok(Some(keep(&secret, headers)))
}

fn go(cookie: String, path: &str) -> Response {
    ([(header::SET_COOKIE, cookie)], Redirect::to(path)).into_response()
}

fn used_up() -> Response {
    let main = html! {
        div.panel role="alert" {
            h1 { "This link is used up" }
            p { "A log-in link works once, for a day; moving a test clock counts. Start " code { "holdpoint up" } " again for a new one, or " a href="/login" { "sign in with a token" } "." }
        }
    };
    (StatusCode::GONE, layout::bare("Sign in", &main)).into_response()
}

fn token_page(next: Option<&str>, wrong: Option<&str>) -> Markup {
    let main = html! {
        div.panel {
            h1 { "Sign in" }
            @if let Some(wrong) = wrong { p.error #wrong role="alert" { (wrong) } }
            form.stack method="post" action="/login" {
                input type="hidden" name="next" value=(own_path(next));
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="current-password" required
                    autofocus placeholder="hp_…" aria-describedby=[wrong.map(|_| "wrong")];
                button.primary { "Sign in" }
            }
            p.muted { code { "holdpoint up" } " prints a token and a log-in link when it starts; "
                code { "holdpoint token create" } " makes one for somebody else." }
        }
    };
    layout::bare("Sign in", &main)
}
