//! `run`: starting, following and steering runs.

mod change_runs;
mod contacted;
pub(crate) mod contacts_file;
mod show;
mod start_from_csv;
mod watch;

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};

use super::short_id::Listed;
use super::{ClientCommand, Session, instant, note_more, page_query};
use crate::cli::{FilterArgs, PageArgs, RunCommand, StartArgs};
use crate::client::StartRun;
use crate::exit::Outcome;
use crate::output;
use crate::parsers::contact_id;
use crate::table::Rows;

impl ClientCommand for RunCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Start(args) => start(session, args).await,
            Self::List {
                filter,
                created_after,
                page,
            } => list(session, &filter, created_after, &page).await,
            Self::Show { run } => {
                let run = session.whole_id(Listed::Runs, &run).await?;
                show::show(session, &run).await
            }
            Self::Watch { run } => {
                let run = session.whole_id(Listed::Runs, &run).await?;
                watch::watch(session, &run).await
            }
            Self::Pause(which) => {
                change_runs::steer(session, &which, &change_runs::Action::Pause).await
            }
            Self::Resume { which, mode } => {
                change_runs::steer(session, &which, &change_runs::Action::Resume { mode }).await
            }
            Self::Cancel { which, reason } => {
                change_runs::steer(session, &which, &change_runs::Action::Cancel { reason }).await
            }
        }
    }
}

async fn start(session: &Session, args: StartArgs) -> anyhow::Result<Outcome> {
    let StartArgs {
        agent,
        input,
        contact,
        labels,
        csv,
        once,
        watch,
    } = args;
    let labels: BTreeMap<_, _> = labels.into_iter().collect();
    let start = StartRun {
        input,
        contact,
        labels,
    };
    if let Some(file) = csv {
        return start_from_csv::start(
            session,
            &start_from_csv::Batch {
                agent,
                start,
                file,
                once,
                watch,
            },
        )
        .await;
    }
    if once && let Some(contact) = &start.contact {
        let known = contacted::contacts(session, &agent).await?;
        let id = match contact.as_str() {
            Some(id) => id.parse()?,
            None => contact_id(contact)?,
        };
        if known.contains(&id) {
            output::note(&format!(
                "{id} has a run of {agent}; none is started (--once)"
            ));
            return Ok(Outcome::Ok);
        }
    }
    let answer = session.client.start_run(&agent, &start).await?;
    let run = &answer.value;
    if session.json {
        output::line(&answer.text)?;
    } else if !watch {
        output::line(&format!("{}  {}  {}", run.id, run.status, run.message))?;
    } else {
        output::note(&format!("{} of {}", run.id, run.agent));
    }
    if watch {
        watch::watch(session, &run.id.to_string()).await
    } else {
        Ok(Outcome::Ok)
    }
}

async fn list(
    session: &Session,
    filter: &FilterArgs,
    created_after: Option<DateTime<Utc>>,
    page: &PageArgs,
) -> anyhow::Result<Outcome> {
    let mut query = page_query(page);
    query.extend(filter_query(filter));
    let after = created_after.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
    query.extend(after.map(|after| ("created_after", after)));
    let answer = session.client.runs(&query).await?;
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    let mut rows = Rows::new(&["RUN", "AGENT", "STATUS", "CONTACT", "CREATED", "MESSAGE"]);
    for run in &answer.value.items {
        rows.push([
            run.id.to_string(),
            run.agent.to_string(),
            run.status.to_string(),
            run.contact
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            instant(run.created_at),
            run.message.clone(),
        ]);
    }
    if rows.is_empty() {
        output::note("no such runs");
    } else {
        output::line(&rows.render())?;
    }
    note_more(answer.value.next_cursor.as_deref());
    Ok(Outcome::Ok)
}

fn filter_query(filter: &FilterArgs) -> Vec<(&'static str, String)> {
    let label = filter
        .label
        .as_ref()
        .map(|(name, value)| format!("{name}={value}"));
    let filters = [
        ("agent", filter.agent.clone()),
        ("status", filter.status.map(|status| status.to_string())),
        ("label", label),
    ];
    filters
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests;
