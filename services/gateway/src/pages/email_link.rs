//! `/l/{token}`: the link of an email. Opening it shows the request and decides nothing, so that link
//! scanners do no harm. Posting decides as the recipient of the email, with the command of the API.
//!
//! A link is bound to its recipient and to the version of the request in the email. After a change the
//! recipient sees the current version first. The link ends with the request. It may name an answer,
//! which is shown first and needs a click. The token is the proof and no cookie adds to it, so the
//! forms need no CSRF field.

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware, routing};
use holdpoint_auth::{AuthError, LinkClaims, Right};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DecideRequest, Decision, RequestView};
use maud::html;
use serde::Deserialize;

use super::attempt::{Banner, RequestAttempt};
use super::card::{card, title};
use super::cookie::read_cookie;
use super::layout;
use super::request_actions::{FRAGMENT_HEADER, FormAction, FormError, submit};
use super::session::{Fields, PageError, Viewer, invalid_form};
use crate::app::App;
use crate::auth::caller::claims;
use crate::body::from_json;
use crate::problem::ApiError;
use crate::store::tokens::Holder;
use crate::use_cases::decide_request::decide_request;

/// The actions of a link; all others require a sign-in.
const DECISIONS: [&str; 5] = ["respond", "approve", "reject", "revise", "complete"];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/l/{token}", routing::get(show).post(decide))
        .layer(middleware::map_response(hide_address))
}

/// The address is a secret: it must not reach caches, referrers or search engines.
async fn hide_address(response: Response) -> Response {
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ];
    layout::set_headers(response, headers)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    decision: Decision,
}

struct EmailLink {
    claims: LinkClaims,
    viewer: Viewer,
}

async fn show(State(app): State<App>, Path(token): Path<String>, headers: HeaderMap) -> Response {
    let is_json = is_json(&headers, header::ACCEPT);
    let shown = async {
        let link = open(&app, &token, &headers).await?;
        let request = link.viewer.request(link.claims.request).await?;
        if is_json {
            return Ok(Json(request).into_response());
        }
        let is_current = is_current(&request, link.claims.version);
        let mut attempt = RequestAttempt::with_notice(link.notice(&request));
        attempt.chosen = link.claims.choice.filter(|_| is_current);
        link.render(request, &attempt, false)
    };
    shown.await.unwrap_or_else(|error| refuse(error, is_json))
}

async fn decide(
    State(app): State<App>,
    Path(token): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let is_json = is_json(&headers, header::CONTENT_TYPE);
    let decided = async {
        let link = open(&app, &token, &headers).await?;
        if is_json {
            return link.decide_by_json(request).await;
        }
        let is_fragment = headers.contains_key(FRAGMENT_HEADER);
        link.decide_by_form(request, is_fragment).await
    };
    decided.await.unwrap_or_else(|error| refuse(error, is_json))
}

fn is_json(headers: &HeaderMap, name: HeaderName) -> bool {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.is_some_and(|text| text.contains("application/json"))
}

fn refuse(problem: Problem, is_json: bool) -> Response {
    if is_json {
        ApiError(problem).into_response()
    } else {
        PageError::Problem(problem).into_response()
    }
}

/// Checks the token, its recipient, and that no other user is signed in to this browser.
async fn open(app: &App, token: &str, headers: &HeaderMap) -> Result<EmailLink, Problem> {
    let link = app.keys.links.check(token, app.clock.now());
    let link = link.map_err(|error| match error {
        AuthError::Expired => Problem::new(
            410,
            "link_expired",
            "This link has expired. Sign in and open the request from your inbox.",
        ),
        AuthError::Malformed
        | AuthError::Forged
        | AuthError::OtherWorkspace
        | AuthError::OtherCommand => {
            Problem::not_found("This link is not valid. The address may be incomplete.")
        }
    })?;
    let holder = Holder {
        workspace: link.workspace.clone(),
        user: link.person.clone(),
        role: None,
    };
    let found = claims(app, holder).await?.ok_or_else(|| {
        let detail = format!(
            "This link belongs to {}, whose account is disabled or deleted.",
            link.person
        );
        Problem::new(403, "forbidden", detail)
    })?;
    check_signed_in_user(app, &link, headers).await?;
    let Viewer { app, user } = Viewer::new(app, found, token).await;
    let user = user.with_link(token);
    Ok(EmailLink {
        viewer: Viewer { app, user },
        claims: link,
    })
}

