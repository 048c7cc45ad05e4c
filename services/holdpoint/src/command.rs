//! The commands that are clients of the API: ask, then show the answer as a table or verbatim.

mod agent;
mod clock;
mod contact;
mod dead_letters;
mod follow;
mod nodes;
mod notifications;
mod policies;
mod preferences;
mod request;
pub(crate) mod run;
mod short_id;
mod users;
mod workspace;

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::CommandFactory;
use clap_complete::Shell;
use holdpoint_contracts::run::Page;
use serde_json::{Value, json};

use crate::cli::{Cli, GlobalArgs, PageArgs};
use crate::client::{Body, Client, ClientError};
use crate::connection::Connection;
use crate::exit::Outcome;
use crate::output;
use crate::table::Rows;

pub(crate) use nodes::{Claims, Nodes};

/// What a command works with.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Whether programs read the answer.
    pub(crate) json: bool,
}

impl Session {
    /// Whether this is the tool of a step.
    fn is_step(&self) -> bool {
        self.client.is_step() && std::env::var_os("HOLDPOINT_RUN").is_some()
    }
}

/// One group of commands.
pub(crate) trait ClientCommand {
    /// Asks and prints.
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome>;
}

/// Carries out a command against the API, until it is done or ctrl-c.
pub(crate) async fn client(
    global: &GlobalArgs,
    command: impl ClientCommand,
) -> anyhow::Result<ExitCode> {
    let client = Client::new(Connection::find(global)?)?;
    let session = Session {
        client,
        json: global.json,
    };
    tokio::select! {
        outcome = Box::pin(command.perform(&session)) => Ok(outcome?.into()),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            output::live_end();
            Ok(Outcome::Interrupted.into())
        }
    }
}

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdpoint", &mut script);
    Ok(output::raw(&script)?)
}

/// Prints an answer verbatim for programs, or what a person reads.
fn show<T>(
    session: &Session,
    answer: &Body<T>,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<Outcome> {
    if session.json {
        output::line(&answer.text)?;
    } else {
        output::line(&text(&answer.value))?;
    }
    Ok(Outcome::Ok)
}

/// A list as a table: one row an item.
fn list<T>(
    session: &Session,
    answer: &Body<Page<T>>,
    heading: &[&str],
    row: impl Fn(&T) -> Vec<String>,
) -> anyhow::Result<Outcome> {
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    let mut rows = Rows::new(heading);
    for item in &answer.value.items {
        rows.push(row(item));
    }
    if rows.is_empty() {
        output::note("nothing there");
    } else {
        output::line(&rows.render())?;
    }
    note_more(answer.value.next_cursor.as_deref());
    Ok(Outcome::Ok)
}

/// `limit` and `cursor` as they stand in a query.
fn page_query(page: &PageArgs) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", page.limit.to_string())];
    query.extend(page.cursor.clone().map(|cursor| ("cursor", cursor)));
    query
}

/// Says how to see the rest of a list.
fn note_more(next_cursor: Option<&str>) {
    if let Some(cursor) = next_cursor {
        output::note(&format!("there are more: --cursor {cursor}"));
    }
}

/// An instant as tables show it, in UTC.
fn instant(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

/// One of several results for programs: the body verbatim, or a line that says what failed.
fn refusal_line(what: &str, name: &str, error: &ClientError) -> String {
    let problem = serde_json::to_value(error.problem()).unwrap_or(Value::Null);
    json!({ what: name, "problem": problem }).to_string()
}
