//! `POST /requests/{id}/ask-again`: a new hold with the question of one that ended without an answer.

use axum::response::Response;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_ids::HoldId;
use serde::Deserialize;

use super::super::holds::{OneOrMany, in_our_words, opened};
use crate::auth::may::{Ask, May};
use crate::body::{OptionalJson, parse_duration_ms};
use crate::params::NoParams;
use crate::path::PathId;
use crate::problem::{ApiError, ApiResult};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskAgainBody {
    #[serde(default)]
    to: Option<OneOrMany>,
    #[serde(default)]
    timeout: Option<String>,
}

pub(super) async fn ask_again(
    caller: May<Ask>,
    PathId(again): PathId<HoldId>,
    _: NoParams,
    body: OptionalJson<AskAgainBody>,
) -> ApiResult<Response> {
    let AskAgainBody { to, timeout } = body.value;
    let timeout_ms = timeout.map(|text| parse_duration_ms("/timeout", &text));
    let command = AskAgain {
        id: again.asked_again(),
        again,
        to: to.map(|to| OneOrMany::all(Some(to))),
        timeout_ms: timeout_ms.transpose()?,
    };
    let outcome = caller.command(body.key, command).await;
    Ok(opened(
        outcome.map_err(|ApiError(problem)| in_our_words(problem))?,
    ))
}
