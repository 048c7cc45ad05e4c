//! `run`: start, list, show, watch, pause, resume and cancel runs.

mod change_runs;
pub(crate) mod contacts_file;
mod show;
mod start_from_csv;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use chrono::SecondsFormat;
use holdpoint_contracts::run::RunView;
use holdpoint_ids::ContactId;
use serde_json::{Value, json};

use self::change_runs::Action;
use super::short_id::Listed;
use super::{ClientCommand, Session, instant, page_query, set_fields};
use crate::cli::{FilterArgs, RunCommand, StartArgs};
use crate::client::{Query, StartRun};
use crate::exit::ExitKind;
use crate::output;
use crate::parsers::contact_id;

/// Items of a page, where a command reads all pages.
const PAGE: usize = 500;

impl ClientCommand for RunCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Start(args) => start(session, args).await,
            Self::List {
                filter,
                created_after,
                page,
            } => {
                let mut query = page_query(&page);
                query.extend(filter_query(&filter));
                let after = created_after.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
                query.extend(after.map(|after| ("created_after", after)));
                let heading = ["RUN", "AGENT", "STATUS", "CONTACT", "CREATED", "MESSAGE"];
                session.list("runs", &query, heading, row).await
            }
            Self::Show(run) => {
                let run = session.whole_id(Listed::Runs, &run.id).await?;
                show::show(session, &run).await
            }
            Self::Watch(run) => {
                let run = session.whole_id(Listed::Runs, &run.id).await?;
                watch::watch(session, &run).await
            }
            Self::Pause(runs) => {
                let action = Action::new("pause", json!({}), "paused", "was already paused");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Resume { runs, resume } => {
                let body = optional("mode", resume.mode);
                let action = Action::new("resume", body, "resumed", "was not paused");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Cancel { runs, reason } => {
                let body = optional("reason", reason);
                let action = Action::new("cancel", body, "cancelled", "was already cancelled");
                change_runs::change_runs(session, &runs, &action).await
            }
        }
    }
}

/// An object with one field, or without fields if there is no value.
fn optional(name: &str, value: Option<String>) -> Value {
    let mut body = json!({});
    set_fields(&mut body, [(name, value.map(Value::String))]);
    body
}

async fn start(session: &Session, args: StartArgs) -> anyhow::Result<ExitKind> {
    let agent = &args.agent;
    let start = StartRun {
        input: args.input,
        contact: args.contact,
        labels: args.labels.into_iter().collect::<BTreeMap<_, _>>(),
    };
    if let Some(file) = args.csv {
        let batch = start_from_csv::Batch {
            agent: args.agent,
            start,
            file,
            once: args.once,
            watch: args.watch,
        };
        return start_from_csv::start(session, &batch).await;
    }
    if args.once
        && let Some(contact) = &start.contact
    {
        let id = match contact.as_str() {
            Some(id) => id.parse()?,
            None => contact_id(contact)?,
        };
        if contacts_with_run(session, agent).await?.contains(&id) {
            output::note(&format!(
                "{id} already has a run of {agent}, so none is started (--once)"
            ));
            return Ok(ExitKind::Ok);
        }
    }
    let started = session.client.start_run(agent, &start).await?;
    let run = &started.value;
    if args.watch && !session.json {
        output::note(&format!("{} of {}", run.id, run.agent));
    } else {
        session.show(&started, |run| {
            format!("{}  {}  {}", run.id, run.status, run.message)
        })?;
    }
    if args.watch {
        return watch::watch(session, &run.id.to_string()).await;
    }
    Ok(ExitKind::Ok)
}

fn row(run: &RunView) -> [String; 6] {
    let contact = run.contact.as_ref();
    [
        run.id.to_string(),
        run.agent.to_string(),
        run.status.to_string(),
        contact.map(ToString::to_string).unwrap_or_default(),
        instant(run.created_at),
        run.message.clone(),
    ]
}

fn filter_query(filter: &FilterArgs) -> Vec<(&'static str, String)> {
    let label = filter.label.as_ref();
    let filters = [
        ("agent", filter.agent.clone()),
        ("status", filter.status.map(|status| status.to_string())),
        (
            "label",
            label.map(|(name, value)| format!("{name}={value}")),
        ),
    ];
    let filters = filters.into_iter();
    filters
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Contacts that have a run of an agent, in any status.
async fn contacts_with_run(session: &Session, agent: &str) -> anyhow::Result<BTreeSet<ContactId>> {
    let mut contacts = BTreeSet::new();
    for_each_run(session, &[("agent", agent.to_owned())], |run| {
        contacts.extend(run.contact);
        Ok(())
    })
    .await?;
    Ok(contacts)
}

/// Reads all pages of a filtered list.
async fn for_each_run(
    session: &Session,
    filter: &Query,
    mut visit: impl FnMut(RunView) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut cursor: Option<String> = None;
    loop {
        let mut query = filter.to_vec();
        query.push(("limit", PAGE.to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = session.client.runs(&query).await?.value;
        page.items.into_iter().try_for_each(&mut visit)?;
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
