//! The session of a browser: the signed-in user, and the checks that a posted form passes.

use std::fmt::{Display, Write as _};
use std::marker::PhantomData;
use std::ops::Deref;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::{Form, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::notification::GetPreferences;
use holdpoint_contracts::{Command, Problem, Query};
use holdpoint_ids::{HoldId, Workspace};
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::cookie::read_cookie;
use super::layout::{self, PageClock};
use super::sanitize::one_line;
use crate::app::App;
use crate::auth::caller::{Caller, claims};
use crate::auth::may::Demand;
use crate::command_outcome::CommandOutcome;
use crate::problem::{ApiError, database_away};
use crate::store::sessions;

/// Time to wait for the preferences; without them, times are shown in UTC.
const TIME_ZONE_TIMEOUT: Duration = Duration::from_millis(300);

/// The user behind a session or an email link, in the workspace that they view.
#[derive(Debug, Clone)]
pub(super) struct SignedInUser {
    /// The caller that the API would see.
    pub(super) caller: Caller,
    /// Other workspaces that this browser is signed in to.
    pub(super) other_workspaces: Vec<Workspace>,
    pub(super) now: DateTime<Utc>,
    pub(super) zone: Tz,
    /// True under `--test-clock`: time moves only by command.
    pub(super) is_clock_frozen: bool,
    /// Set for a user who followed an email link and is not signed in.
    link_token: Option<String>,
    secret: String,
}

/// A signed-in user and the services that answer them.
#[derive(Clone)]
pub(super) struct Viewer {
    pub(super) app: App,
    pub(super) user: SignedInUser,
}

/// A form that one of our own pages sent.
pub(super) struct PostedForm(pub(super) Viewer, pub(super) Fields);

/// The form of a user who may do what it does.
pub(super) struct PermittedForm<D>(
    pub(super) Viewer,
    pub(super) Fields,
    pub(super) PhantomData<D>,
);

/// The fields of a form in order. A name may occur twice.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

/// A reason why a page is not shown.
#[derive(Debug)]
pub(super) enum PageError {
    /// There is no session; after signing in, the browser returns to this path.
    SignIn(String),
    Problem(Problem),
}

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self::Problem(error.into().0)
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(next) if next == "/inbox" => Redirect::to("/login").into_response(),
            Self::SignIn(next) => {
                Redirect::to(&format!("/login?next={}", percent_encode(&next))).into_response()
            }
            Self::Problem(problem) => layout::problem_page(&problem),
        }
    }
}

impl FromRequestParts<App> for Viewer {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        // A form cannot be repeated after signing in, so the browser returns to the inbox.
        let next = if parts.method == Method::GET && parts.uri.path() != "/live" {
            parts.uri.to_string()
        } else {
            "/inbox".to_owned()
        };
        let secret = read_cookie(&parts.headers).unwrap_or_default();
        let viewer = Self::find(app, secret).await?;
        viewer.ok_or(PageError::SignIn(next))
    }
}

impl Deref for Viewer {
    type Target = SignedInUser;

    fn deref(&self) -> &SignedInUser {
        &self.user
    }
}

impl Viewer {
    /// The user of a session; absent once the session has ended or the user is disabled.
    pub(super) async fn find(app: &App, secret: &str) -> Result<Option<Self>, Problem> {
        let tables = (&app.readers, &app.writer);
        let session = sessions::find(tables, secret, app.clock.now()).await;
        let Some(session) = session.map_err(database_away)? else {
            return Ok(None);
        };
        let Some(known) = claims(app, session.holder).await? else {
            return Ok(None);
        };
        let mut viewer = Self::new(app, known, secret).await;
        viewer.user.other_workspaces = session.others;
        Ok(Some(viewer))
    }

    pub(super) async fn new(app: &App, caller: Caller, secret: &str) -> Self {
        let user = SignedInUser {
            zone: find_time_zone(app, &caller).await,
            caller,
            other_workspaces: Vec::new(),
            now: app.clock.now(),
            is_clock_frozen: app.clock.is_test(),
            link_token: None,
            secret: secret.to_owned(),
        };
        let app = app.clone();
        Self { app, user }
    }

    /// The same user now; absent once the session has ended.
    pub(super) async fn reload(&self) -> Result<Option<Self>, Problem> {
        Self::find(&self.app, &self.secret).await
    }

