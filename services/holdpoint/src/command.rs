//! Commands that are clients of the API: they send requests and show the responses as tables or JSON.

mod agent;
mod clock;
mod contact;
mod dead_letters;
mod follow;
mod library;
mod nodes;
mod notifications;
mod operations;
mod policies;
mod preferences;
mod rehearsals;
pub(crate) mod request;
pub(crate) mod run;
mod schedules;
mod short_id;
mod standing_approvals;
mod users;
mod webhooks;
mod workspace;

use std::ops::ControlFlow;
use std::process::ExitCode;

use chrono::{DateTime, Local, Offset as _, TimeZone, Utc};
use clap::CommandFactory;
use clap_complete::Shell;
use holdpoint_contracts::run::Page;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cli::arguments::PageArgs;
use crate::cli::{Cli, GlobalArgs};
use crate::client::{Body, Client, ClientError, Query, item_path};
use crate::connection::Connection;
use crate::exit::ExitKind;
use crate::output;
use crate::table::Rows;

/// Text for an empty list, by its path.
fn empty_text(path: &str) -> &'static str {
    match path {
        "agents" => "No agents. Store one with `holdpoint agent apply FILE`.",
        "contacts" => "No contacts. Store one with `holdpoint contact put JSON`.",
        "templates" => "No templates. Store one with `holdpoint template put NAME FILE`.",
        "calendars" => "No calendars. Store one with `holdpoint calendar put NAME`.",
        _ => "No results.",
    }
}

/// Client and output format of one command.
pub(crate) struct Session {
    client: Client,
    json: bool,
}

pub(crate) trait ClientCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind>;
}

/// Carries out a command until it is done or until ctrl-c.
pub(crate) async fn run_client_command(
    global: &GlobalArgs,
    command: impl ClientCommand,
) -> anyhow::Result<ExitCode> {
    let session = Session {
        client: Client::new(Connection::find(global)?)?,
        json: global.json,
    };
    tokio::select! {
        kind = Box::pin(command.perform(&session)) => Ok(kind?.into()),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            output::live_end();
            Ok(ExitKind::Interrupted.into())
        }
    }
}

pub(crate) fn print_completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdpoint", &mut script);
    Ok(output::raw(&script)?)
}

impl Session {
    /// Whether this process is the tool of a step.
    fn is_step(&self) -> bool {
        self.client.is_step() && std::env::var_os("HOLDPOINT_RUN").is_some()
    }

    /// Prints a body verbatim for programs, or as text.
    fn show<T>(&self, body: &Body<T>, text: impl FnOnce(&T) -> String) -> anyhow::Result<ExitKind> {
        if self.json {
            output::line(&body.text)?;
        } else {
            output::line(&text(&body.value))?;
        }
        Ok(ExitKind::Ok)
    }

    /// Reads an object and prints it as indented JSON.
    async fn show_json(&self, path: &str) -> anyhow::Result<ExitKind> {
        let body: Body<Value> = self.client.get(path, &[]).await?;
        self.show(&body, |value| format!("{value:#}"))
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<ExitKind> {
        self.show(&self.client.post(path, body).await?, text)
    }

    /// Deletes an item of a list; `done` says so in the text.
    async fn delete(&self, list: &str, id: &str, done: &str) -> anyhow::Result<ExitKind> {
        let body: Body<Value> = self.client.delete(&item_path(list, id)?).await?;
        self.show(&body, |_| format!("{id}  {done}"))
    }

    /// Reads a list and prints one row per item.
    async fn list<T: DeserializeOwned, const N: usize>(
        &self,
        path: &str,
        query: &Query,
        heading: [&str; N],
        row: impl Fn(&T) -> [String; N],
    ) -> anyhow::Result<ExitKind> {
        let body: Body<Page<T>> = self.client.get(path, query).await?;
        if self.json {
            output::line(&body.text)?;
            return Ok(ExitKind::Ok);
        }
        print_rows(&body.value, heading, row, empty_text(path))
    }

    /// Reads a filtered list page by page until `visit` breaks.
    async fn for_each_page<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &Query,
        mut visit: impl FnMut(Vec<T>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let mut query = filter.to_vec();
            query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.client.get(path, &query).await?.value;
            let flow = visit(page.items)?;
            match page.next_cursor {
                Some(next) if flow.is_continue() => cursor = Some(next),
                Some(_) | None => return Ok(()),
            }
        }
    }
}

