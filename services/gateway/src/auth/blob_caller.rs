//! Callers of the routes for blobs: the step that saves and continues, and operators who look at its snapshot (S1-R9).

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use holdpoint_auth::{Right, StepClaims};
use holdpoint_contracts::Problem;
use holdpoint_contracts::suspension::{BlobChunk, GetBlob, GetStepBlob};
use holdpoint_ids::{RunId, Workspace};

use super::caller::{Bearer, enter_workspace, token};
use crate::app::App;
use crate::problem::{ApiError, ApiResult};

/// The step that uploads a blob. It has no `Debug`, so that a token cannot get into a log.
pub(crate) struct BlobWriter {
    pub(crate) app: App,
    pub(crate) workspace: Workspace,
    pub(crate) run: RunId,
    pub(crate) sha256: String,
    pub(crate) token: String,
}

/// An operator, or the step whose earlier call has uploaded the blob. It has no `Debug`, as [`BlobWriter`].
#[derive(Clone)]
pub(crate) struct BlobReader {
    app: App,
    workspace: Workspace,
    blob: BlobPath,
    /// None for an operator.
    token: Option<String>,
}

#[derive(Clone)]
struct BlobPath {
    run: RunId,
    step: String,
    sha256: String,
}

impl BlobPath {
    async fn read(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, app)
            .await
            .map_err(|error| Problem::not_found(format!("invalid path: {error}")))?;
        let value = |wanted: &str| {
            let mut params = params.iter();
            let found = params.find(|(name, _)| *name == wanted);
            found.map_or("", |(_, value)| value)
        };
        let run = value("run").parse();
        Ok(Self {
            run: run.map_err(|error| Problem::not_found(format!("{error}")))?,
            step: value("step").to_owned(),
            sha256: value("sha256").to_owned(),
        })
    }

    /// 404 for another run or step than that of the token.
    fn require_own(&self, claims: &StepClaims) -> Result<(), Problem> {
        if claims.run == self.run && claims.step == self.step {
            return Ok(());
        }
        let detail = "the step token belongs to another run or step";
        Err(Problem::not_found(detail))
    }
}

impl FromRequestParts<App> for BlobWriter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (workspace, bearer) = enter_workspace(parts, app).await?;
        let Bearer::Step(claims) = bearer else {
            let detail = "only a step uploads blobs, with its token";
            return Err(ApiError(Problem::new(403, "forbidden", detail)));
        };
        let blob = BlobPath::read(parts, app).await?;
        blob.require_own(&claims)?;
        Ok(Self {
            app: app.clone(),
            workspace,
            run: blob.run,
            sha256: blob.sha256,
            token: token(&parts.headers).unwrap_or_default().to_owned(),
        })
    }
}

impl FromRequestParts<App> for BlobReader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let (workspace, bearer) = enter_workspace(parts, app).await?;
        let claims = match bearer {
            Bearer::User(known) => {
                known.may(Right::Operate)?;
                None
            }
            Bearer::Step(claims) => Some(claims),
        };
        let blob = BlobPath::read(parts, app).await?;
        if let Some(claims) = &claims {
            blob.require_own(claims)?;
        }
        let token = claims.and_then(|_| token(&parts.headers).map(str::to_owned));
        Ok(Self {
            app: app.clone(),
            workspace,
            blob,
            token,
        })
    }
}

impl BlobReader {
    /// The bytes from an offset to the end of that chunk. The executor checks the token.
    pub(crate) async fn read_chunk(&self, offset: u64) -> ApiResult<BlobChunk> {
        let BlobPath { run, step, sha256 } = self.blob.clone();
        let bus = &self.app.bus;
        let chunk = match self.token.clone() {
            Some(token) => {
                let query = GetStepBlob {
                    token,
                    sha256,
                    offset,
                };
                bus.query(&self.workspace, &query).await?
            }
            None => {
                let query = GetBlob {
                    run,
                    step,
                    sha256,
                    offset,
                };
                bus.query(&self.workspace, &query).await?
            }
        };
        Ok(chunk)
    }
}
