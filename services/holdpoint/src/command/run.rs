//! `run`: starts, lists, shows, watches, pauses, suspends, resumes, signals, patches, retries and cancels runs, and prints their
//! snapshots.

mod action;
mod bulk;
mod change_runs;
pub(crate) mod contacts_file;
mod list_runs;
mod show;
mod start_from_csv;
pub(crate) mod watch;

use std::collections::BTreeMap;

use anyhow::bail;
use chrono::{DateTime, SecondsFormat, Utc};
use holdpoint_contracts::run::{RunStatus, RunView};
use serde_json::{Value, json};

use self::action::Action;
use self::list_runs::{contacts_with_run, filter_query};
use super::short_id::Listed;
use super::{ClientCommand, Session, body_of, cells, instant, page_query};
use crate::cli::runs::{RunCommand, StartArgs};
use crate::client::{Method, item_path};
use crate::exit::{ExitKind, Usage};
use crate::output;
use crate::parsers::contact_id;

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
                list(session, query, created_after).await
            }
            Self::Show(run) => show_run(session, &run.id).await,
            Self::Watch(run) => {
                let run = session.whole_id(Listed::Runs, &run.id).await?;
                watch::watch(session, &run).await
            }
            Self::Pause(runs) => {
                let action = Action::new("pause", json!({}), "paused", "was already paused");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Resume {
                runs,
                resume,
                step,
                result,
            } => {
                let step = step_on_resume(step, result)?;
                if step.is_some() && runs.runs.is_empty() {
                    bail!(Usage("`--step` needs the ids of runs".to_owned()));
                }
                let body = json!({ "mode": resume.mode, "step": step });
                let action = Action::new("resume", body, "resumed", "was not paused");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Suspend { runs, reason } => {
                let body = json!({ "reason": reason });
                let action = Action::new("suspend", body, "suspended", "was already suspended");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Snapshot(run) => snapshot(session, &run.id).await,
            Self::Retry { runs, from } => {
                let body = json!({ "from_step": from });
                let action = Action::new("retry", body, "retried", "has not failed");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Migrate { runs, to } => {
                let body = json!({ "version": to });
                let action = Action::new("migrate", body, "migrated", "has this version already");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Context { run, patch } => patch_context(session, &run.id, &patch).await,
            Self::Signal {
                runs,
                name,
                payload,
                key,
            } => {
                let body = json!({ "name": name, "data": payload, "key": key });
                let action = Action::new("signal", body, "got the signal", "has this key already");
                change_runs::change_runs(session, &runs, &action).await
            }
            Self::Cancel { runs, reason } => {
                let body = json!({ "reason": reason });
                let action = Action::new("cancel", body, "cancelled", "was already cancelled");
                change_runs::change_runs(session, &runs, &action).await
            }
        }
    }
}

async fn show_run(session: &Session, id: &str) -> anyhow::Result<ExitKind> {
    let run = session.whole_id(Listed::Runs, id).await?;
    show::show(session, &run).await
}

async fn patch_context(session: &Session, run: &str, patch: &Value) -> anyhow::Result<ExitKind> {
    let run = session.whole_id(Listed::Runs, run).await?;
    let path = format!("{}/context", item_path("runs", &run)?);
    let changed = session
        .client
        .send_json(Method::PATCH, &path, patch)
        .await?;
    let action = Action::new(
        "context",
        Value::Null,
        "changed",
        "has this context already",
    );
    change_runs::print_changed(session, &action, &changed)
}

async fn list(
    session: &Session,
    mut query: Vec<(&'static str, String)>,
    created_after: Option<DateTime<Utc>>,
) -> anyhow::Result<ExitKind> {
    let after = created_after.map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true));
    query.extend(after.map(|after| ("created_after", after)));
    let heading = [
        "RUN", "AGENT", "STATUS", "CONTACT", "CREATED", "UNTIL", "MESSAGE",
    ];
    session.list("runs", &query, heading, row).await
}

async fn snapshot(session: &Session, run: &str) -> anyhow::Result<ExitKind> {
    let run = session.whole_id(Listed::Runs, run).await?;
    session.show_json(&format!("runs/{run}/snapshot")).await
}

/// `step` of a resume, as the API reads it.
fn step_on_resume(step: Option<String>, result: Option<Value>) -> anyhow::Result<Option<Value>> {
    match (step.as_deref(), result) {
        (Some("complete_with"), Some(result)) => {
            Ok(Some(json!({ "complete_with": { "result": result } })))
        }
        (_, Some(_)) => bail!(Usage(
            "`--result` belongs to `--step complete_with`".to_owned()
        )),
        (_, None) => Ok(step.map(Value::String)),
    }
}

async fn start(session: &Session, args: StartArgs) -> anyhow::Result<ExitKind> {
    let agent = &args.agent;
    let labels: BTreeMap<_, _> = args.labels.into_iter().collect();
    let replace = args.replace.then_some(true);
    let body = json!({
        "input": args.input, "contact": args.contact, "labels": labels, "replace": replace,
    });
    let body = body_of(body);
    if let Some(file) = args.csv {
        let batch = start_from_csv::Batch {
            agent: args.agent,
            body,
            file,
            once: args.once,
            watch: args.watch,
        };
        return start_from_csv::start(session, &batch).await;
    }
    if args.once
        && let Some(contact) = &args.contact
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
    let started = session.client.start_run(agent, &body).await?;
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
    // A run may fail at its first step, before the reply.
    let has_failed = run.status == RunStatus::Failed;
    Ok(if has_failed {
        ExitKind::Failed
    } else {
        ExitKind::Ok
    })
}

/// `UNTIL` is the first deadline of what the run waits for, with the number of its other waits.
fn row(it: &RunView) -> [String; 7] {
    let created_at = instant(it.created_at);
    let until = it.next_end(DateTime::UNIX_EPOCH).map(|end| {
        let more = (end.more > 0).then(|| format!(" and {} more", end.more));
        format!("{}{}", instant(end.at), more.unwrap_or_default())
    });
    cells![
        it.id, it.agent, it.status, it.contact, created_at, until, it.message
    ]
}

#[cfg(test)]
mod tests;
