//! `run start --csv`: one run for each row, a summary, and waiting for all of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use holdpoint_contracts::run::{RunStatus, RunView};
use serde_json::{Value, json};

use super::super::Session;
use super::change_runs::AT_ONCE;
use super::contacted;
use super::contacts_file::{self, Row};
use crate::client::{Body, ClientError, StartRun};
use crate::exit::Outcome;
use crate::output;
use crate::table::Rows;

/// Pause between two looks at the runs that have not ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What to start for each row of a file.
pub(super) struct Batch {
    /// Runs of this agent.
    pub(super) agent: String,
    /// What all have in common; the row brings the contact.
    pub(super) start: StartRun,
    pub(super) file: PathBuf,
    /// Whether contacts are left out that have a run of the agent.
    pub(super) once: bool,
    /// Whether to wait until all have ended.
    pub(super) watch: bool,
}

/// What became of one row.
struct Started {
    row: Row,
    run: Result<Body<RunView>, ClientError>,
}

/// Starts them, a few at a time, and prints what became of them.
pub(super) async fn start(session: &Session, batch: &Batch) -> anyhow::Result<Outcome> {
    let rows = contacts_file::read(&batch.file)?;
    let rows = leave_out(session, batch, rows).await?;
    let mut started = start_all(session, batch, rows).await?;
    if batch.watch {
        wait_for_all(session, &mut started).await?;
    }
    if session.json {
        output::line(&as_json(&started))?;
    } else {
        output::line(&summary(&started))?;
    }
    Ok(Outcome::of_many(
        started.iter().map(|one| outcome(one, batch.watch)),
    ))
}

/// Says, before anything is started, how many contacts have a run of the agent; with `--once` they are left
/// out.
async fn leave_out(session: &Session, batch: &Batch, rows: Vec<Row>) -> anyhow::Result<Vec<Row>> {
    let known = contacted::contacts(session, &batch.agent).await?;
    let total = rows.len();
    let (again, new): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| known.contains(&row.id));
    if again.is_empty() {
        return Ok(new);
    }
    let (count, agent) = (again.len(), &batch.agent);
    if batch.once {
        output::note(&format!(
            "{count} of {total} contacts have a run of {agent} and are skipped"
        ));
        return Ok(new);
    }
    output::note(&format!(
        "{count} of {total} contacts have a run of {agent} already and get another; --once skips them"
    ));
    let mut rows = [again, new].concat();
    rows.sort_by_key(|row| row.line);
    Ok(rows)
}

async fn start_all(
    session: &Session,
    batch: &Batch,
    rows: Vec<Row>,
) -> anyhow::Result<Vec<Started>> {
    let total = rows.len();
    let mut answers = stream::iter(rows)
        .map(|row| async move {
            let contact = Some(row.contact.clone());
            let start = StartRun {
                contact,
                ..batch.start.clone()
            };
            let run = session.client.start_run(&batch.agent, &start).await;
            Started { row, run }
        })
        .buffered(AT_ONCE);
    let mut started: Vec<Started> = Vec::with_capacity(total);
    while let Some(one) = answers.next().await {
        if let Err(error @ ClientError::Unreachable { .. }) = &one.run {
            output::live_end();
            let row = one.row.line;
            output::note(&format!(
                "{} of {total} started; broke off at line {row}",
                started.len()
            ));
            return Err(error.clone().into());
        }
        started.push(one);
        output::live(&format!("{} of {total} started", started.len()));
    }
    output::live_end();
    Ok(started)
}

/// Looks again at all that have not ended, until none is left.
async fn wait_for_all(session: &Session, started: &mut [Started]) -> Result<(), ClientError> {
    loop {
        output::live(&counts_line(started));
        let open = started.iter_mut().filter_map(|one| one.run.as_mut().ok());
        let open: Vec<_> = open.filter(|run| !run.value.status.is_final()).collect();
        if open.is_empty() {
            output::live_end();
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        let mut looks = stream::iter(open)
            .map(|run| async move {
                *run = session.client.run(&run.value.id.to_string()).await?;
                Ok::<(), ClientError>(())
            })
            .buffer_unordered(AT_ONCE);
        while let Some(looked) = looks.next().await {
            looked?;
        }
    }
}

fn outcome(one: &Started, watched: bool) -> Outcome {
    match &one.run {
        Err(error) => error.outcome(),
        Ok(_) if !watched => Outcome::Ok,
        Ok(run) => match run.value.status {
            RunStatus::Failed => Outcome::Failed,
            RunStatus::Cancelled => Outcome::Rejected,
            RunStatus::Completed
            | RunStatus::Queued
            | RunStatus::Running
            | RunStatus::Waiting
            | RunStatus::AwaitingApproval
            | RunStatus::AwaitingInput
            | RunStatus::PausedForIntervention => Outcome::Ok,
        },
    }
}

/// Runs by status, in the order in which a run goes through them; refused rows last.
fn counts(started: &[Started]) -> Vec<(&'static str, usize)> {
    let mut by_status: BTreeMap<RunStatus, usize> = BTreeMap::new();
    for run in started.iter().filter_map(|one| one.run.as_ref().ok()) {
        *by_status.entry(run.value.status).or_default() += 1;
    }
    let is_accepted = |one: &&Started| matches!(one.run, Err(ClientError::Accepted { .. }));
    let accepted = started.iter().filter(is_accepted).count();
    let refused = started.iter().filter(|one| one.run.is_err()).count() - accepted;
    let mut counts: Vec<_> = by_status
        .into_iter()
        .map(|(status, count)| (status.as_str(), count))
        .collect();
    if accepted > 0 {
        counts.push(("accepted", accepted));
    }
    if refused > 0 {
        counts.push(("refused", refused));
    }
    counts
}

fn counts_line(started: &[Started]) -> String {
    let counts: Vec<_> = counts(started)
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    format!("{} runs: {}", started.len(), counts.join(", "))
}

fn summary(started: &[Started]) -> String {
    let mut rows = Rows::new(&["STATUS", "RUNS"]);
    for (word, count) in counts(started) {
        rows.push([word.to_owned(), count.to_string()]);
    }
    let mut text = rows.render();
    let mut trouble = Rows::new(&["LINE", "CONTACT", "RUN", "WHY"]);
    for Started { row, run } in started {
        let (run, why) = match run {
            Err(error) => (String::new(), error.to_string()),
            Ok(run) => match &run.value.failure {
                Some(failure) => (run.value.id.to_string(), failure.message.clone()),
                None => continue,
            },
        };
        trouble.push([row.line.to_string(), row.id.to_string(), run, why]);
    }
    if !trouble.is_empty() {
        text.push_str(&format!("\n\n{}", trouble.render()));
    }
    text
}

fn as_json(started: &[Started]) -> String {
    let items: Vec<Value> = started
        .iter()
        .map(|Started { row, run }| {
            let (name, body) = match run {
                Ok(run) => ("run", serde_json::from_str(&run.text).unwrap_or_default()),
                Err(error) => (
                    "problem",
                    serde_json::to_value(error.problem()).unwrap_or_default(),
                ),
            };
            json!({ "line": row.line, "contact": row.id, name: body })
        })
        .collect();
    json!({ "items": items }).to_string()
}
