//! Callers of the routes that a running step may use, too: it reads its run, and asks people.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use holdpoint_auth::{Claims, Right, StepClaims, authorize};
use holdpoint_contracts::executor::GetRun;
use holdpoint_contracts::run::{RunView, StepStatus, StepView};
use holdpoint_contracts::{Problem, Query};
use holdpoint_ids::{ContactId, RunId, Workspace};

use super::caller::{Bearer, Caller, UNAUTHORIZED, enter_workspace, token, unauthorized};
use super::token_scope::grants;
use crate::app::App;
use crate::problem::{ApiError, ApiResult};

/// A user who may look, or a step that reads its own run and the contact of that run.
#[derive(Clone)]
pub(crate) struct RunReader {
    pub(crate) app: App,
    pub(crate) workspace: Workspace,
    bearer: Bearer,
    /// The contact of the step's run; none for a user, and for a run without one.
    contact: Option<ContactId>,
}

/// A user with the right to ask, or a running step. It has no `Debug`, so that a token cannot get into a log.
pub(crate) enum QuestionSource {
    User(Caller),
    /// The executor finds the step of the token and checks that it is running.
    Step {
        workspace: Workspace,
        token: String,
    },
}

/// The token of a live stream. It is checked as long as the stream lasts. It has no `Debug`, so that it
/// cannot get into a log.
pub(crate) struct StreamToken {
    token: String,
}

impl StreamToken {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let token = token(headers).unwrap_or_default().to_owned();
        Self { token }
    }

    /// Whether the token is still valid, and its user is active and may look.
    pub(crate) async fn is_valid(&self, app: &App) -> Result<bool, Problem> {
        match Bearer::of(app, &self.token).await {
            Ok(Bearer::User(known)) => Ok(authorize(Some(&known.claims), Right::Look).is_ok()),
            Ok(Bearer::Step(claims)) => unless_unauthorized(read_run_of_step(app, &claims).await),
            Err(error) => unless_unauthorized(Err::<(), _>(error)),
        }
    }
}

fn unless_unauthorized<T>(checked: Result<T, ApiError>) -> Result<bool, Problem> {
    match checked {
        Ok(_) => Ok(true),
        Err(ApiError(problem)) if problem.status == UNAUTHORIZED => Ok(false),
        Err(ApiError(problem)) => Err(problem),
    }
}

impl FromRequestParts<App> for RunReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (workspace, bearer) = enter_workspace(parts, app).await?;
        let contact = match &bearer {
            Bearer::User(known) => {
                authorize(Some(&known.claims), Right::Look)?;
                None
            }
            // Checked here, so that no route can forget it (A-H6).
            Bearer::Step(claims) => read_run_of_step(app, claims).await?.contact,
        };
        Ok(Self {
            app: app.clone(),
            workspace,
            bearer,
            contact,
        })
    }
}

/// The run of the step of a token. A later dispatch, the end of the step and the end of the run invalidate
/// the token.
async fn read_run_of_step(app: &App, own: &StepClaims) -> Result<RunView, ApiError> {
    let ended = || unauthorized("the step of this token has ended or was dispatched again");
    let run = match app.bus.query(&own.workspace, &GetRun::of(own.run)).await {
        Ok(run) => run,
        Err(problem) if problem.status == 404 => return Err(ended()),
        Err(problem) => return Err(ApiError(problem)),
    };
    let is_own = |step: &StepView| step.id == own.step && step.dispatch == own.dispatch;
    let is_live = |step: &StepView| match step.status {
        // A first delivery of an idempotent step runs while its row is still `queued`.
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
        let (workspace, bearer) = enter_workspace(parts, app).await?;
        Ok(match bearer {
            Bearer::User(known) => {
                authorize(Some(&known.claims), Right::Ask)?;
                Self::User(known)
            }
            Bearer::Step(_) => Self::Step {
                workspace,
                token: token(&parts.headers).unwrap_or_default().to_owned(),
            },
        })
    }
}

impl RunReader {
    /// The reply of the service that owns the data.
    pub(crate) async fn query<Q: Query + Sync>(&self, query: Q) -> ApiResult<Q::Reply> {
        Ok(self.app.bus.query(&self.workspace, &query).await?)
    }

    /// None for a step.
    pub(crate) fn user(&self) -> Option<&Claims> {
        match &self.bearer {
            Bearer::User(known) => Some(&known.claims),
            Bearer::Step(_) => None,
        }
    }

    /// Operators also see the raw error texts of tools (S0-R5).
    pub(crate) fn is_operator(&self) -> bool {
        self.user()
            .is_some_and(|claims| grants(&claims.roles, Right::Operate))
    }

    /// The name under which streams and long polls are counted.
    pub(crate) fn name(&self) -> String {
        self.bearer.scope().2
    }

    fn step(&self) -> Option<&StepClaims> {
        match &self.bearer {
            Bearer::User(_) => None,
            Bearer::Step(claims) => Some(claims),
        }
    }

    /// False for a step that reads the question of another step.
    pub(crate) fn may_read_question_of(&self, step: Option<&str>) -> bool {
        self.step()
            .is_none_or(|own| Some(own.step.as_str()) == step)
    }

    /// 404 for a step that reads another run.
    pub(crate) fn require_run(&self, run: RunId) -> Result<(), Problem> {
        if self.step().is_none_or(|own| own.run == run) {
            return Ok(());
        }
        Err(Problem::not_found(format!("run `{run}` not found")))
    }

    /// 404 for a step that reads a contact other than that of its run.
    pub(crate) fn require_contact(&self, contact: &ContactId) -> Result<(), Problem> {
        if self.step().is_none() || self.contact.as_ref() == Some(contact) {
            return Ok(());
        }
        Err(Problem::not_found(format!("contact `{contact}` not found")))
    }

    /// The contact that a step can read, if its run has one. None for a user.
    pub(crate) fn own_contacts(&self) -> Option<Option<&ContactId>> {
        self.step().map(|_| self.contact.as_ref())
    }
}
