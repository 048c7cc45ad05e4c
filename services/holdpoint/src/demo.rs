//! `demo`: a whole system in a temporary folder, driven through a story on real input.
//!
//! It reads contacts from a CSV file and agents from `examples/`, sends real mail into a maildir,
//! waits five days on the virtual clock, is paused and resumed on the way, and follows up with who
//! did not reply; then it asks people, who do what people do. It ends well only if all of that happened and the mails on
//! disk are exactly the expected ones.

mod mails;
mod narrator;
mod outreach_story;
mod requests_story;
mod simulated_people;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::cli::DemoArgs;
use crate::client::Client;
use crate::command::run::contacts_file;
use crate::connection::Connection;
use crate::exit::{Outcome, Usage};
use crate::file_privacy;
use crate::output;
use crate::up::{OwnerToken, Settings, System};

/// Where the example files are, seen from the project's folder.
const CONTACTS: &str = "examples/contacts.csv";
const AGENT: &str = "examples/outreach.yaml";
const CONCIERGE: &str = "examples/concierge.yaml";

/// Where the system keeps its mails, in its data folder.
const MAILS: &str = "mails";

/// The same files as they were built in, for a binary that was taken elsewhere.
const CONTACTS_BUILT_IN: &str = include_str!("../../../examples/contacts.csv");
const AGENT_BUILT_IN: &str = include_str!("../../../examples/outreach.yaml");
const CONCIERGE_BUILT_IN: &str = include_str!("../../../examples/concierge.yaml");

/// Plays the story; the folder goes with the demo unless it was named.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    file_privacy::raise_file_limit();
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let data = match &args.data {
        Some(own) => new_or_empty(own)?,
        None => temporary.path().join("data"),
    };
    let contacts = contacts_file::read(&input(args.contacts.as_deref(), &temporary)?)?;
    let agent = std::fs::read_to_string(AGENT).unwrap_or_else(|_| AGENT_BUILT_IN.to_owned());
    output::line("Starting scheduler, executor, gateway, a worker and JetStream …")?;
    let settings = Settings {
        data: data.clone(),
        http: ([127, 0, 0, 1], 0).into(),
        nats_url: None,
        tables: None,
        test_clock: true,
        token: OwnerToken::New,
    };
    let system = Box::pin(System::start(settings)).await?;
    let told = tokio::select! {
        told = Box::pin(tell(&system, &args, &agent, &contacts, &data)) => told,
        _ = tokio::signal::ctrl_c() => {
            output::note("interrupted");
            Ok(Outcome::Interrupted)
        }
    };
    system.stop().await;
    let outcome = told?;
    if outcome == Outcome::Ok {
        output::line(&farewell(args.data.as_deref())?)?;
    }
    Ok(outcome.into())
}

/// A folder of one's own. The demo moves a clock and writes mails: nothing else may live there.
fn new_or_empty(dir: &Path) -> anyhow::Result<PathBuf> {
    let is_empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("cannot use {}", dir.display())),
    };
    if !is_empty {
        bail!(Usage(format!(
            "{} is not empty: a system of yours may be in it, and the demo begins with nothing; name a new folder after --data",
            dir.display()
        )));
    }
    Ok(dir.to_owned())
}

/// Where the mails are; or how to keep them.
fn farewell(kept: Option<&Path>) -> anyhow::Result<String> {
    let Some(data) = kept else {
        let how = "The folder of this demo is gone with it; `demo --data DIR` keeps it, with the mails to open.";
        return Ok(how.to_owned());
    };
    let mail = mails::newest(&data.join(MAILS))?.context("no mail is there to be opened")?;
    Ok(format!(
        "Kept in {}. A mail to open: {}",
        data.display(),
        mail.display()
    ))
}

/// The file of contacts: one's own, the project's, or the one that was built in.
fn input(own: Option<&Path>, temporary: &tempfile::TempDir) -> anyhow::Result<PathBuf> {
    if let Some(own) = own {
        return Ok(own.to_owned());
    }
    if Path::new(CONTACTS).exists() {
        return Ok(PathBuf::from(CONTACTS));
    }
    let path = temporary.path().join("contacts.csv");
    std::fs::write(&path, CONTACTS_BUILT_IN)?;
    Ok(path)
}

async fn tell(
    system: &System,
    args: &DemoArgs,
    agent: &str,
    contacts: &[contacts_file::Row],
    data: &Path,
) -> anyhow::Result<Outcome> {
    let connection = Connection {
        url: system.url.clone(),
        token: Some(system.token.clone()),
        workspace: system.workspace.to_string(),
    };
    let stage = narrator::Stage {
        client: Client::new(connection.clone())?,
        fast: args.fast,
    };
    let mut story = outreach_story::Story::new(&stage, contacts)?;
    story.tell(agent).await?;
    let people = requests_story::People::join(&stage, &connection).await?;
    let concierge =
        std::fs::read_to_string(CONCIERGE).unwrap_or_else(|_| CONCIERGE_BUILT_IN.to_owned());
    people.tell(&concierge).await?;
    simulated_people::Habits::join(&stage, &connection)
        .await?
        .tell()
        .await?;
    let mut expected = story.expected_mails();
    expected.extend(requests_story::People::expected_mails());
    let faults = mails::check(&data.join(MAILS), &expected)?;
    if faults.is_empty() {
        let count = expected.len();
        output::line(&format!(
            "\nAll {count} mails to contacts on disk are exactly the expected ones."
        ))?;
        return Ok(Outcome::Ok);
    }
    for fault in faults {
        output::note(&format!("error: {fault}"));
    }
    Ok(Outcome::Failed)
}
