//! Calls a tool and makes the result that the executor keeps (S0-R5).
//!
//! Owns the limits of a result and cleans its texts. A panic in a tool fails only its step.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_contracts::duration::describe;
use holdpoint_contracts::run::{ActionResult, FAILED_DATA_BYTES_MAX};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::TIMEOUT_CODE;
use holdpoint_contracts::value_limits;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::suspension::sandbox_limit::{SANDBOX_TOO_LARGE, SandboxLimit};
use crate::tool::{PARKED, SUSPENDED, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};
use crate::tools::{MAX_INLINE_RESULT, clean};

/// Longest description or error that is kept, in characters.
const TEXT_MAX: usize = 2_000;

/// Longest code of a failure, in characters.
const CODE_MAX: usize = 100;

/// What helps against a sandbox above its limit: the next call gets the same directory.
const REMOVE_SANDBOX: &str =
    "Remove it with `holdpoint worker --sandboxes DIR --remove-sandbox RUN` before a retry.";

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
    let working = async {
        match limit {
            Some(limit) => tokio::time::timeout(limit, task)
                .await
                .map_err(|_elapsed| StoppedBy::Timeout(limit)),
            None => Ok(task.await),
        }
    };
    let sandbox = suspension.sandbox();
    let of_sandbox = SandboxLimit::default();
    let ended = tokio::select! {
        ended = working => ended,
        excess = of_sandbox.exceeded(sandbox) => Err(StoppedBy::Sandbox(excess)),
    };
    let result = match ended {
        Ok(Ok(Ok(success))) => match of_sandbox.measure(sandbox).await {
            None => Ok(success),
            Some(excess) => {
                let text = format!("{name} ended, and its sandbox has {excess}. {REMOVE_SANDBOX}");
                Err(ToolFailure::new(SANDBOX_TOO_LARGE, text))
            }
        },
        Ok(Ok(failed)) => failed,
        Ok(Err(error)) => {
            tracing::error!(tool = name, %error, "a tool panicked");
            let text = format!("The tool {name} failed; see the log of its worker.");
            Err(ToolFailure::new("tool_panicked", text))
        }
        Err(StoppedBy::Timeout(limit)) => {
            stop.cancel();
            let text = format!("{name} was stopped: no end within {}.", describe(limit));
            Err(ToolFailure::new(TIMEOUT_CODE, text))
        }
        Err(StoppedBy::Sandbox(excess)) => {
            stop.cancel();
            let text = format!("{name} was stopped: its sandbox has {excess}. {REMOVE_SANDBOX}");
            Err(ToolFailure::new(SANDBOX_TOO_LARGE, text))
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

/// Why a tool was stopped before its end.
enum StoppedBy {
    Timeout(Duration),
    Sandbox(String),
}

fn within(result: ToolResult, max: usize) -> ToolResult {
    let success = result.map_err(with_bounded_data)?;
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

/// The executor keeps no more of a failure, and refuses a message that is too large.
fn with_bounded_data(failure: ToolFailure) -> ToolFailure {
    let bytes = json_bytes(&failure.data);
    if bytes > FAILED_DATA_BYTES_MAX || value_limits::check(&failure.data).is_err() {
        return failure.with_data(json!({ "omitted": true, "bytes": bytes }));
    }
    failure
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
        Err(ToolFailure {
            code,
            message,
            data,
        }) => {
            let parks = code == PARKED;
            let message = clean(&message, TEXT_MAX);
            Outcome {
                result: ActionResult {
                    success: parks,
                    description: message.clone(),
                    error: (!parks).then_some(message),
                    data,
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
    use serde_json::Value;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::suspension::CallSuspension;
    use crate::suspension::sandbox::Sandboxes;
    use crate::suspension::sandbox_limit::SANDBOX_BYTES_MAX;
    use crate::tool::{CallCost, Risk, tool_fn};
    use crate::worker::tests::fixture::step;

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

    /// Gate 3: the response of a failed attempt is kept, within bounds.
    #[test]
    fn a_failure_keeps_its_data_within_bounds() {
        let kept = |data: Value| {
            let failure = ToolFailure::new("http_status", "no").with_data(data);
            let made = outcome(within(Err(failure), MAX_INLINE_RESULT), Duration::ZERO);
            made.result.data
        };
        let response = json!({ "status": 409, "body": "sold out" });
        assert_eq!(kept(response.clone()), response);
        let omitted = json!({ "omitted": true, "bytes": 5_002 });
        assert_eq!(kept(json!("x".repeat(5_000))), omitted);
    }

    /// A call in a sandbox whose tool writes a sparse file, and then ends or not.
    async fn call_in_sandbox(bytes: u64, ends: bool) -> Outcome {
        let root = tempfile::tempdir().unwrap();
        let all = Sandboxes::new(root.path().to_owned(), "node-a".parse().unwrap());
        let dispatch = step(true);
        let sandbox = all.of(&dispatch);
        let file = sandbox.create().unwrap().join("large");
        let tool = tool_fn("work", Risk::Low, move |_: ToolCall| {
            let file = file.clone();
            async move {
                std::fs::File::create(file).unwrap().set_len(bytes).unwrap();
                if !ends {
                    std::future::pending::<()>().await;
                }
                Ok(ToolSuccess {
                    description: "Wrote".to_owned(),
                    data: json!(1),
                })
            }
        });
        let tool_call = ToolCall {
            dispatch,
            bus: None,
            run_changes: crate::run_changes::RunChanges::default(),
            now: chrono::DateTime::UNIX_EPOCH,
            stop: CancellationToken::new(),
            suspension: CallSuspension::in_sandbox(sandbox),
            cost: CallCost::default(),
        };
        call(Arc::new(tool), tool_call, MAX_INLINE_RESULT).await
    }

    /// S1-R8: a sandbox is bounded. It is measured during the call and at its end.
    #[tokio::test]
    async fn a_call_whose_sandbox_is_too_large_fails() {
        let made = call_in_sandbox(SANDBOX_BYTES_MAX, true).await;
        assert!(made.result.success, "{made:?}");
        for ends in [true, false] {
            let made = call_in_sandbox(SANDBOX_BYTES_MAX + 1, ends).await;
            assert_eq!(made.error_code.as_deref(), Some(SANDBOX_TOO_LARGE));
            let error = made.result.error.unwrap();
            assert!(error.contains("more than 268435456 bytes"), "{error}");
        }
    }

    /// S3-R2: parking is not a failure.
    #[test]
    fn a_tool_that_parks_has_not_failed() {
        let made = outcome(Err(ToolFailure::parked()), Duration::from_millis(7));
        assert!(made.parks && made.result.success);
        assert_eq!((made.error_code, made.result.error), (None, None));
    }
}
