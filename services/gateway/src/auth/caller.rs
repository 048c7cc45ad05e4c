//! The user or the step that sent a request. A token opens only the workspace that it belongs to.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use holdpoint_auth::{Claims, Right, STEP_TOKEN_PREFIX, StepClaims, authorize};
use holdpoint_contracts::Problem;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_user_directory::User;

use super::assertions::VALID_FOR;
use super::token_scope::{grants, has_all_rights, narrow_roles};
use crate::app::App;
use crate::path::read_path;
use crate::problem::{ApiError, excerpt};
use crate::store::tokens::Holder;

/// Status of a request without a valid token.
pub(super) const UNAUTHORIZED: u16 = 401;

/// The holder of the token that came with the request.
#[derive(Debug, Clone)]
pub(crate) enum Bearer {
    /// A user, with the rights that the token leaves them.
    User(Caller),
    Step(Arc<StepClaims>),
}

/// A user in their own workspace, for whom the gateway signs assertions.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) workspace: Workspace,
    pub(crate) claims: Arc<Claims>,
    /// False for a token that has fewer rights than its user.
    is_whole: bool,
}

impl FromRequestParts<App> for Bearer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let token = token(&parts.headers)
            .ok_or_else(|| unauthorized("send a token: `Authorization: Bearer hp_…`"))?;
        let bearer = Self::of(app, token).await?;
        parts.extensions.insert(bearer.clone());
        Ok(bearer)
    }
}

impl Bearer {
    /// The holder of a token at this moment.
    pub(super) async fn of(app: &App, token: &str) -> Result<Self, ApiError> {
        if token.starts_with(STEP_TOKEN_PREFIX) {
            let claims = app.keys.steps.check(token, app.clock.now());
            let refused = |error| unauthorized(&format!("invalid step token: {error}"));
            return Ok(Self::Step(Arc::new(claims.map_err(refused)?)));
        }
        Ok(Self::User(find_user(app, token).await?))
    }

    /// Workspace, kind and name, as the scope of idempotency keys. A step and a user of the same name
    /// share no key, and neither do steps of two runs.
    pub(crate) fn scope(&self) -> (&str, &'static str, String) {
        match self {
            Self::User(known) => {
                let claims = &known.claims;
                (claims.workspace.as_str(), "user", claims.user.to_string())
            }
            Self::Step(claims) => {
                let name = format!("{}/{}", claims.run, claims.step);
                (claims.workspace.as_str(), "step", name)
            }
        }
    }

    fn workspace(&self) -> &Workspace {
        match self {
            Self::User(known) => &known.claims.workspace,
            Self::Step(claims) => &claims.workspace,
        }
    }

    pub(super) fn into_user(self) -> Result<Caller, Problem> {
        match self {
            Self::User(known) => Ok(known),
            Self::Step(_) => Err(Problem::new(
                403,
                "forbidden",
                "a step token can only read its run and the contact of the run, ask people, and keep blobs of its step",
            )),
        }
    }
}

/// The user of a token at this moment.
async fn find_user(app: &App, token: &str) -> Result<Caller, ApiError> {
    let found = app.tokens.find(&app.readers, token, &app.clock).await?;
    let (holder, user) = found.ok_or_else(|| unauthorized("unknown or expired token"))?;
    let caller = match user {
        Some(user) => active_caller(app, holder, &user),
        None => claims(app, holder).await?,
    };
    caller.ok_or_else(|| unauthorized("the user of this token is disabled or was deleted"))
}

/// The rights of a holder at this moment; none for a user who is disabled or was deleted.
pub(crate) async fn claims(app: &App, holder: Holder) -> Result<Option<Caller>, Problem> {
    let user = app.people.find(&holder.workspace, &holder.user).await?;
    Ok(user.and_then(|user| active_caller(app, holder, &user)))
}

