//! Decodes messages into tasks.

use bytes::Bytes;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Parts};

use crate::origin::Origin;
use crate::reply::problem_json;
use crate::service::{DecodedCommand, Service};
use crate::task::Task;

/// Decodes a task. An error is the reply to a sender that can correct the message or that keeps it; the
/// kernel then has nothing else to do.
pub(crate) fn decode<S: Service>(service: &S, task: Task<S>) -> Result<Task<S>, (Origin, Bytes)> {
    let subject = &task.raw.subject;
    let invalid = || {
        let detail = format!("`{subject}` is not the subject of a command");
        Problem::new(400, "invalid_subject", detail)
    };
    let decoded = subject::parse(subject)
        .ok_or_else(invalid)
        .and_then(|parts| {
            let command = service.decode(&parts, &task.raw.body)?;
            Ok(scope_idempotency_key(&parts, command))
        });
    match (decoded, &task.origin) {
        (Ok(command), _) => Ok(Task {
            inputs: command.inputs,
            many: command.many,
            atomic: command.atomic,
            idempotency_key: command.idempotency_key,
            is_unread: false,
            ..task
        }),
        // The caller gets the problem and can correct the message, so that nothing has to be kept.
        (Err(problem), Origin::Ask { .. }) => {
            tracing::info!(service = S::NAME, subject, %problem, "request refused");
            Err((task.origin, problem_json(problem)))
        }
        // Its sender keeps it and sends it again: a later version of this service may decode it.
        (Err(problem), Origin::Stream { is_kept: true, .. }) => {
            tracing::warn!(service = S::NAME, subject, %problem, "message of another service cannot be decoded; its sender keeps it");
            Err((task.origin, problem_json(problem)))
        }
        (Err(problem), _) => Ok(Task {
            poison: Some(problem),
            is_unread: false,
            ..task
        }),
    }
}

/// A key counts within one workspace and command. Otherwise a caller could get another caller's reply, or
/// a command could be taken for the repetition of another.
fn scope_idempotency_key<I>(parts: &Parts, mut command: DecodedCommand<I>) -> DecodedCommand<I> {
    if let Some(idempotency) = &mut command.idempotency_key {
        let (workspace, verb) = (&parts.workspace, &parts.verb);
        idempotency.key = format!("{workspace}/{verb}/{}", idempotency.key);
    }
    command
}
