//! Who asks, and what the path names. A token opens its own workspace and shows no other.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use holdpoint_auth::{Claims, Right, STEP_TOKEN_PREFIX, StepClaims, authorize};
use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::run::{RunView, StepStatus, StepView};
use holdpoint_ids::{ContactId, RunId, Workspace};

use crate::app::App;
use crate::assertions::VALID_FOR;
use crate::problem::{ApiError, database_away};
use crate::rights::{grants, is_whole, narrowed, runs_installation};
use crate::store::tokens::{self, Holder};

/// Longest bit of what was sent that is quoted back.
const QUOTED: usize = 120;

/// Status of what no token opens.
const UNAUTHORIZED: u16 = 401;

/// Whose token came with the request.
#[derive(Debug, Clone)]
pub(crate) enum Bearer {
    /// A user, with what the token is narrowed to.
    User(Known),
    /// A step that runs.
    Step(Arc<StepClaims>),
}

/// A user as the gateway vouches for them.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) claims: Arc<Claims>,
    /// False for a token that has fewer rights than its user.
    is_whole: bool,
}

/// A user; for what lies outside a workspace.
#[derive(Debug, Clone)]
pub(crate) struct User(pub(crate) Arc<Claims>);

/// A user in the workspace of the path.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) workspace: Workspace,
    pub(crate) claims: Arc<Claims>,
    /// False for a token that has fewer rights than its user.
    is_whole: bool,
}

/// Who may look, in the workspace of the path: a user, or a step at what concerns it.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) workspace: Workspace,
    /// A step may know of its own run only.
    bearer: Bearer,
    /// The contact of the step's run; none for a user, and for a run without one.
    contact: Option<ContactId>,
}

/// Who asks people for a run, in the workspace of the path: somebody, or a step that runs. It has no
/// `Debug`, so that a token cannot slip into a log.
pub(crate) enum QuestionSource {
    /// A user.
    User(Caller),
    /// A step, by its token: which one, and whether it counts, the executor finds out.
    Step { workspace: Workspace, token: String },
}

/// The token that a live stream was opened with, which is looked at for as long as that lasts. It has no
/// `Debug`, so that it cannot slip into a log.
pub(crate) struct StreamToken {
    token: String,
}

/// The id or name in the path; one that is none is not found.
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

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
    /// Whose token it is at this moment.
    async fn of(app: &App, token: &str) -> Result<Self, ApiError> {
        if token.starts_with(STEP_TOKEN_PREFIX) {
            let claims = app.keys.steps.check(token, app.clock.now());
            let told = |error| unauthorized(&format!("this step token is not accepted: {error}"));
            return Ok(Self::Step(Arc::new(claims.map_err(told)?)));
        }
        Ok(Self::User(user(app, token).await?))
    }

    /// Whose it is, for the scope of idempotency keys: workspace, kind and name. A step and a user of
    /// the same name share no key, and neither do steps of two runs.
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

    fn into_user(self) -> Result<Known, Problem> {
        match self {
            Self::User(known) => Ok(known),
            Self::Step(_) => Err(Problem::new(
                403,
                "forbidden",
                "a step's token opens its own run and the contact of that run for looking, and lets its tool ask \
                 people; nothing else",
            )),
        }
    }
}

/// Who a token speaks for at this moment.
async fn user(app: &App, token: &str) -> Result<Known, ApiError> {
    let now = app.clock.now();
    let holder = tokens::holder(&app.readers, token, now)
        .await
        .map_err(database_away)?
        .ok_or_else(|| unauthorized("this token is not known here, or has expired"))?;
    claims(app, holder)
        .await?
        .ok_or_else(|| unauthorized("the user of this token is disabled or gone"))
}

/// What a holder may at this moment; none for a user who is disabled or gone.
pub(crate) async fn claims(app: &App, holder: Holder) -> Result<Option<Known>, Problem> {
    let user = app.people.find(&holder.workspace, &holder.user).await?;
    let active = user.filter(|user| user.active);
    Ok(active.map(|user| {
        let roles = narrowed(&user.roles, holder.role);
        let is_whole = is_whole(&user.roles, &roles);
        let claims = Claims {
            roles,
            workspace: holder.workspace,
            user: holder.user,
            expires_at: app.clock.now() + VALID_FOR,
        };
        Known {
            claims: Arc::new(claims),
            is_whole,
        }
    }))
}

