//! `run pause`, `resume` and `cancel`: one run, several, or all that a filter finds.

use anyhow::bail;
use futures_util::{StreamExt, stream};
use holdpoint_contracts::run::ChangedRun;

use super::super::short_id::Listed;
use super::super::{Session, refusal_line};
use super::filter_query;
use crate::cli::{FilterArgs, ManyArgs};
use crate::client::{Body, ClientError};
use crate::exit::{Outcome, Usage};
use crate::output;

/// Requests under way at the same time.
pub(super) const AT_ONCE: usize = 16;
/// The most runs that one command acts on; a narrower filter takes the rest.
const MANY_MAX: usize = 100_000;
/// Runs of one page of the list.
const PAGE: usize = 500;

/// What to do with each run.
pub(super) enum Action {
    /// Freeze it.
    Pause,
    /// Let it go on.
    Resume {
        /// How its waits go on.
        mode: Option<String>,
    },
    /// End it.
    Cancel { reason: Option<String> },
}

impl Action {
    async fn perform(&self, session: &Session, run: &str) -> Result<Body<ChangedRun>, ClientError> {
        match self {
            Self::Pause => session.client.pause(run).await,
            Self::Resume { mode } => session.client.resume(run, mode.as_deref()).await,
            Self::Cancel { reason } => session.client.cancel(run, reason.as_deref()).await,
        }
    }

    const fn done(&self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Resume { .. } => "resumed",
            Self::Cancel { .. } => "cancelled",
        }
    }

    const fn was_so(&self) -> &'static str {
        match self {
            Self::Pause => "was paused already",
            Self::Resume { .. } => "was not paused",
            Self::Cancel { .. } => "was cancelled already",
        }
    }
}

/// Acts on each run and prints a line for each, in the order of the runs.
pub(super) async fn steer(
    session: &Session,
    which: &ManyArgs,
    action: &Action,
) -> anyhow::Result<Outcome> {
    let named = session.whole_ids(Listed::Runs, &which.runs).await?;
    if let [run] = named.as_slice() {
        let answer = action.perform(session, run).await?;
        print_changed(session, action, run, &answer)?;
        return Ok(Outcome::Ok);
    }
    let runs = if named.is_empty() {
        find(session, &which.filter).await?
    } else {
        named
    };
    if runs.is_empty() {
        output::note("no such runs");
    }
    let mut answers = stream::iter(&runs)
        .map(|run| async move { (run, action.perform(session, run).await) })
        .buffered(AT_ONCE);
    let mut outcomes = Vec::with_capacity(runs.len());
    while let Some((run, answer)) = answers.next().await {
        match answer {
            Ok(answer) => {
                outcomes.push(Outcome::Ok);
                print_changed(session, action, run, &answer)?;
            }
            Err(error @ ClientError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => {
                outcomes.push(error.outcome());
                let plain = format!("{run}  {error}");
                let refusal = refusal_line("run", run, &error);
                output::line(if session.json { &refusal } else { &plain })?;
            }
        }
    }
    Ok(Outcome::of_many(outcomes))
}

fn print_changed(
    session: &Session,
    action: &Action,
    run: &str,
    answer: &Body<ChangedRun>,
) -> anyhow::Result<()> {
    if session.json {
        return Ok(output::line(&answer.text)?);
    }
    let what = if answer.value.changed {
        action.done()
    } else {
        action.was_so()
    };
    Ok(output::line(&format!(
        "{run}  {what}  {}",
        answer.value.run.message
    ))?)
}

/// Ids of all runs that the filter finds; ended ones only where their status was asked for.
async fn find(session: &Session, filter: &FilterArgs) -> anyhow::Result<Vec<String>> {
    let query = filter_query(filter);
    if query.is_empty() {
        bail!(Usage(
            "say which runs: ids, or --agent, --status, --label".to_owned()
        ));
    }
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = query.clone();
        query.push(("limit", PAGE.to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = session.client.runs(&query).await?.value;
        let wanted = page
            .items
            .iter()
            .filter(|run| filter.status.is_some() || !run.status.is_final());
        found.extend(wanted.map(|run| run.id.to_string()));
        if found.len() > MANY_MAX {
            bail!(Usage(format!(
                "these are more than {MANY_MAX} runs; say more exactly which"
            )));
        }
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}
