//! The answer to a command: the reply of its service, or 202 while the service is down.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_ids::CommandId;
use serde::Serialize;
use serde_json::json;

use crate::problem::ApiResult;

#[derive(Debug)]
pub(crate) enum CommandOutcome<A> {
    Done(A),
    /// Its service is down. The command is stored and will be sent later.
    Accepted(CommandId),
}

/// The result of a handler that sends a command.
pub(crate) type CommandResult<A> = ApiResult<CommandOutcome<A>>;

impl<A: Serialize> CommandOutcome<A> {
    /// The reply of the service under a status.
    pub(crate) fn with_status(self, status: StatusCode) -> Response {
        self.respond(|reply| (status, Json(reply)).into_response())
    }

    /// 201 where the command has made something, else 200.
    pub(crate) fn created_if(self, is_new: impl FnOnce(&A) -> bool) -> Response {
        self.respond(|reply| (created_or_ok(is_new(&reply)), Json(reply)).into_response())
    }
}

/// 201 for something new, else 200.
pub(crate) const fn created_or_ok(is_new: bool) -> StatusCode {
    if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}

impl<A: Serialize> IntoResponse for CommandOutcome<A> {
    fn into_response(self) -> Response {
        self.with_status(StatusCode::OK)
    }
}

impl<A> CommandOutcome<A> {
    pub(crate) fn map<B>(self, part: impl FnOnce(A) -> B) -> CommandOutcome<B> {
        match self {
            Self::Done(reply) => CommandOutcome::Done(part(reply)),
            Self::Accepted(command) => CommandOutcome::Accepted(command),
        }
    }

    pub(crate) fn respond(self, with: impl FnOnce(A) -> Response) -> Response {
        match self {
            Self::Done(reply) => with(reply),
            Self::Accepted(command_id) => {
                let body = Json(json!({ "command_id": command_id }));
                (StatusCode::ACCEPTED, body).into_response()
            }
        }
    }

    pub(crate) fn without_content(self) -> Response {
        self.respond(|_reply| StatusCode::NO_CONTENT.into_response())
    }
}
