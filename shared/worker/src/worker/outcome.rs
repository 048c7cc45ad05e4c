//! Calls a tool and makes the result that the executor keeps (S0-R5).
//!
//! Owns the limits of a result and cleans its texts. A panic in a tool fails only its step.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::TIMEOUT_CODE;
use holdpoint_contracts::value_limits;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::tool::{PARKED, SUSPENDED, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};
use crate::tools::{MAX_INLINE_RESULT, clean};

/// Longest description or error that is kept, in characters.
const TEXT_MAX: usize = 2_000;

/// Longest code of a failure, in characters.
const CODE_MAX: usize = 100;

#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) result: ActionResult,
    pub(super) error_code: Option<String>,
    /// The step has not ended: its tool has asked people.
    pub(super) parks: bool,
    /// The step has not ended: its tool has stopped, because it was asked to.
    pub(super) is_suspended: bool,
    pub(super) cost: Option<f64>,
}

/// Largest result in bytes: two must fit into one message of at most `max_payload`.
pub(super) fn result_max(max_payload: usize) -> usize {
    MAX_INLINE_RESULT.min(max_payload / 2)
}

/// Calls the tool in a separate task, which ends with this future and at the timeout of the step.
pub(super) async fn call(tool: Arc<dyn Tool>, call: ToolCall, result_max: usize) -> Outcome {
    let name = tool.name().to_owned();
    let began = Instant::now();
    let limit = call.dispatch.timeout_ms.map(Duration::from_millis);
    // Also cancelled at the timeout, and only for the tool: the step is held until its failure is reported.
    let stop = call.stop.child_token();
    let suspension = call.suspension.clone();
    let cost = call.cost.clone();
    let call = ToolCall {
        stop: stop.clone(),
        ..call
    };
    let task = AbortOnDropHandle::new(tokio::spawn(async move { tool.call(&call).await }));
    let ended = match limit {
        Some(limit) => tokio::time::timeout(limit, task)
            .await
            .map_err(|_elapsed| limit),
        None => Ok(task.await),
    };
    let result = match ended {
        Ok(result) => result.unwrap_or_else(|error| {
            tracing::error!(tool = name, %error, "a tool panicked");
            let text = format!("The tool {name} failed; see the log of its worker.");
            Err(ToolFailure::new("tool_panicked", text))
        }),
        Err(limit) => {
            stop.cancel();
            let text = format!("{name} was stopped: no end within {}.", describe(limit));
            Err(ToolFailure::new(TIMEOUT_CODE, text))
        }
    };
    let is_suspended =
        suspension.is_requested() && matches!(&result, Err(failure) if failure.code == SUSPENDED);
    Outcome {
        is_suspended,
        cost: cost.total(),
        ..outcome(within(result, result_max), began.elapsed())
    }
}

fn within(result: ToolResult, max: usize) -> ToolResult {
    let success = result?;
    if let Err(exceeded) = value_limits::check(&success.data) {
        let text = format!("The tool returned a result that a step cannot keep: {exceeded}.");
        return Err(ToolFailure::new("result_not_allowed", text));
    }
    let bytes = json_bytes(&success.data);
    if bytes > max {
        let text = format!(
            "The tool returned {bytes} bytes, and a step keeps at most {max}. Let it return less, or \
             store the data elsewhere and return the place."
        );
        return Err(ToolFailure::new("result_too_large", text));
    }
    Ok(success)
}

fn outcome(result: ToolResult, took: Duration) -> Outcome {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match result {
        Ok(ToolSuccess { description, data }) => Outcome {
            result: ActionResult {
                success: true,
                description: clean(&description, TEXT_MAX),
                error: None,
                data,
                duration_ms,
            },
            error_code: None,
            parks: false,
            is_suspended: false,
            cost: None,
        },
        Err(ToolFailure { code, message }) => {
            let parks = code == PARKED;
            let message = clean(&message, TEXT_MAX);
            Outcome {
                result: ActionResult {
                    success: parks,
                    description: message.clone(),
                    error: (!parks).then_some(message),
                    data: Value::Null,
                    duration_ms,
                },
                error_code: (!parks).then(|| clean(&code, CODE_MAX)),
                parks,
                is_suspended: false,
                cost: None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S0-R5
    #[test]
    fn a_result_that_is_too_large_fails_with_the_limit() {
        let large = |length: usize| {
            Ok(ToolSuccess {
                description: "Read".to_owned(),
                data: json!("x".repeat(length)),
            })
        };
        assert!(within(large(MAX_INLINE_RESULT - 2), MAX_INLINE_RESULT).is_ok());
        let failure = within(large(MAX_INLINE_RESULT - 1), MAX_INLINE_RESULT).unwrap_err();
        assert_eq!(failure.code, "result_too_large");
        assert!(failure.message.contains("262144"), "{failure}");
    }

    /// S0-R5
    #[test]
    fn texts_lose_control_characters_and_are_cut() {
        let message = format!("bad\u{1b}[2J\nline{}", "é".repeat(3_000));
        let failure = ToolFailure::new("nope", message);
        let made = outcome(Err(failure), Duration::from_millis(7));
        let error = made.result.error.unwrap();
        assert_eq!(error.chars().count(), TEXT_MAX);
        assert!(error.starts_with("bad [2J line") && !error.contains(char::is_control));
        assert_eq!(made.error_code.as_deref(), Some("nope"));
        assert_eq!((made.result.success, made.result.duration_ms), (false, 7));
    }

    /// S3-R2: parking is not a failure.
    #[test]
    fn a_tool_that_parks_has_not_failed() {
        let made = outcome(Err(ToolFailure::parked()), Duration::from_millis(7));
        assert!(made.parks && made.result.success);
        assert_eq!((made.error_code, made.result.error), (None, None));
    }
}
