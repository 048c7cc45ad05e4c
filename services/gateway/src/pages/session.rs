//! Who looks: the session behind a cookie, and what a form must bring so that it is theirs.

use axum::extract::{Form, FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_ids::{HoldId, Workspace};
use sha2::{Digest, Sha256};

use super::{layout, time_zone};
use crate::app::App;
use crate::caller::{Caller, claims};
use crate::problem::database_away;
use crate::store::sessions;
use crate::tls::came_by_tls;

/// The cookie's name without TLS.
const COOKIE: &str = "holdpoint_session";
/// And with it. A browser takes this name with `Secure` and for this very host only, so that no page of a
/// neighbouring host puts its own session in the place of ours (A-L2).
const COOKIE_OF_TLS: &str = "__Host-holdpoint_session";
/// As long as a session can last, in seconds; it may end sooner on this side.
const COOKIE_LASTS_S: u32 = 30 * 24 * 3_600;

/// A person who is signed in, in the workspace that they look at.
#[derive(Debug, Clone)]
pub(super) struct SignedInUser {
    /// Whom the API would see.
    pub(super) caller: Caller,
    /// Other workspaces that this browser is signed in to.
    pub(super) others: Vec<Workspace>,
    pub(super) now: DateTime<Utc>,
    /// In which zone they read times.
    pub(super) zone: Tz,
    /// Whether time stands between moves (`--test-clock`): then nothing counts down by itself.
    pub(super) time_stands: bool,
    /// Whoever came by a link of a mail, and is not signed in: its token.
    link: Option<String>,
    secret: String,
}

/// Fields of a form that came from one of our own pages.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) person: SignedInUser,
    pub(super) fields: Fields,
}

/// Fields of a form, in order; a name may come twice.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

/// A page that cannot be shown.
#[derive(Debug)]
pub(super) enum PageError {
    /// Nobody is signed in; then back to here.
    SignIn(String),
    /// As the API would say it.
    Problem(Problem),
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(next) if next == "/inbox" => Redirect::to("/login").into_response(),
            Self::SignIn(next) => {
                let next = encoded(&next);
                Redirect::to(&format!("/login?next={next}")).into_response()
            }
            Self::Problem(problem) => layout::refused(&problem),
        }
    }
}

impl FromRequestParts<App> for SignedInUser {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        // A form that nobody is signed in for cannot be sent again by itself: back to the start.
        let next = if parts.method == Method::GET && parts.uri.path() != "/live" {
            parts.uri.to_string()
        } else {
            "/inbox".to_owned()
        };
        let secret = cookie(&parts.headers).unwrap_or_default();
        Self::of(app, secret).await?.ok_or(PageError::SignIn(next))
    }
}

impl SignedInUser {
    /// Whose session this is at this moment.
    pub(super) async fn of(app: &App, secret: &str) -> Result<Option<Self>, Problem> {
        let tables = (&app.readers, &app.writer);
        let session = sessions::find(tables, secret, app.clock.now())
            .await
            .map_err(database_away)?;
        let Some(session) = session else {
            return Ok(None);
        };
        let Some(known) = claims(app, session.holder).await? else {
            return Ok(None);
        };
        let caller = Caller::of(known);
        Ok(Some(Self {
            zone: time_zone::of(app, &caller).await,
            caller,
            others: session.others,
            now: app.clock.now(),
            time_stands: app.clock.is_test(),
            link: None,
            secret: secret.to_owned(),
        }))
    }

    /// Whoever came by a link of a mail.
    pub(super) async fn linked(app: &App, caller: Caller, token: &str) -> Self {
        Self {
            zone: time_zone::of(app, &caller).await,
            caller,
            others: Vec::new(),
            now: app.clock.now(),
            time_stands: app.clock.is_test(),
            link: Some(token.to_owned()),
            secret: token.to_owned(),
        }
    }

    /// The same person with another link.
    pub(super) fn with_link(self, token: &str) -> Self {
        Self {
            link: Some(token.to_owned()),
            secret: token.to_owned(),
            ..self
        }
    }

    /// Where the forms of a request go.
    pub(super) fn acts_at(&self, request: HoldId) -> String {
        match &self.link {
            Some(token) => format!("/l/{token}"),
            None => format!("/requests/{request}/act"),
        }
    }

    /// The same person, if the session still is one.
    pub(super) async fn again(&self, app: &App) -> Result<Option<Self>, Problem> {
        Self::of(app, &self.secret).await
    }

    /// What a form of this session carries; worth nothing in any other.
    pub(super) fn csrf(&self) -> String {
        let text = format!("form of {}", self.secret);
        format!("{:x}", Sha256::digest(text.as_bytes()))
    }

