//! `/l/{token}`: what a mail links to. Looking shows the request and decides nothing, whoever or
//! whatever looks; posting decides it, as the person whom the mail was sent to, by the same command as
//! every other way.
//!
//! A link is bound to that person and to the version of the request that the mail was of. Whoever looks
//! at a later version sees that it has changed, and decides what they then see. It is used up when the
//! request is decided. It may name one of the answers: that one is shown first, to be confirmed. The token is the proof, and no cookie adds to it: so a form needs no other.

use axum::body::Bytes;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware, routing};
use holdpoint_auth::{AuthError, LinkClaims};
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{DecideRequest, Decision, RequestView};
use maud::html;
use serde::Deserialize;

use super::card::{Notice, Tried, card, title};
use super::layout;
use super::request;
use super::request_actions::{self, FormAction};
use super::session::{Fields, PageError, SignedInUser, cookie};
use crate::app::App;
use crate::body::from_json;
use crate::caller::{Caller, claims};
use crate::problem::{self, ApiError};
use crate::routes::requests;
use crate::store::tokens::Holder;

/// What a link may do; everything else is done by somebody who is signed in.
const DECISIONS: [&str; 4] = ["respond", "approve", "reject", "complete"];

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/l/{token}", routing::get(show).post(decide))
        .layer(middleware::map_response(hidden))
}

/// The address is a secret: it stays out of caches, referrers and search engines.
async fn hidden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    decision: Decision,
}

/// A link that counts, and whom it lets act.
struct Link {
    claims: LinkClaims,
    person: SignedInUser,
}

async fn show(State(app): State<App>, Path(token): Path<String>, headers: HeaderMap) -> Response {
    let is_json = says(&headers, header::ACCEPT);
    let shown = async {
        let link = open(&app, &token, &headers).await?;
        let request = request::get(&app, &link.person, link.claims.request).await?;
        if is_json {
            return Ok(Json(request).into_response());
        }
        let is_still = is_still(&request, link.claims.version);
        let tried = Tried {
            notice: state_of(&request, &link),
            chosen: link.claims.choice.filter(|_| is_still),
            ..Tried::default()
        };
        Ok(link.at(&app, request, (tried, false))?.into_response())
    };
    shown.await.unwrap_or_else(|error| refused(error, is_json))
}

async fn decide(
    State(app): State<App>,
    Path(token): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let is_json = says(&headers, header::CONTENT_TYPE);
    let decided = async {
        let link = open(&app, &token, &headers).await?;
        if is_json {
            link.by_program(&app, request).await
        } else {
            let is_fragment = headers.contains_key(request_actions::FRAGMENT);
            link.by_form(&app, request, is_fragment).await
        }
    };
    decided
        .await
        .unwrap_or_else(|error| refused(error, is_json))
}

fn says(headers: &HeaderMap, name: HeaderName) -> bool {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    text.is_some_and(|text| text.contains("application/json"))
}

fn refused(problem: Problem, is_json: bool) -> Response {
    if is_json {
        ApiError(problem).into_response()
    } else {
        PageError::Problem(problem).into_response()
    }
}

/// Checks the token, and that its person may still act and is not somebody else who is signed in here.
async fn open(app: &App, token: &str, headers: &HeaderMap) -> Result<Link, Problem> {
    let link = app.keys.links.check(token, app.clock.now());
    let link = link.map_err(|error| match error {
        AuthError::Expired => Problem::new(
            410,
            "link_expired",
            "The time of this link is over. Sign in, and look at your inbox.",
        ),
        AuthError::Malformed
        | AuthError::Forged
        | AuthError::OtherWorkspace
        | AuthError::OtherCommand => {
            Problem::not_found("There is no such link. Perhaps a part of it got lost on the way.")
        }
    })?;
    let holder = Holder {
        workspace: link.workspace.clone(),
        user: link.person.clone(),
        role: None,
    };
    let found = claims(app, holder).await?.ok_or_else(|| {
        let detail = format!("This link is for {}, who is disabled or gone.", link.person);
        Problem::new(403, "forbidden", detail)
    })?;
    not_another(app, &link, headers).await?;
    Ok(Link {
        person: SignedInUser::linked(app, Caller::of(found), token).await,
        claims: link,
    })
}