fn print_rows<T, const N: usize>(
    page: &Page<T>,
    heading: [&str; N],
    row: impl Fn(&T) -> [String; N],
    empty: &str,
) -> anyhow::Result<ExitKind> {
    let mut rows = Rows::new(&heading);
    for item in &page.items {
        rows.push(row(item));
    }
    if rows.is_empty() {
        output::note(empty);
    } else {
        output::line(&rows.render())?;
    }
    if let Some(cursor) = &page.next_cursor {
        output::note(&format!("There are more results: --cursor {cursor}"));
    }
    Ok(ExitKind::Ok)
}

fn page_query(page: &PageArgs) -> Vec<(&'static str, String)> {
    let mut query = vec![("limit", page.limit.to_string())];
    query.extend(page.cursor.clone().map(|cursor| ("cursor", cursor)));
    query
}

/// Adds options to a request body. Null and an empty list are options that were not given.
fn add_options(body: &mut Value, options: Value) {
    if let (Some(body), Value::Object(options)) = (body.as_object_mut(), options) {
        let is_given = |value: &Value| !value.is_null() && *value != json!([]);
        body.extend(options.into_iter().filter(|(_, value)| is_given(value)));
    }
}

/// A request body of options.
fn body_of(options: Value) -> Value {
    let mut body = json!({});
    add_options(&mut body, options);
    body
}

/// An instant as tables show it, in the time zone of the terminal.
fn instant(at: DateTime<Utc>) -> String {
    instant_in(at, &Local)
}

/// An instant in a time zone. Outside of UTC, its offset follows.
fn instant_in<Z: TimeZone>(at: DateTime<Utc>, zone: &Z) -> String {
    let at = at.with_timezone(zone);
    let seconds = at.offset().fix().local_minus_utc();
    let time = at.naive_local().format("%Y-%m-%d %H:%M:%S");
    if seconds == 0 {
        time.to_string()
    } else {
        format!("{time} {}", at.offset().fix())
    }
}

/// Shown characters of the arguments of a call; `--json` has all of them.
const ARGS_CHARS_MAX: usize = 160;

/// The arguments of a call at a bounded length.
fn short_args(args: &Value) -> String {
    let mut args = args.to_string();
    if let Some((end, _)) = args.char_indices().nth(ARGS_CHARS_MAX) {
        args.truncate(end);
        args.push('…');
    }
    args
}

/// The text of a value as the API writes it. Lists are joined; an absent value is empty.
fn api_text<T: Serialize + ?Sized>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(Value::Array(items)) => items.iter().map(api_text).collect::<Vec<_>>().join(", "),
        Ok(Value::Null) | Err(_) => String::new(),
        Ok(other) => other.to_string(),
    }
}

/// The cells of a table row, each as [`api_text`].
macro_rules! cells {
    ($($value:expr),* $(,)?) => { [$($crate::command::api_text(&$value)),*] };
}
use cells;

/// A line for programs that says which of several objects failed, and why.
fn refusal_line(kind: &str, name: &str, error: &ClientError) -> String {
    json!({ kind: name, "problem": error.problem() }).to_string()
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    /// Words 7: an instant is shown in the time zone of the reader, with its offset.
    #[test]
    fn an_instant_has_the_time_zone_of_the_reader() {
        let at: DateTime<Utc> = "2026-07-01T22:30:00Z".parse().unwrap();
        let berlin = FixedOffset::east_opt(2 * 3_600).unwrap();
        assert_eq!(instant_in(at, &Utc), "2026-07-01 22:30:00");
        assert_eq!(instant_in(at, &berlin), "2026-07-02 00:30:00 +02:00");
    }
}
