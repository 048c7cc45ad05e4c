//! How a command is answered: with what its owner said, or with 202 where that was down.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use holdpoint_ids::CommandId;
use serde::Serialize;

/// What became of a command.
#[derive(Debug)]
pub(crate) enum CommandOutcome<A> {
    /// Its owner did it.
    Done(A),
    /// Its owner is down; the command is stored and will be brought to it.
    Accepted(CommandId),
}

/// Body of a 202.
#[derive(Debug, Serialize)]
struct AcceptedBody {
    command_id: CommandId,
}

impl<A: Serialize> CommandOutcome<A> {
    /// The owner's answer under a status of its own.
    pub(crate) fn with_status(self, status: StatusCode) -> Response {
        self.respond(|answer| (status, Json(answer)).into_response())
    }
}

impl<A> CommandOutcome<A> {
    /// A part of the owner's answer.
    pub(crate) fn map<B>(self, part: impl FnOnce(A) -> B) -> CommandOutcome<B> {
        match self {
            Self::Done(answer) => CommandOutcome::Done(part(answer)),
            Self::Accepted(command) => CommandOutcome::Accepted(command),
        }
    }

    /// The owner's answer, made into a response.
    pub(crate) fn respond(self, with: impl FnOnce(A) -> Response) -> Response {
        match self {
            Self::Done(answer) => with(answer),
            Self::Accepted(command_id) => {
                (StatusCode::ACCEPTED, Json(AcceptedBody { command_id })).into_response()
            }
        }
    }
}
