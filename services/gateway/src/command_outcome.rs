//! The answer to a command: the reply of its service, or 202 while the service is down.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_ids::CommandId;
use serde::Serialize;

/// What became of a command.
#[derive(Debug)]
pub(crate) enum CommandOutcome<A> {
    /// Its service did it.
    Done(A),
    /// Its service is down. The command is stored and will be sent later.
    Accepted(CommandId),
}

#[derive(Debug, Serialize)]
struct AcceptedBody {
    command_id: CommandId,
}

impl<A: Serialize> CommandOutcome<A> {
    /// The reply of the service under a status.
    pub(crate) fn with_status(self, status: StatusCode) -> Response {
        self.respond(|reply| (status, Json(reply)).into_response())
    }

    /// 201 where the command has made something, else 200.
    pub(crate) fn created_if(self, is_new: impl FnOnce(&A) -> bool) -> Response {
        self.respond(|reply| {
            let status = if is_new(&reply) {
                StatusCode::CREATED
            } else {
                StatusCode::OK
            };
            (status, Json(reply)).into_response()
        })
    }
}

impl<A: Serialize> IntoResponse for CommandOutcome<A> {
    fn into_response(self) -> Response {
        self.with_status(StatusCode::OK)
    }
}

impl<A> CommandOutcome<A> {
    /// A part of the reply.
    pub(crate) fn map<B>(self, part: impl FnOnce(A) -> B) -> CommandOutcome<B> {
        match self {
            Self::Done(reply) => CommandOutcome::Done(part(reply)),
            Self::Accepted(command) => CommandOutcome::Accepted(command),
        }
    }

    /// The reply as a response.
    pub(crate) fn respond(self, with: impl FnOnce(A) -> Response) -> Response {
        match self {
            Self::Done(reply) => with(reply),
            Self::Accepted(command_id) => {
                (StatusCode::ACCEPTED, Json(AcceptedBody { command_id })).into_response()
            }
        }
    }

    /// 204 without the reply.
    pub(crate) fn without_content(self) -> Response {
        self.respond(|_reply| StatusCode::NO_CONTENT.into_response())
    }
}
