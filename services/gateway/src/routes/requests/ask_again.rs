//! `POST /requests/{id}/ask-again`: a new hold with the question of one that ended without an answer.

use axum::response::Response;
use holdpoint_contracts::handoff::AskAgain;
use holdpoint_ids::HoldId;
use serde::Deserialize;

use super::super::holds::{OneOrMany, respond_opened};
use crate::auth::may::Ask;
use crate::body::parse_duration_ms;
use crate::call::{Call, OptionalJson};
use crate::problem::ApiResult;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskAgainBody {
    #[serde(default)]
    to: Option<OneOrMany>,
    #[serde(default)]
    timeout: Option<String>,
}

pub(super) async fn ask_again(
    call: Call<Ask, HoldId, OptionalJson<AskAgainBody>>,
) -> ApiResult<Response> {
    let (again, AskAgainBody { to, timeout }) = (call.id, call.body);
    let timeout_ms = timeout.map(|text| parse_duration_ms("/timeout", &text));
    let command = AskAgain {
        id: again.asked_again(),
        again,
        to: to.map(|to| OneOrMany::all(Some(to))),
        timeout_ms: timeout_ms.transpose()?,
    };
    respond_opened(call.caller.command(call.key, command).await)
}
