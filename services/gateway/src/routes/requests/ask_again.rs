//! `POST /requests/{id}/ask-again`: a new hold that asks what ended without an answer.

use axum::extract::State;
use axum::response::Response;
use holdpoint_auth::Right;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_ids::HoldId;
use serde::Deserialize;

use super::super::holds::{OneOrMany, in_our_words, opened};
use super::acting::milliseconds;
use crate::app::App;
use crate::body::Body;
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::ApiError;

/// What is other than before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgainBody {
    #[serde(default)]
    to: Option<OneOrMany>,
    #[serde(default)]
    timeout: Option<String>,
}

pub(super) async fn ask_again(
    State(app): State<App>,
    caller: Caller,
    PathId(again): PathId<HoldId>,
    params: Params,
    body: Body,
) -> Result<Response, ApiError> {
    params.only(&[])?;
    caller.may(Right::Ask)?;
    let AgainBody { to, timeout } = body.json_or_empty()?;
    let timeout_ms = timeout.map(|text| milliseconds("/timeout", &text));
    let command = AskAgain {
        id: again.asked_again(),
        again,
        to: to.map(|to| OneOrMany::all(Some(to))),
        timeout_ms: timeout_ms.transpose()?,
    };
    let answered = app.command(&caller, body.key, command).await;
    Ok(opened(answered.map_err(in_our_words)?))
}