/// Somebody who is signed in as another person has been sent a link that is not theirs.
async fn not_another(app: &App, link: &LinkClaims, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(secret) = cookie(headers) else {
        return Ok(());
    };
    match SignedInUser::of(app, secret).await? {
        Some(own)
            if own.caller.workspace == link.workspace && own.name() != link.person.as_str() =>
        {
            let detail = format!(
                "This link is for {}, and you are signed in as {}. If it is put to you too, you find it in your inbox.",
                link.person,
                own.name()
            );
            Err(Problem::new(403, "other_person", detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// What is to be said of a request before somebody decides it by this link.
fn state_of(request: &RequestView, link: &Link) -> Option<Notice> {
    let text = if !request.status.is_open() {
        "This link is used up: there is nothing to decide any more."
    } else if !is_still(request, link.claims.version) {
        "This has changed since the mail was written. Here is how it is now."
    } else {
        return None;
    };
    Some(notice(false, text))
}

/// Whether a request is as it was at a version: what has changed since is nothing that people look at.
pub(super) fn is_still(request: &RequestView, version: u64) -> bool {
    let since = request.unchanged_since.unwrap_or(request.version);
    (since..=request.version).contains(&version)
}

fn notice(is_good: bool, text: &str) -> Notice {
    Notice {
        is_good,
        text: text.to_owned(),
        lines: Vec::new(),
    }
}

impl Link {
    /// `{decision}`: answered as the API answers.
    async fn by_program(&self, app: &App, request: Request) -> Result<Response, Problem> {
        let bytes = Bytes::from_request(request, app).await.map_err(|error| {
            let status = error.status().as_u16();
            Problem::new(status, "invalid_body", error.body_text())
        })?;
        let LinkBody { decision } = from_json(&bytes)?;
        let caller = &self.person.caller;
        caller.may(holdpoint_auth::Right::Decide)?;
        let command = DecideRequest {
            id: self.claims.request,
            decision,
            version: Some(self.claims.version),
        };
        let answered = requests::decided(app, caller, None, command).await?;
        Ok(answered.with_status(StatusCode::OK))
    }

    /// What the form says; answered by the request as it then is.
    async fn by_form(
        &self,
        app: &App,
        request: Request,
        is_fragment: bool,
    ) -> Result<Response, Problem> {
        let fields = Fields::read(request, app).await?;
        let id = self.claims.request;
        let seen = request::get(app, &self.person, id).await?;
        let done = match request_actions::desired_state(&fields, &seen) {
            Ok(FormAction::Decide(decision)) => {
                let version = Some(self.claims.version);
                request_actions::done(
                    app,
                    &self.person,
                    (id, version),
                    FormAction::Decide(decision),
                )
                .await
            }
            Ok(FormAction::Act(_) | FormAction::Withdraw | FormAction::AskAgain(..)) => Err(
                request_actions::invalid("A link decides, and does nothing else."),
            ),
            Err(fault) => Err(fault),
        };
        match done {
            Ok((view, stored)) => {
                let thanks = || notice(true, "Recorded. You may close this page.");
                let tried = Tried {
                    notice: stored.or_else(|| Some(thanks())),
                    ..Tried::default()
                };
                self.at(app, view, (tried, is_fragment))
            }
            Err(fault) => {
                let status = problem::status(&fault.problem);
                let tried = request_actions::refused(fault, fields);
                let now = request::get(app, &self.person, id).await.unwrap_or(seen);
                let page = self.at(app, now, (tried, is_fragment))?;
                Ok((status, page).into_response())
            }
        }
    }

    /// The request with the forms that decide it. They carry a link of the version that is shown.
    fn at(
        &self,
        app: &App,
        mut view: RequestView,
        how: (Tried, bool),
    ) -> Result<Response, Problem> {
        view.actions
            .retain(|action| DECISIONS.contains(&action.as_str()));
        let mut person = self.person.clone();
        if view.version != self.claims.version {
            let claims = LinkClaims {
                version: view.version,
                choice: None,
                ..self.claims.clone()
            };
            let fresh = app.keys.links.sign(&claims).map_err(|error| {
                tracing::error!(%error, "a link that cannot be written");
                Problem::internal()
            })?;
            person = person.with_link(&fresh);
        }
        let (tried, is_fragment) = how;
        let card = card(&person, &view, Some(&tried));
        if is_fragment {
            return Ok(card.into_response());
        }
        let main = html! {
            p.muted { "You decide as " strong { (person.name()) } ". "
                a href={ "/requests/" (view.id) } { "Sign in" } " for everything else." }
            div.cards.one { (card) }
        };
        Ok(layout::alone(&person, &title(&view), &main).into_response())
    }
}