    /// A request as the user may see it.
    pub(super) async fn request(&self, id: HoldId) -> Result<RequestView, Problem> {
        self.caller.may(Right::Look)?;
        self.app.request(&self.caller, id).await
    }

    pub(super) async fn query<Q: Query + Sync>(&self, query: &Q) -> Result<Q::Reply, Problem> {
        self.app.bus.query(&self.caller.workspace, query).await
    }

    /// The reply of a query that a page can do without; absent if it does not come in time.
    pub(super) async fn query_within<Q: Query + Sync>(
        &self,
        time: Duration,
        query: &Q,
    ) -> Option<Q::Reply> {
        let reply = tokio::time::timeout(time, self.query(query)).await;
        reply.ok()?.ok()
    }

    /// See [`App::ask`].
    pub(super) async fn ask<C: Command + Sync>(&self, command: C) -> Result<C::Reply, Problem> {
        self.app.ask(&self.caller, None, command).await
    }

    /// See [`App::command`].
    pub(super) async fn command<C: Command + Sync>(
        &self,
        command: C,
    ) -> Result<CommandOutcome<C::Reply>, Problem> {
        self.app.command(&self.caller, None, command).await
    }
}

impl SignedInUser {
    /// The user of an email link, who need not be signed in.
    pub(super) fn with_link(self, token: &str) -> Self {
        Self {
            link_token: Some(token.to_owned()),
            secret: token.to_owned(),
            ..self
        }
    }

    /// The path that the forms of a request post to.
    pub(super) fn request_path(&self, request: HoldId) -> String {
        match &self.link_token {
            Some(token) => format!("/l/{token}"),
            None => format!("/requests/{request}/act"),
        }
    }

    /// The proof that a form comes from a page of this session.
    pub(super) fn csrf(&self) -> String {
        let text = format!("form of {}", self.secret);
        format!("{:x}", Sha256::digest(text.as_bytes()))
    }

    /// A form that posts these hidden fields and `inside`.
    pub(super) fn form(
        &self,
        path: &str,
        class: &str,
        hidden: &[(&str, &str)],
        inside: &Markup,
    ) -> Markup {
        html! {
            form class=[Some(class).filter(|class| !class.is_empty())] method="post" action=(path) {
                input type="hidden" name="csrf" value=(self.csrf());
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                (inside)
            }
        }
    }

