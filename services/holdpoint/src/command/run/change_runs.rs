//! `run pause`, `suspend`, `resume`, `retry`, `signal` and `cancel`: one run, several, or all that match a filter.

use anyhow::bail;
use futures_util::{StreamExt, stream};
use holdpoint_contracts::run::{ChangedRun, RunStatus};
use serde_json::Value;

use super::super::short_id::Listed;
use super::super::{Session, body_of, refusal_line};
use super::list_runs::{CONCURRENCY, filter_query, for_each_run};
use crate::cli::runs::{FilterArgs, RunRefs};
use crate::client::{Body, ClientError};
use crate::exit::{ExitKind, Usage};
use crate::output;

/// Runs that one command changes; more are refused, and a narrower filter is needed.
const RUNS_MAX: usize = 100_000;

/// A change of each run, and its texts.
pub(super) struct Action {
    pub(super) name: &'static str,
    pub(super) body: Value,
    pub(super) done: &'static str,
    pub(super) unchanged: &'static str,
    /// The status that a filter without one selects. None: all runs that have not ended.
    pub(super) default_status: Option<RunStatus>,
}

impl Action {
    /// A filter selects runs that have not ended.
    pub(super) fn of_live_runs(
        name: &'static str,
        body: Value,
        done: &'static str,
        unchanged: &'static str,
    ) -> Self {
        Self {
            name,
            body: body_of(body),
            done,
            unchanged,
            default_status: None,
        }
    }

    async fn perform(&self, session: &Session, run: &str) -> Result<Body<ChangedRun>, ClientError> {
        let client = &session.client;
        client.change_run(run, self.name, &self.body).await
    }
}

/// Changes each run and prints one line per run, in the order of the runs.
pub(super) async fn change_runs(
    session: &Session,
    refs: &RunRefs,
    action: &Action,
) -> anyhow::Result<ExitKind> {
    let named = session.whole_ids(Listed::Runs, &refs.runs).await?;
    if let [run] = named.as_slice() {
        return print_changed(session, action, &action.perform(session, run).await?);
    }
    let runs = if named.is_empty() {
        find_runs(session, &refs.filter, action.default_status).await?
    } else {
        named
    };
    if runs.is_empty() {
        output::note("No results.");
    }
    let mut changes = stream::iter(&runs)
        .map(|run| async move { (run, action.perform(session, run).await) })
        .buffered(CONCURRENCY);
    let mut kinds = Vec::with_capacity(runs.len());
    while let Some((run, changed)) = changes.next().await {
        kinds.push(match changed {
            Ok(changed) => print_changed(session, action, &changed)?,
            Err(error @ ClientError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => {
                let text = format!("{run}  {error}");
                let refusal = refusal_line("run", run, &error);
                output::line(if session.json { &refusal } else { &text })?;
                error.exit_kind()
            }
        });
    }
    Ok(ExitKind::of_many(kinds))
}

fn print_changed(
    session: &Session,
    action: &Action,
    changed: &Body<ChangedRun>,
) -> anyhow::Result<ExitKind> {
    session.show(changed, |ChangedRun { run, changed, .. }| {
        let change = if *changed {
            action.done
        } else {
            action.unchanged
        };
        format!("{}  {change}  {}", run.id, run.message)
    })
}

/// Ids of all runs that match the filter; ended runs only if the filter has a status.
async fn find_runs(
    session: &Session,
    filter: &FilterArgs,
    default_status: Option<RunStatus>,
) -> anyhow::Result<Vec<String>> {
    if filter_query(filter).is_empty() {
        bail!(Usage(
            "no runs given; expected ids, --agent, --status or --label".to_owned()
        ));
    }
    let filter = FilterArgs {
        status: filter.status.or(default_status),
        ..filter.clone()
    };
    let mut found = Vec::new();
    for_each_run(session, &filter_query(&filter), |run| {
        if filter.status.is_some() || !run.status.is_final() {
            found.push(run.id.to_string());
        }
        if found.len() > RUNS_MAX {
            bail!(Usage(format!(
                "the filter matches more than {RUNS_MAX} runs; use a narrower filter"
            )));
        }
        Ok(())
    })
    .await?;
    Ok(found)
}
