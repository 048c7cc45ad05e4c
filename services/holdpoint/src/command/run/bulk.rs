//! A change of all runs that match a filter: one operation, its progress, and the result of each run.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::bail;
use holdpoint_contracts::operation::{OperationState, OperationView, RunResult, RunResultView};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Session;
use super::action::Action;
use super::list_runs::filter_query;
use crate::cli::runs::FilterArgs;
use crate::client::Body;
use crate::exit::{ExitKind, Usage};
use crate::output;

/// How often the progress of an operation is read.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Results of a page.
const PAGE: usize = 500;

#[derive(Debug, Deserialize)]
struct DryRun {
    matched: u64,
}

/// Begins an operation, follows it to its end and prints one line per run.
pub(super) async fn change_matching(
    session: &Session,
    filter: &FilterArgs,
    dry_run: bool,
    action: &Action,
) -> anyhow::Result<ExitKind> {
    let filter = filter_query(filter);
    if filter.is_empty() {
        bail!(Usage(
            "no runs given; expected ids, --agent, --status or --label".to_owned()
        ));
    }
    let filter: serde_json::Map<String, Value> = filter
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    let mut body = json!({ "action": action.name, "filter": filter });
    super::super::add_options(&mut body, action.body.clone());
    if dry_run {
        super::super::add_options(&mut body, json!({ "dry_run": true }));
        let counted: Body<DryRun> = session.client.post("runs:bulk", &body).await?;
        return session.show(&counted, |counted| {
            format!("{} runs match; nothing was changed", counted.matched)
        });
    }
    let started: Body<OperationView> = session.client.post("runs:bulk", &body).await?;
    let operation = started.value.id.to_string();
    output::note(&format!(
        "{operation} has begun; end it with `holdpoint operation cancel {operation}`"
    ));
    follow(session, &operation).await?;
    print_results(session, &operation, action).await
}

/// Reads the operation until it has ended.
async fn follow(session: &Session, operation: &str) -> anyhow::Result<()> {
    let path = format!("operations/{operation}");
    loop {
        let view: OperationView = session.client.get(&path, &[]).await?.value;
        let done = view.counts.unwrap_or_default().total();
        if view.state != OperationState::Running {
            output::live_end();
            if view.state == OperationState::Cancelled || view.limit_reached {
                output::note(&format!("{operation} ended after {done} runs"));
            }
            return Ok(());
        }
        output::live(&format!("{operation}  {done} of {} runs", view.matched));
        tokio::time::sleep(PROGRESS_EVERY).await;
    }
}

async fn print_results(
    session: &Session,
    operation: &str,
    action: &Action,
) -> anyhow::Result<ExitKind> {
    let (mut kinds, mut is_empty) = (ExitKind::Ok, true);
    let path = format!("operations/{operation}/results");
    let page = |results: Vec<RunResultView>| {
        for result in results {
            is_empty = false;
            if result.result == RunResult::Refused {
                kinds = ExitKind::Conflict;
            }
            let text = if session.json {
                serde_json::to_string(&result)?
            } else {
                text_of(&result, operation, action)
            };
            output::line(&text)?;
        }
        Ok(ControlFlow::Continue(()))
    };
    session
        .for_each_page(&path, &[("limit", PAGE.to_string())], page)
        .await?;
    if is_empty {
        output::note("No results.");
    }
    Ok(kinds)
}

fn text_of(result: &RunResultView, operation: &str, action: &Action) -> String {
    let run = result.run;
    match result.result {
        RunResult::Changed => format!("{run}  {}  by {operation}", action.done),
        RunResult::Unchanged => format!("{run}  {}  {operation}", action.unchanged),
        RunResult::Refused => {
            let code = result.code.as_deref().unwrap_or("refused");
            format!("{run}  refused  {code}")
        }
    }
}