impl FromRequestParts<App> for User {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let bearer = Bearer::from_request_parts(parts, app).await?;
        Ok(Self(bearer.into_user()?.claims))
    }
}

impl User {
    /// 403 where the caller has not got a right over the whole installation.
    pub(crate) fn runs_installation(&self, right: Right) -> Result<(), Problem> {
        runs_installation(&self.0, right)
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (_workspace, bearer) = inside(parts, app).await?;
        Ok(Self::of(bearer.into_user()?))
    }
}

impl Caller {
    /// A user in their own workspace.
    pub(crate) fn of(known: Known) -> Self {
        Self {
            workspace: known.claims.workspace.clone(),
            claims: known.claims,
            is_whole: known.is_whole,
        }
    }

    /// Whether the caller has all rights of the user. A narrowed token acts for the user, and is not them.
    pub(crate) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// 403 for a narrowed token. What belongs to a person, or gives rights that outlast the token, needs a
    /// token with all rights of its user.
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

    /// 403 where the caller has not got a right.
    pub(crate) fn may(&self, right: Right) -> Result<(), Problem> {
        authorize(Some(&self.claims), right)
    }
}

impl StreamToken {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let token = token(headers).unwrap_or_default().to_owned();
        Self { token }
    }

    /// Whether whoever listens may go on: the token was not revoked and has not expired, and its user is
    /// there, not disabled, and may look.
    pub(crate) async fn holds(&self, app: &App) -> Result<bool, Problem> {
        match Bearer::of(app, &self.token).await {
            Ok(Bearer::User(known)) => Ok(authorize(Some(&known.claims), Right::Look).is_ok()),
            Ok(Bearer::Step(claims)) => match speaking(app, &claims).await {
                Ok(_run) => Ok(true),
                Err(ApiError(problem)) if problem.status == UNAUTHORIZED => Ok(false),
                Err(ApiError(problem)) => Err(problem),
            },
            Err(ApiError(problem)) if problem.status == UNAUTHORIZED => Ok(false),
            Err(ApiError(problem)) => Err(problem),
        }
    }
}

impl FromRequestParts<App> for Reader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (workspace, bearer) = inside(parts, app).await?;
        let contact = match &bearer {
            Bearer::User(known) => {
                authorize(Some(&known.claims), Right::Look)?;
                None
            }
            // Here and not in the routes, so that no route can forget it (A-H6).
            Bearer::Step(claims) => speaking(app, claims).await?.contact,
        };
        Ok(Self {
            workspace,
            bearer,
            contact,
        })
    }
}

/// The run of a step that its token still speaks for: a later dispatch, the end of the step and the end of
/// the run make the token worth nothing.
async fn speaking(app: &App, own: &StepClaims) -> Result<RunView, ApiError> {
    let ended =
        || unauthorized("this step token is of a step that has ended or was dispatched again");
    let run = match app.bus.query(&own.workspace, &GetRun::of(own.run)).await {
        Ok(run) => run,
        Err(problem) if problem.status == 404 => return Err(ended()),
        Err(problem) => return Err(ApiError(problem)),
    };
    let is_own = |step: &StepView| step.id == own.step && step.dispatch == own.dispatch;
    let is_live = |step: &StepView| match step.status {
        // A fresh first delivery of an idempotent step runs while its row still says `queued`.
        StepStatus::Queued
        | StepStatus::Claimed
        | StepStatus::InProgress
        | StepStatus::Waiting
        | StepStatus::Stale
        | StepStatus::Uncertain => true,
        StepStatus::Planned
        | StepStatus::WaitingConfirm
        | StepStatus::Completed
        | StepStatus::Failed
        | StepStatus::Skipped
        | StepStatus::Cancelled => false,
    };
    let mut own_steps = run.steps.iter().filter(|step| is_own(step));
    if run.status.is_final() || !own_steps.any(is_live) {
        return Err(ended());
    }
    Ok(run)
}

