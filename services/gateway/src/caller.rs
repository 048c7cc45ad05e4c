//! Who asks, and what the path names. A token opens its own workspace and shows no other.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;
use holdpoint_contracts::Problem;
use holdpoint_ids::Workspace;

use crate::app::App;
use crate::problem::{Refused, database_away};
use crate::store::tokens::{self, Holder};

/// Longest bit of what was sent that is quoted back.
const QUOTED: usize = 120;

/// Whose token came with the request; for what lies outside a workspace.
#[derive(Debug, Clone)]
pub(crate) struct Bearer(pub(crate) Holder);

/// Who asks, in the workspace of the path.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) workspace: Workspace,
    pub(crate) user: String,
}

/// The id or name in the path; one that is none is not found.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

impl FromRequestParts<App> for Bearer {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(bearer)
            .ok_or_else(|| unauthorized("send a token: `Authorization: Bearer hp_…`"))?;
        let holder = tokens::holder(&app.readers, token, app.clock.now())
            .await
            .map_err(|error| database_away(&error))?
            .ok_or_else(|| unauthorized("this token is not known here, or has expired"))?;
        let bearer = Self(holder);
        parts.extensions.insert(bearer.clone());
        Ok(bearer)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let Bearer(holder) = Bearer::from_request_parts(parts, app).await?;
        let (name, _other) = path_params(parts, app).await?;
        name.parse::<Workspace>()
            .ok()
            .filter(|workspace| workspace.as_str() == holder.workspace)
            .map(|workspace| Self {
                workspace,
                user: holder.user,
            })
            .ok_or_else(|| {
                Refused(Problem::not_found(format!(
                    "there is no workspace `{}`",
                    quoted(&name)
                )))
            })
    }
}

impl<T: FromStr<Err: std::fmt::Display>> FromRequestParts<App> for Named<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refused> {
        let (_workspace, text) = path_params(parts, app).await?;
        let not_found = |error: T::Err| Refused(Problem::not_found(quoted(&error.to_string())));
        text.parse().map(Self).map_err(not_found)
    }
}

/// The workspace, and the one other thing that a path can name; empty where it names none.
async fn path_params(parts: &mut Parts, app: &App) -> Result<(String, String), Refused> {
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|error| Problem::not_found(format!("the path cannot be read: {error}")))?;
    let mut found = (String::new(), String::new());
    for (name, value) in &params {
        if name == "workspace" {
            value.clone_into(&mut found.0);
        } else {
            value.clone_into(&mut found.1);
        }
    }
    Ok(found)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(detail: &str) -> Refused {
    Refused(Problem::new(401, "unauthorized", detail))
}

/// As much of a text as an answer quotes.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer("Bearer hp_x"), Some("hp_x"));
        assert_eq!(bearer("bearer  hp_x "), Some("hp_x"));
        assert_eq!(bearer("Basic hp_x"), None);
        assert_eq!(bearer("hp_x"), None);
    }
}