fn active_caller(app: &App, holder: Holder, user: &User) -> Option<Caller> {
    if !user.active {
        return None;
    }
    let roles = narrow_roles(&user.roles, holder.role);
    let is_whole = has_all_rights(&user.roles, &roles);
    let claims = Claims {
        roles,
        workspace: holder.workspace.clone(),
        user: holder.user,
        expires_at: app.clock.now() + VALID_FOR,
    };
    Some(Caller {
        workspace: holder.workspace,
        claims: Arc::new(claims),
        is_whole,
    })
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (_workspace, bearer) = enter_workspace(parts, app).await?;
        Ok(bearer.into_user()?)
    }
}

impl Caller {
    /// Whether the token has all rights of its user. A narrowed token acts for the user and does not prove
    /// that the user acts.
    pub(crate) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// 403 for a narrowed token. Personal data, and rights that outlast the token, need a token with all rights
    /// of its user.
    pub(crate) fn in_person(&self) -> Result<(), Problem> {
        if self.is_whole {
            return Ok(());
        }
        let user = &self.claims.user;
        Err(Problem::new(
            403,
            "narrowed_token",
            format!(
                "this token has fewer rights than its user `{user}`; use a token without `role`"
            ),
        ))
    }

    /// 403 for an administrator who acts on something of an owner. Users may act on what is theirs.
    pub(crate) async fn guard_owner(&self, app: &App, user: &UserName) -> Result<(), Problem> {
        if *user == self.claims.user {
            return Ok(());
        }
        let known = app.people.find(&self.workspace, user).await?;
        if known.is_some_and(|known| grants(&known.roles, Right::Own)) {
            self.may(Right::Own)?;
        }
        Ok(())
    }

    /// 403 where the caller lacks a right.
    pub(crate) fn may(&self, right: Right) -> Result<(), Problem> {
        authorize(Some(&self.claims), right)
    }
}

/// The workspace of the path. It must be the workspace of the token.
pub(super) async fn enter_workspace(
    parts: &mut Parts,
    app: &App,
) -> Result<(Workspace, Bearer), ApiError> {
    let bearer = Bearer::from_request_parts(parts, app).await?;
    let (name, _id) = read_path(parts, app).await?;
    let workspace = bearer.workspace().clone();
    if workspace.as_str() != name {
        let detail = format!("workspace `{}` not found", excerpt(&name));
        return Err(ApiError(Problem::not_found(detail)));
    }
    Ok((workspace, bearer))
}

pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?;
    value.to_str().ok().and_then(bearer)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub(super) fn unauthorized(detail: &str) -> ApiError {
    ApiError(Problem::new(UNAUTHORIZED, "unauthorized", detail))
}

#[cfg(test)]
impl Caller {
    pub(crate) fn for_test(claims: Claims, is_whole: bool) -> Self {
        Self {
            workspace: claims.workspace.clone(),
            claims: Arc::new(claims),
            is_whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use holdpoint_ids::RunId;

    use super::*;

    fn known(name: &str) -> Caller {
        Caller::for_test(crate::testing::claims(name, &[]), true)
    }

    /// Mend A-L6: a step and a user of the same name do not share idempotency keys.
    #[test]
    fn a_step_and_a_user_of_one_name_share_no_keys() {
        let step = |run| StepClaims {
            workspace: "acme".parse().unwrap(),
            run,
            step: "ship".to_owned(),
            dispatch: 1,
            expires_at: chrono::DateTime::UNIX_EPOCH,
        };
        let user = Bearer::User(known("ship"));
        let steps = [RunId::fresh(), RunId::fresh()].map(|run| Bearer::Step(Arc::new(step(run))));
        assert_ne!(user.scope(), steps[0].scope());
        assert_ne!(steps[0].scope(), steps[1].scope());
        assert_eq!(user.scope(), Bearer::User(known("ship")).scope());
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer("Bearer hp_x"), Some("hp_x"));
        assert_eq!(bearer("bearer  hp_x "), Some("hp_x"));
        assert_eq!(bearer("Basic hp_x"), None);
        assert_eq!(bearer("hp_x"), None);
    }
}