impl FromRequestParts<App> for QuestionSource {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (workspace, bearer) = inside(parts, app).await?;
        Ok(match bearer {
            Bearer::User(known) => Self::User(Caller::of(known)),
            Bearer::Step(_) => Self::Step {
                workspace,
                token: token(&parts.headers).unwrap_or_default().to_owned(),
            },
        })
    }
}

impl Reader {
    /// The user who looks; none where it is a step.
    pub(crate) fn user(&self) -> Option<&Claims> {
        match &self.bearer {
            Bearer::User(known) => Some(&known.claims),
            Bearer::Step(_) => None,
        }
    }

    /// Whether it is an operator, who also sees error texts as the tools said them (S0-R5).
    pub(crate) fn operates(&self) -> bool {
        self.user()
            .is_some_and(|claims| grants(&claims.roles, Right::Operate))
    }

    /// Whose streams and long polls are counted together.
    pub(crate) fn name(&self) -> String {
        match &self.bearer {
            Bearer::User(known) => known.claims.user.to_string(),
            Bearer::Step(claims) => format!("{}/{}", claims.run, claims.step),
        }
    }

    fn step(&self) -> Option<&StepClaims> {
        match &self.bearer {
            Bearer::User(_) => None,
            Bearer::Step(claims) => Some(claims),
        }
    }

    /// Whether the step that looks is the one that asked.
    pub(crate) fn asked(&self, step: Option<&str>) -> bool {
        self.step()
            .is_none_or(|own| Some(own.step.as_str()) == step)
    }

    /// To a step another run does not exist.
    pub(crate) fn sees(&self, run: RunId) -> Result<(), Problem> {
        if self.step().is_none_or(|own| own.run == run) {
            return Ok(());
        }
        Err(Problem::not_found(format!("there is no run `{run}`")))
    }

    /// To a step another contact than that of its run does not exist.
    pub(crate) fn sees_contact(&self, contact: &ContactId) -> Result<(), Problem> {
        if self.step().is_none() || self.contact.as_ref() == Some(contact) {
            return Ok(());
        }
        Err(Problem::not_found(format!(
            "there is no contact `{contact}`"
        )))
    }

    /// All contacts that a step sees: the one of its run, if it has one. None: the reader is a user.
    pub(crate) fn own_contacts(&self) -> Option<Option<&ContactId>> {
        self.step().map(|_| self.contact.as_ref())
    }
}

/// The workspace of the path, which must be the one that the token opens.
async fn inside(parts: &mut Parts, app: &App) -> Result<(Workspace, Bearer), ApiError> {
    let bearer = Bearer::from_request_parts(parts, app).await?;
    let (name, _other) = path_params(parts, app).await?;
    let workspace = bearer.workspace().clone();
    if workspace.as_str() != name {
        let name = quoted(&name);
        let detail = format!("there is no workspace `{name}`");
        return Err(ApiError(Problem::not_found(detail)));
    }
    Ok((workspace, bearer))
}

impl<T: FromStr<Err: std::fmt::Display>> FromRequestParts<App> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (_workspace, text) = path_params(parts, app).await?;
        let not_found = |error: T::Err| ApiError(Problem::not_found(error.to_string()));
        text.parse().map(Self).map_err(not_found)
    }
}

/// The workspace, and the one other thing that a path can name; empty where it names none.
async fn path_params(parts: &mut Parts, app: &App) -> Result<(String, String), ApiError> {
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

fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?;
    value.to_str().ok().and_then(bearer)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(detail: &str) -> ApiError {
    ApiError(Problem::new(UNAUTHORIZED, "unauthorized", detail))
}

/// As much of a text as an answer quotes.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

#[cfg(test)]
impl Caller {
    /// A user who is played.
    pub(crate) fn played(claims: Claims, is_whole: bool) -> Self {
        let claims = Arc::new(claims);
        Self::of(Known { claims, is_whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Known {
        let claims = Claims {
            workspace: "acme".parse().unwrap(),
            user: name.parse().unwrap(),
            roles: Vec::new(),
            expires_at: chrono::DateTime::UNIX_EPOCH,
        };
        Known {
            claims: Arc::new(claims),
            is_whole: true,
        }
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
