//! `POST /agents/{agent}/runs:batch`: many runs at once, one JSON body a line, a result each.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use holdpoint_auth::Right;
use holdpoint_contracts::run::RunView;
use holdpoint_contracts::{IdempotencyKey, Problem};
use holdpoint_ids::{AgentName, CommandId};
use serde::Serialize;

use super::start;
use crate::answered::CommandOutcome;
use crate::app::App;
use crate::body::{Body, from_json, key_of_part};
use crate::caller::{Caller, PathId};
use crate::params::Params;
use crate::problem::{ApiError, ProblemBody, status};

/// The most lines of a batch; more are refused as a whole.
const LINES_MAX: usize = 1_000;
/// Starts of one batch that are under way at a time.
const AT_A_TIME: usize = 64;

/// Results in the order of the lines.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    items: Vec<LineResult>,
}

/// What became of one line.
#[derive(Debug, Serialize)]
struct LineResult {
    /// From 1, empty lines counted.
    line: usize,
    status: u16,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Run(Box<RunView>),
    Problem(ProblemBody),
    /// Accepted, with the executor down.
    CommandId(CommandId),
}

pub(super) async fn many(
    State(app): State<App>,
    caller: Caller,
    PathId(agent): PathId<AgentName>,
    params: Params,
    body: Body,
) -> Result<Json<Results>, ApiError> {
    caller.may(Right::Ask)?;
    params.only(&[])?;
    let lines = lines(body.lines()?)?;
    let (app, caller, agent, key) = (&app, &caller, &agent, body.key.as_ref());
    let starts = lines.into_iter().map(|(line, text)| async move {
        let key = key.map(|key| key_of_part(key, &format!("#{line}"), text.as_bytes()));
        LineResult::new(
            line,
            start_line(app, caller, agent.clone(), &text, key).await,
        )
    });
    let items = stream::iter(starts).buffered(AT_A_TIME).collect().await;
    Ok(Json(Results { items }))
}

async fn start_line(
    app: &App,
    caller: &Caller,
    agent: AgentName,
    text: &str,
    key: Option<IdempotencyKey>,
) -> Result<CommandOutcome<RunView>, Problem> {
    start::begin(app, caller, agent, from_json(text.as_bytes())?, key).await
}

impl LineResult {
    fn new(line: usize, result: Result<CommandOutcome<RunView>, Problem>) -> Self {
        let (status, outcome) = match result {
            Ok(CommandOutcome::Done(run)) => (StatusCode::CREATED, Outcome::Run(Box::new(run))),
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

/// Lines that say something, each with its number.
fn lines(text: &str) -> Result<Vec<(usize, String)>, Problem> {
    let lines: Vec<_> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| (number, line.to_owned()))
        .collect();
    if lines.len() > LINES_MAX {
        let detail = format!(
            "a batch has {LINES_MAX} lines at most, this has {}",
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
        assert_eq!(lines("{}\n\n[]\n").unwrap(), both);
        assert!(lines(&"{}\n".repeat(1_000)).is_ok());
        assert_eq!(lines(&"{}\n".repeat(1_001)).unwrap_err().status, 413);
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
