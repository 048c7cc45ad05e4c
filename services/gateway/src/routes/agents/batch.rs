//! `POST /agents/{agent}/runs:batch`: starting many runs, with one JSON body and one result a line.

use axum::Json;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use holdpoint_contracts::Problem;
use holdpoint_contracts::run::StartedRun;
use holdpoint_ids::{AgentName, CommandId};
use serde::Serialize;

use super::start;
use crate::auth::may::Ask;
use crate::body::{Body, from_json, key_of_part};
use crate::call::Call;
use crate::command_outcome::{CommandOutcome, created_or_ok};
use crate::problem::{JsonResult, ProblemBody, status};

/// Most lines of a batch; a longer batch is refused.
const LINES_MAX: usize = 1_000;
/// Starts of one batch that are sent at the same time.
const AT_ONCE: usize = 64;

/// Results in the order of the lines.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    items: Vec<LineResult>,
}

#[derive(Debug, Serialize)]
struct LineResult {
    /// From 1; empty lines count.
    line: usize,
    status: u16,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Run(Box<StartedRun>),
    Problem(ProblemBody),
    /// Accepted while the executor is down.
    CommandId(CommandId),
}

pub(super) async fn start_many(call: Call<Ask, AgentName, Body>) -> JsonResult<Results> {
    let lines = read_lines(call.body.lines()?)?;
    let (caller, agent, key) = (&call.caller, &call.id, call.key.as_ref());
    let starts = lines.into_iter().map(|(line, text)| async move {
        let key = key.map(|key| key_of_part(key, &format!("#{line}"), text.as_bytes()));
        let started = match from_json(text.as_bytes()) {
            Ok(body) => start::start(caller, agent.clone(), body, key, true).await,
            Err(problem) => Err(problem),
        };
        LineResult::new(line, started)
    });
    let items = stream::iter(starts).buffered(AT_ONCE).collect().await;
    Ok(Json(Results { items }))
}

impl LineResult {
    fn new(line: usize, result: Result<CommandOutcome<StartedRun>, Problem>) -> Self {
        let (status, outcome) = match result {
            Ok(CommandOutcome::Done(run)) => {
                (created_or_ok(run.changed), Outcome::Run(Box::new(run)))
            }
            Ok(CommandOutcome::Accepted(id)) => (StatusCode::ACCEPTED, Outcome::CommandId(id)),
            Err(problem) => (status(&problem), Outcome::Problem(problem.into())),
        };
        Self {
            line,
            status: status.as_u16(),
            outcome,
        }
    }
}

/// The lines that are not empty, with their numbers.
fn read_lines(text: &str) -> Result<Vec<(usize, String)>, Problem> {
    let lines: Vec<_> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| (number, line.to_owned()))
        .collect();
    if lines.len() > LINES_MAX {
        let detail = format!(
            "batch too long: {} lines; expected at most {LINES_MAX}",
            lines.len()
        );
        return Err(Problem::new(413, "too_large", detail));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_count_and_say_nothing() {
        let both = [(1, "{}".to_owned()), (3, "[]".to_owned())];
        assert_eq!(read_lines("{}\n\n[]\n").unwrap(), both);
        assert!(read_lines(&"{}\n".repeat(1_000)).is_ok());
        assert_eq!(read_lines(&"{}\n".repeat(1_001)).unwrap_err().status, 413);
    }

    #[test]
    fn a_refused_line_says_why() {
        let result = LineResult::new(2, Err(Problem::not_found("no such agent")));
        let json = serde_json::to_value(result).unwrap();
        assert_eq!(
            (json["status"].as_u64(), json["line"].as_u64()),
            (Some(404), Some(2))
        );
        assert_eq!(json["problem"]["code"], "not_found");
    }
}
