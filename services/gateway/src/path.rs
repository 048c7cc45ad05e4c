//! The workspace and the id or name in a path.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use holdpoint_contracts::Problem;
use holdpoint_ids::AgentName;

use crate::app::App;
use crate::problem::ApiError;

/// The id or name in the path; an invalid one is answered with 404.
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

/// A path that names nothing but its workspace.
#[derive(Debug)]
pub(crate) struct NoId;

impl FromStr for NoId {
    type Err = Infallible;

    fn from_str(_text: &str) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

impl From<NoId> for Option<AgentName> {
    fn from(_: NoId) -> Self {
        None
    }
}

impl<T: FromStr<Err: Display>> FromRequestParts<App> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let not_found = |error: T::Err| ApiError(Problem::not_found(error.to_string()));
        let (_workspace, id) = read_path(parts, app).await?;
        id.parse().map(Self).map_err(not_found)
    }
}

/// The workspace, and the one other thing that a path can name. Empty where the path has none.
///
/// # Errors
/// 404 where the path is not valid text.
pub(crate) async fn read_path(parts: &mut Parts, app: &App) -> Result<(String, String), Problem> {
    let params = RawPathParams::from_request_parts(parts, app)
        .await
        .map_err(|error| Problem::not_found(format!("invalid path: {error}")))?;
    let (mut workspace, mut id) = (String::new(), String::new());
    for (name, value) in &params {
        match name {
            "workspace" => value.clone_into(&mut workspace),
            _ => value.clone_into(&mut id),
        }
    }
    Ok((workspace, id))
}
