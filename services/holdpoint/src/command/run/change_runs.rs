//! `run pause`, `suspend`, `resume`, `retry`, `signal` and `cancel`: one run, several, or all that match a filter.

use futures_util::{StreamExt, stream};
use holdpoint_contracts::run::ChangedRun;

use super::super::short_id::Listed;
use super::super::{Session, refusal_line};
use super::action::Action;
use super::bulk::change_matching;
use super::list_runs::CONCURRENCY;
use crate::cli::runs::RunRefs;
use crate::client::{Body, ClientError};
use crate::exit::ExitKind;
use crate::output;

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
    if named.is_empty() {
        return change_matching(session, &refs.filter, refs.dry_run, action).await;
    }
    let mut changes = stream::iter(&named)
        .map(|run| async move { (run, action.perform(session, run).await) })
        .buffered(CONCURRENCY);
    let mut kinds = Vec::with_capacity(named.len());
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

/// One line about a changed run.
pub(super) fn print_changed(
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