    pub(super) fn clock(&self) -> PageClock {
        PageClock {
            now: self.now,
            is_frozen: self.is_clock_frozen,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.caller.claims.user.as_str()
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.caller.may(right).is_ok()
    }

    /// Whether the user may create standing approvals. A narrowed token may not, because they outlast it.
    pub(super) fn may_approve_in_advance(&self) -> bool {
        self.may(Right::Decide) && self.caller.in_person().is_ok()
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

/// The zone of the caller's preferences; UTC if they cannot be read in time.
async fn find_time_zone(app: &App, caller: &Caller) -> Tz {
    if let Some(zone) = app.zones.get(&caller.claims) {
        return zone;
    }
    let person = caller.claims.user.clone();
    let query = GetPreferences { person };
    let read = app.bus.query(&caller.workspace, &query);
    let Ok(Ok(preferences)) = tokio::time::timeout(TIME_ZONE_TIMEOUT, read).await else {
        return Tz::UTC;
    };
    let zone = preferences.time_zone.parse().unwrap_or(Tz::UTC);
    app.zones.insert(&caller.claims, zone);
    zone
}

impl FromRequest<App> for PostedForm {
    type Rejection = PageError;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageError> {
        let (mut parts, body) = request.into_parts();
        let viewer = Viewer::from_request_parts(&mut parts, app).await?;
        check_origin(&parts.headers)?;
        let fields = Fields::read(Request::from_parts(parts, body), app).await?;
        if fields.get("csrf") != Some(viewer.csrf().as_str()) {
            return Err(PageError::Problem(Problem::new(
                403,
                "stale_form",
                "this form belongs to another session; go back, reload the page and submit it again",
            )));
        }
        Ok(Self(viewer, fields))
    }
}

impl<D: Demand> FromRequest<App> for PermittedForm<D> {
    type Rejection = PageError;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageError> {
        let PostedForm(viewer, fields) = PostedForm::from_request(request, app).await?;
        viewer.caller.may(D::RIGHT)?;
        if D::IN_PERSON {
            viewer.caller.in_person()?;
        }
        Ok(Self(viewer, fields, PhantomData))
    }
}

impl Fields {
    pub(super) async fn read(request: Request, app: &App) -> Result<Self, Problem> {
        let Form(fields) = Form::<Vec<(String, String)>>::from_request(request, app)
            .await
            .map_err(|error| {
                tracing::debug!(%error, "invalid form data; the form was refused");
                let detail =
                    "the form data is invalid; go back, reload the page and submit it again";
                Problem::new(error.status().as_u16(), "invalid_form", detail)
            })?;
        Ok(Self(fields))
    }

    /// The first field of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// The same, trimmed, if it is not blank.
    pub(super) fn get_text(&self, name: &str) -> Option<&str> {
        let text = self.get(name).map(str::trim);
        text.filter(|text| !text.is_empty())
    }

    pub(super) fn get_all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// The value of an enumeration, written as in bodies; absent if it is not one of its words.
    pub(super) fn get_word<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_value(self.get_text(name)?.into()).ok()
    }
}

pub(super) fn invalid_form(detail: &str) -> Problem {
    Problem::new(422, "invalid_form", detail)
}

/// An id from a path. Text that is not an id names nothing, so it is a 404.
pub(super) fn parse_id<T: FromStr<Err: Display>>(kind: &str, text: &str) -> Result<T, Problem> {
    let not_found = |_invalid| {
        let text = one_line(text, 80);
        Problem::not_found(format!("{kind} `{text}` not found"))
    };
    text.parse().map_err(not_found)
}

/// Refuses a form that another site sent. Browsers send `Origin`; other clients need not.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else {
        return Ok(());
    };
    let from = origin.split_once("://").map(|(_scheme, host)| host);
    if from.is_some() && from == text(header::HOST) {
        return Ok(());
    }
    Err(Problem::new(
        403,
        "other_origin",
        "this form was submitted from another site; open Holdpoint directly and submit it there",
    ))
}

/// The path if it is one of ours, so that `next` cannot lead to another site; else the inbox.
pub(super) fn local_path(next: Option<&str>) -> &str {
    let is_local = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.contains(['\\', '\r', '\n'])
            && path.chars().all(|c| !c.is_control())
    };
    next.filter(is_local).unwrap_or("/inbox")
}

/// Encodes a value for a query string.
pub(super) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            out.push(char::from(byte));
        } else if write!(out, "%{byte:02X}").is_err() {
            break;
        }
    }
    out
}

#[cfg(test)]
impl SignedInUser {
    pub(super) fn for_test(name: &str, roles: &[&str], now: DateTime<Utc>) -> Self {
        let claims = holdpoint_auth::Claims {
            workspace: "default".parse().unwrap(),
            user: name.parse().unwrap(),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            expires_at: now,
        };
        Self {
            caller: Caller::for_test(claims, true),
            other_workspaces: Vec::new(),
            now,
            zone: Tz::UTC,
            is_clock_frozen: false,
            link_token: None,
            secret: format!("secret of {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::headers;
    use super::*;

    #[test]
    fn a_form_of_another_site_is_refused() {
        let host = ("host", "127.0.0.1:7878");
        let from = |origin| check_origin(&headers(&[host, ("origin", origin)])).is_ok();
        assert!(from("http://127.0.0.1:7878"));
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:80", ""] {
            assert!(!from(foreign), "{foreign}");
        }
    }

    #[test]
    fn only_local_paths_are_followed() {
        assert_eq!(local_path(Some("/runs/run_1?x=1")), "/runs/run_1?x=1");
        for wrong in [
            "https://evil.example",
            "//evil.example",
            "/\\evil",
            "x",
            "/a\nb",
        ] {
            assert_eq!(local_path(Some(wrong)), "/inbox", "{wrong}");
        }
        assert_eq!(local_path(None), "/inbox");
    }

    #[test]
    fn a_query_value_is_encoded() {
        assert_eq!(
            percent_encode("/inbox?kind=input&x=ä"),
            "/inbox%3Fkind%3Dinput%26x%3D%C3%A4"
        );
    }
}
