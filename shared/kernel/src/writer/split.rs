//! Splits a message that could not be committed at once: each of its inputs becomes a task, so that an
//! input that cannot be handled does not affect the others. The sender still gets one reply
//! ([`SplitMessage`]).

use std::sync::Arc;

use crate::origin::{Origin, SplitMessage};
use crate::service::Service;
use crate::task::Task;

/// The inputs of a task as separate tasks.
pub(super) fn split<S: Service>(task: Task<S>) -> Vec<Task<S>> {
    let Task {
        inputs,
        origin,
        raw,
        ..
    } = task;
    let message = Arc::new(SplitMessage::new(origin, inputs.len()));
    let parts = inputs.into_iter().enumerate().map(|(place, input)| {
        let message = Arc::clone(&message);
        Task::new(vec![input], Origin::Part { message, place }, raw.clone())
    });
    parts.collect()
}
