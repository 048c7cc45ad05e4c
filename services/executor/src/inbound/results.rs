//! `step_results`: reports of workers. Each result is read separately, so that an invalid one fails only its
//! step (B-2 c).

use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::{ResultReply, StepResult, StepResults};
use holdpoint_contracts::value_limits;
use holdpoint_ids::{NodeName, RunId};
use holdpoint_kernel::DecodedCommand;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::caller::Caller;
use crate::domain::{Input, RunInput, StepReport};

/// Longest code of a failure, in characters; a longer one is cut.
const CODE_CHARS_MAX: usize = 100;

/// Error code of a step with an invalid result.
const NOT_ALLOWED: &str = "result_not_allowed";

/// [`StepResults`] with unread results.
#[derive(Debug, Serialize, Deserialize)]
struct RawResults {
    node: NodeName,
    results: Vec<Box<RawValue>>,
}

impl Command for RawResults {
    const SERVICE: &'static str = StepResults::SERVICE;
    const VERB: &'static str = StepResults::VERB;
    type Reply = Vec<Reply<ResultReply>>;

    fn aggregate(&self) -> String {
        self.node.to_string()
    }
}

/// The step of a result, whatever else the result contains.
#[derive(Debug, Deserialize)]
struct Head {
    run: RunId,
    step: String,
    dispatch: u64,
}

pub(super) fn decode(body: &[u8], caller: &Caller<'_>) -> Result<DecodedCommand<Input>, Problem> {
    let envelope: Envelope<RawResults> = caller.read(body, None)?;
    let RawResults { node, results } = envelope.command;
    let results: Vec<StepResult> = results
        .iter()
        .map(|raw| read(raw.get()))
        .collect::<Result<_, _>>()?;
    Caller::inputs(results, |it| {
        let input = if it.parks {
            RunInput::StepParks {
                step: it.step,
                dispatch: it.dispatch,
                duration_ms: it.result.duration_ms,
            }
        } else {
            RunInput::StepResult(StepReport {
                node: node.clone(),
                step: it.step,
                dispatch: it.dispatch,
                result: it.result,
                error_code: it.error_code.map(|code| printable_code(&code)),
                cost: it.cost,
            })
        };
        caller.run_input(it.run, input)
    })
}

/// A code that fits its column, because workers are foreign programs.
pub(super) fn printable_code(code: &str) -> String {
    let printable = |c: char| if c.is_control() { '_' } else { c };
    code.chars().take(CODE_CHARS_MAX).map(printable).collect()
}

/// A result, or the failure that replaces an invalid one.
fn read(raw: &str) -> Result<StepResult, Problem> {
    let error = match serde_json::from_str::<StepResult>(raw) {
        Ok(result) => match value_limits::check(&result.result.data) {
            Ok(()) => return Ok(result),
            Err(exceeded) => exceeded.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let Head {
        run,
        step,
        dispatch,
    } = serde_json::from_str(raw)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", StepResults::VERB)))?;
    tracing::warn!(%run, step, dispatch, error, "a result cannot be kept; its step fails");
    let text = format!("The worker reported an invalid result: {error}.");
    Ok(StepResult {
        run,
        step,
        dispatch,
        result: ActionResult {
            success: false,
            description: text.clone(),
            error: Some(text),
            data: Value::Null,
            duration_ms: 0,
        },
        error_code: Some(NOT_ALLOWED.to_owned()),
        parks: false,
        cost: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(data: &str) -> String {
        let run = "run_0193aaaabbbb7ccc8dddeeeeeeeeeeee";
        format!(
            r#"{{"run": "{run}", "step": "step-01", "dispatch": 2, "result": {{"success": true,
               "description": "", "error": null, "data": {data}, "duration_ms": 3}}}}"#
        )
    }

    /// B-2 c: a result beyond the limits becomes the failure of its step, however deep it is.
    #[test]
    fn a_result_that_cannot_be_kept_fails_its_own_step() {
        assert_eq!(read(&raw("[[1]]")).unwrap().result.data, json!([[1]]));
        for depth in [33, 122, 5_000] {
            let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            let read = read(&raw(&deep)).unwrap();
            assert_eq!((read.step.as_str(), read.dispatch), ("step-01", 2));
            assert!(!read.result.success, "{depth}");
            assert_eq!(read.error_code.as_deref(), Some(NOT_ALLOWED));
        }
        let odd = raw("1").replace("\"success\": true", "\"success\": 7");
        assert_eq!(read(&odd).unwrap().error_code.as_deref(), Some(NOT_ALLOWED));
        assert!(read(&raw(r#""\u0000""#)).unwrap().result.error.is_some());
        assert_eq!(read("{}").unwrap_err().status, 422);
    }
}
