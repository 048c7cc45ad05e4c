//! `run start --csv`: starts one run per row, waits for them with `--watch`, and prints a summary.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use holdpoint_contracts::run::{RunStatus, RunView};
use serde_json::{Value, json};

use super::super::{Session, add_options};
use super::contacts_file::{self, Row};
use super::list_runs::{CONCURRENCY, contacts_with_run};
use crate::client::{Body, ClientError};
use crate::exit::ExitKind;
use crate::output;
use crate::table::Rows;

/// Pause between two polls of the runs that have not ended.
const POLL_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Batch {
    pub(super) agent: String,
    /// Common to all runs; the row adds the contact.
    pub(super) body: Value,
    pub(super) file: PathBuf,
    /// Skip contacts that have a run of the agent.
    pub(super) once: bool,
    /// Wait until all runs have ended.
    pub(super) watch: bool,
}

struct StartedRow {
    row: Row,
    run: Result<Body<RunView>, ClientError>,
}

pub(super) async fn start(session: &Session, batch: &Batch) -> anyhow::Result<ExitKind> {
    let rows = contacts_file::read(&batch.file)?;
    let rows = skip_contacted(session, batch, rows).await?;
    let mut started = start_all(session, batch, rows).await?;
    if batch.watch {
        wait_for_all(session, &mut started).await?;
    }
    let text = if session.json {
        as_json(&started)
    } else {
        summary(&started)
    };
    output::line(&text)?;
    let kinds = started.iter().map(|row| exit_kind(row, batch.watch));
    Ok(ExitKind::of_many(kinds))
}

/// Reports, before anything starts, how many contacts already have a run of the agent. With `--once`
/// these rows are removed.
async fn skip_contacted(
    session: &Session,
    batch: &Batch,
    mut rows: Vec<Row>,
) -> anyhow::Result<Vec<Row>> {
    let contacted = contacts_with_run(session, &batch.agent).await?;
    let has_run = |row: &Row| contacted.contains(&row.id);
    let (total, agent) = (rows.len(), &batch.agent);
    let count = rows.iter().filter(|row| has_run(row)).count();
    if count == 0 {
        return Ok(rows);
    }
    let consequence = if batch.once {
        "and are skipped"
    } else {
        "and get another; --once skips them"
    };
    output::note(&format!(
        "{count} of {total} contacts have a run of {agent} {consequence}"
    ));
    if batch.once {
        rows.retain(|row| !has_run(row));
    }
    Ok(rows)
}

async fn start_all(
    session: &Session,
    batch: &Batch,
    rows: Vec<Row>,
) -> anyhow::Result<Vec<StartedRow>> {
    let total = rows.len();
    let mut responses = stream::iter(rows)
        .map(|row| async move {
            let mut body = batch.body.clone();
            add_options(&mut body, json!({ "contact": row.contact }));
            let run = session.client.start_run(&batch.agent, &body).await;
            StartedRow { row, run }
        })
        .buffered(CONCURRENCY);
    let mut started: Vec<StartedRow> = Vec::with_capacity(total);
    while let Some(next) = responses.next().await {
        if let Err(error @ ClientError::Unreachable { .. }) = &next.run {
            output::live_end();
            let (count, line) = (started.len(), next.row.line);
            output::note(&format!(
                "{count} of {total} started; stopped at line {line}"
            ));
            return Err(error.clone().into());
        }
        started.push(next);
        output::live(&format!("{} of {total} started", started.len()));
    }
    output::live_end();
    Ok(started)
}

/// Polls all runs that have not ended until none is left.
async fn wait_for_all(session: &Session, started: &mut [StartedRow]) -> Result<(), ClientError> {
    loop {
        output::live(&counts_line(started));
        let open = started.iter_mut().filter_map(|row| row.run.as_mut().ok());
        let open: Vec<_> = open.filter(|run| !run.value.status.is_final()).collect();
        if open.is_empty() {
            output::live_end();
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
        let mut polls = stream::iter(open)
            .map(|run| async move {
                *run = session.client.run(&run.value.id.to_string()).await?;
                Ok::<(), ClientError>(())
            })
            .buffer_unordered(CONCURRENCY);
        while let Some(poll) = polls.next().await {
            poll?;
        }
    }
}

fn exit_kind(started: &StartedRow, is_watched: bool) -> ExitKind {
    match started.run.as_ref().map(|run| run.value.status) {
        Err(error) => error.exit_kind(),
        Ok(RunStatus::Failed) if is_watched => ExitKind::Failed,
        Ok(RunStatus::Cancelled) if is_watched => ExitKind::Rejected,
        Ok(_) => ExitKind::Ok,
    }
}

/// Runs by status, in the order in which a run passes through them, then rows without a run.
fn counts(started: &[StartedRow]) -> Vec<(&'static str, usize)> {
    let mut by_status: BTreeMap<RunStatus, usize> = BTreeMap::new();
    for run in started.iter().filter_map(|row| row.run.as_ref().ok()) {
        *by_status.entry(run.value.status).or_default() += 1;
    }
    let is_accepted = |row: &&StartedRow| matches!(row.run, Err(ClientError::Accepted { .. }));
    let accepted = started.iter().filter(is_accepted).count();
    let refused = started.iter().filter(|row| row.run.is_err()).count() - accepted;
    let by_status = by_status.into_iter();
    by_status
        .map(|(status, count)| (status.as_str(), count))
        .chain([("accepted", accepted), ("refused", refused)])
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn counts_line(started: &[StartedRow]) -> String {
    let counts = counts(started).into_iter();
    let counts: Vec<_> = counts
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    format!("{} runs: {}", started.len(), counts.join(", "))
}

fn summary(started: &[StartedRow]) -> String {
    let mut rows = Rows::new(&["STATUS", "RUNS"]);
    for (status, count) in counts(started) {
        rows.push([status, &count.to_string()]);
    }
    let mut failures = Rows::new(&["LINE", "CONTACT", "RUN", "REASON"]);
    for StartedRow { row, run } in started {
        let (run, reason) = match run {
            Err(error) => (String::new(), error.to_string()),
            Ok(run) => match &run.value.failure {
                Some(failure) => (run.value.id.to_string(), failure.message.clone()),
                None => continue,
            },
        };
        failures.push([row.line.to_string(), row.id.to_string(), run, reason]);
    }
    if failures.is_empty() {
        return rows.render();
    }
    format!("{}\n\n{}", rows.render(), failures.render())
}

fn as_json(started: &[StartedRow]) -> String {
    let items = started.iter().map(|StartedRow { row, run }| {
        let (name, body) = match run {
            Ok(run) => ("run", serde_json::from_str(&run.text).unwrap_or_default()),
            Err(error) => ("problem", json!(error.problem())),
        };
        json!({ "line": row.line, "contact": row.id, name: body })
    });
    json!({ "items": items.collect::<Vec<Value>>() }).to_string()
}