    pub(super) fn name(&self) -> &str {
        self.caller.claims.user.as_str()
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.caller.may(right).is_ok()
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

impl FromRequest<App> for Posted {
    type Rejection = PageError;

    async fn from_request(request: Request, app: &App) -> Result<Self, PageError> {
        let (mut parts, body) = request.into_parts();
        let person = SignedInUser::from_request_parts(&mut parts, app).await?;
        same_origin(&parts.headers)?;
        let fields = Fields::read(Request::from_parts(parts, body), app).await?;
        if fields.get("csrf") != Some(person.csrf().as_str()) {
            return Err(PageError::Problem(Problem::new(
                403,
                "stale_form",
                "this form is of another session, or of before you signed in; go back, load the \
                 page again and send it once more",
            )));
        }
        Ok(Self { person, fields })
    }
}

impl Fields {
    /// The fields of a form's body.
    pub(super) async fn read(request: Request, app: &App) -> Result<Self, Problem> {
        let Form(fields) = Form::<Vec<(String, String)>>::from_request(request, app)
            .await
            .map_err(|error| {
                tracing::debug!(%error, "a form cannot be read");
                let detail =
                    "this form cannot be read; go back, load the page again and send it once more";
                Problem::new(error.status().as_u16(), "invalid_form", detail)
            })?;
        Ok(Self(fields))
    }

    /// The first field of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut named = self.0.iter().filter(|(key, _)| key == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// The same if it says something.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.get(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }
}

/// A browser says where a form comes from; from elsewhere it is not taken.
pub(super) fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = text(header::ORIGIN.as_str()) else {
        return Ok(());
    };
    let from = origin.split_once("://").map(|(_scheme, host)| host);
    if from.is_some() && from == text(header::HOST.as_str()) {
        return Ok(());
    }
    Err(Problem::new(
        403,
        "other_origin",
        "this form was sent by a page of another address; open Holdpoint itself and do it there",
    ))
}

/// What the browser keeps of a session. With TLS a cookie of the other name is not ours.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let own = cookie_name(headers);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == own).then_some(value))
}

/// The header that keeps a session in the browser; behind TLS for TLS only.
pub(super) fn keep(secret: &str, headers: &HeaderMap) -> String {
    format!(
        "{}={secret}; Max-Age={COOKIE_LASTS_S}{}",
        cookie_name(headers),
        flags(headers)
    )
}

/// The header that makes the browser forget it.
pub(super) fn forget(headers: &HeaderMap) -> String {
    format!("{}=; Max-Age=0{}", cookie_name(headers), flags(headers))
}

fn cookie_name(headers: &HeaderMap) -> &'static str {
    match came_by_tls(headers) {
        true => COOKIE_OF_TLS,
        false => COOKIE,
    }
}

fn flags(headers: &HeaderMap) -> String {
    let secure = if came_by_tls(headers) { "; Secure" } else { "" };
    format!("; Path=/; HttpOnly; SameSite=Lax{secure}")
}

/// A path of our own to go to afterwards; anything else is the inbox.
pub(super) fn own_path(next: Option<&str>) -> &str {
    let is_own = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.contains(['\\', '\r', '\n'])
            && path.chars().all(|c| !c.is_control())
    };
    next.filter(is_own).unwrap_or("/inbox")
}

/// As a value in a query.
pub(super) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
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
    /// Somebody with these roles, who looks at that instant.
    pub(super) fn played(name: &str, roles: &[&str], now: DateTime<Utc>) -> Self {
        let claims = holdpoint_auth::Claims {
            workspace: "default".parse().unwrap(),
            user: name.parse().unwrap(),
            roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
            expires_at: now,
        };
        Self {
            caller: Caller::played(claims, true),
            others: Vec::new(),
            now,
            zone: Tz::UTC,
            time_stands: false,
            link: None,
            secret: format!("secret of {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let one = |(name, value): &(&'static str, &'static str)| {
            (
                axum::http::HeaderName::from_static(name),
                axum::http::HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn a_form_of_another_address_is_not_taken() {
        let host = ("host", "127.0.0.1:7878");
        let from = |origin| same_origin(&headers(&[host, ("origin", origin)])).is_ok();
        assert!(from("http://127.0.0.1:7878"));
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:80", ""] {
            assert!(!from(foreign), "{foreign}");
        }
    }

    #[test]
    fn one_goes_on_to_our_own_paths_only() {
        assert_eq!(own_path(Some("/runs/run_1?x=1")), "/runs/run_1?x=1");
        for wrong in [
            "https://evil.example",
            "//evil.example",
            "/\\evil",
            "x",
            "/a\nb",
        ] {
            assert_eq!(own_path(Some(wrong)), "/inbox", "{wrong}");
        }
        assert_eq!(own_path(None), "/inbox");
    }

    #[test]
    fn the_cookie_is_for_us_alone() {
        let jar = headers(&[("cookie", "a=b; holdpoint_session=s3; c=d")]);
        assert_eq!(cookie(&jar), Some("s3"));
        let plain = keep("s3", &jar);
        assert!(plain.contains("HttpOnly") && plain.contains("SameSite=Lax"));
        assert!(!plain.contains("Secure"));
    }

    /// Mend A-L2: behind TLS the cookie is `Secure` and of this very host, and no other cookie is taken for it.
    #[test]
    fn behind_tls_the_cookie_is_for_tls_and_this_host_only() {
        let tls = ("x-forwarded-proto", "https");
        let name = "__Host-holdpoint_session";
        for (header, named) in [
            (keep("s3", &headers(&[tls])), format!("{name}=s3; ")),
            (forget(&headers(&[tls])), format!("{name}=; ")),
        ] {
            assert!(header.starts_with(&named), "{header}");
            assert!(
                header.contains("; Path=/;") && header.ends_with("; Secure"),
                "{header}"
            );
            assert!(!header.contains("Domain"), "{header}");
        }
        let both = (
            "cookie",
            "holdpoint_session=other; __Host-holdpoint_session=s3",
        );
        assert_eq!(cookie(&headers(&[tls, both])), Some("s3"));
        assert_eq!(cookie(&headers(&[both])), Some("other"));
        let planted = ("cookie", "holdpoint_session=other");
        assert_eq!(cookie(&headers(&[tls, planted])), None);
    }

    #[test]
    fn what_stands_in_a_query_is_encoded() {
        assert_eq!(
            encoded("/inbox?kind=input&x=ä"),
            "/inbox%3Fkind%3Dinput%26x%3D%C3%A4"
        );
    }
}