/// A user who is signed in must not decide by the link of another user in the same workspace.
async fn check_signed_in_user(
    app: &App,
    link: &LinkClaims,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let Some(secret) = read_cookie(headers) else {
        return Ok(());
    };
    let Some(user) = Viewer::find(app, secret).await? else {
        return Ok(());
    };
    if user.caller.workspace != link.workspace || user.name() == link.person.as_str() {
        return Ok(());
    }
    let detail = format!(
        "This link belongs to {}, but you are signed in as {}. If the request is also addressed to you, open it from your inbox.",
        link.person,
        user.name()
    );
    Err(Problem::new(403, "other_person", detail))
}

/// True if nothing that users see has changed since this version. A snooze by another user, for
/// example, raises the version only.
pub(super) fn is_current(request: &RequestView, version: u64) -> bool {
    let since = request.unchanged_since.unwrap_or(request.version);
    (since..=request.version).contains(&version)
}

fn decision_only(action: FormAction) -> Result<FormAction, FormError> {
    match action {
        FormAction::Decide(_) => Ok(action),
        FormAction::Act(_) | FormAction::Withdraw | FormAction::AskAgain { .. } => {
            let message = "An email link can only respond, approve, reject or complete.";
            Err(invalid_form(message).into())
        }
    }
}

impl EmailLink {
    /// A change that the recipient has to know before they decide.
    fn notice(&self, request: &RequestView) -> Option<Banner> {
        let text = if !request.status.is_open() {
            "This link is no longer valid because the request has ended."
        } else if !is_current(request, self.claims.version) {
            "The request has changed since this email was sent. The current state is shown below."
        } else {
            return None;
        };
        Some(Banner::error(text, Vec::new()))
    }

    /// `{decision}` with a JSON reply.
    async fn decide_by_json(&self, request: Request) -> Result<Response, Problem> {
        let Viewer { app, user } = &self.viewer;
        let bytes = Bytes::from_request(request, app).await.map_err(|error| {
            let status = error.status().as_u16();
            Problem::new(status, "invalid_body", error.body_text())
        })?;
        let LinkBody { decision } = from_json(&bytes)?;
        user.caller.may(Right::Decide)?;
        let command = DecideRequest {
            id: self.claims.request,
            decision,
            version: Some(self.claims.version),
            silent: false,
        };
        let outcome = decide_request(app, &user.caller, None, command).await?;
        Ok(outcome.with_status(StatusCode::OK))
    }

    /// A posted form; the reply is the request as it is afterwards.
    async fn decide_by_form(
        &self,
        request: Request,
        is_fragment: bool,
    ) -> Result<Response, Problem> {
        let viewer = &self.viewer;
        let fields = Fields::read(request, &viewer.app).await?;
        let request = viewer.request(self.claims.request).await?;
        let version = Some(self.claims.version);
        let mut submitted = submit(viewer, request, version, fields, decision_only).await;
        if submitted.status.is_success() {
            let recorded = || Banner::success("Recorded. You can close this page.");
            submitted.attempt.notice.get_or_insert_with(recorded);
        }
        let page = self.render(submitted.request, &submitted.attempt, is_fragment)?;
        Ok((submitted.status, page).into_response())
    }

    /// The request with forms that carry a link of the shown version.
    fn render(
        &self,
        mut view: RequestView,
        attempt: &RequestAttempt,
        is_fragment: bool,
    ) -> Result<Response, Problem> {
        view.actions
            .retain(|action| DECISIONS.contains(&action.as_str()));
        let Viewer { app, mut user } = self.viewer.clone();
        if view.version != self.claims.version {
            let claims = LinkClaims {
                version: view.version,
                choice: None,
                ..self.claims.clone()
            };
            let fresh = app.keys.links.sign(&claims).map_err(|error| {
                tracing::error!(%error, "cannot sign an email link; the page is not shown");
                Problem::internal()
            })?;
            user = user.with_link(&fresh);
        }
        let card = card(&user, &view, Some(attempt));
        if is_fragment {
            return Ok(card.into_response());
        }
        let body = html! {
            main #main {
                p.muted { "You decide as " strong { (user.name()) } ". "
                    a href={ "/requests/" (view.id) } { "Sign in" } " for other actions." }
                div.cards.one { (card) }
            }
        };
        let page = layout::document(&title(&view), Some(user.clock()), false, &body);
        Ok(page.into_response())
    }
}
