//! `demo`: a whole system in a temporary directory that plays four stories on real input.
//!
//! 1. Outreach: contacts of a CSV file get real mails, five days of virtual time pass, one run is paused
//!    and resumed, and contacts who did not reply get a follow-up.
//! 2. Requests: people answer a question, take over a run and approve after an escalation.
//! 3. Refund: a tool fails twice and is called again, and a risky step runs with the arguments that the owner approves.
//! 4. Two simulated users answer late, twice, at the same time, with an invalid answer, or not at all.
//!
//! The exit code is 0 only if every step had the expected result and exactly the expected mails are on
//! disk.

mod mails;
mod narrator;
mod outreach_story;
mod refund_story;
mod requests_story;
mod simulated_people;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use holdpoint_kernel::RETENTION_DEFAULT;

use crate::cli::DemoArgs;
use crate::client::Client;
use crate::command::run::contacts_file;
use crate::connection::Connection;
use crate::exit::{ExitKind, Usage};
use crate::file_privacy;
use crate::output;
use crate::up::{OwnerToken, Settings, System};

use narrator::Narrator;
use outreach_story::OutreachStory;
use refund_story::RefundStory;
use requests_story::RequestsStory;
use simulated_people::SimulatedPeople;

const MAILS: &str = "mails";

/// An input file in the directory of the project, and its built-in copy for a binary without the project.
struct Input {
    path: &'static str,
    built_in: &'static str,
}

const CONTACTS: Input = Input {
    path: "examples/contacts.csv",
    built_in: include_str!("../../../examples/contacts.csv"),
};
const OUTREACH: Input = Input {
    path: "examples/outreach.yaml",
    built_in: include_str!("../../../examples/outreach.yaml"),
};
const CONCIERGE: Input = Input {
    path: "examples/concierge.yaml",
    built_in: include_str!("../../../examples/concierge.yaml"),
};

const REFUND: Input = Input {
    path: "examples/refund.yaml",
    built_in: include_str!("../../../examples/refund.yaml"),
};

impl Input {
    fn read(&self) -> String {
        std::fs::read_to_string(self.path).unwrap_or_else(|_| self.built_in.to_owned())
    }
}

/// Plays the stories. The data directory is deleted at the end unless `--data` names one to be `kept`.
pub(crate) async fn run(args: DemoArgs, kept: Option<&Path>) -> anyhow::Result<ExitCode> {
    holdpoint_telemetry::start(holdpoint_telemetry::Default::Warn);
    file_privacy::raise_file_limit();
    let temporary = tempfile::tempdir().context("cannot create a temporary directory")?;
    let data = match kept {
        Some(data) => new_or_empty(data)?,
        None => temporary.path().join("data"),
    };
    let file = match &args.contacts {
        Some(file) => file.clone(),
        None => {
            let file = temporary.path().join("contacts.csv");
            std::fs::write(&file, CONTACTS.read())?;
            file
        }
    };
    let contacts = contacts_file::read(&file)?;
    output::line("Starting all services, a worker and a NATS server …")?;
    let settings = Settings {
        data: data.clone(),
        http: ([127, 0, 0, 1], 0).into(),
        nats_url: None,
        tables: None,
        test_clock: true,
        kept_for: RETENTION_DEFAULT,
        token: OwnerToken::New,
    };
    let system = Box::pin(System::start(settings)).await?;
    let connection = system.running.connection();
    let played = tokio::select! {
        played = Box::pin(play(&connection, args.fast, &contacts)) => played.map(Some),
        _ = tokio::signal::ctrl_c() => Ok(None),
    };
    system.stop().await;
    let Some(expected) = played? else {
        output::note("Interrupted.");
        return Ok(ExitKind::Interrupted.into());
    };
    let differences = mails::compare(&data.join(MAILS), &expected)?;
    for difference in &differences {
        output::note(&format!("error: {difference}"));
    }
    if !differences.is_empty() {
        return Ok(ExitKind::Failed.into());
    }
    let count = expected.len();
    output::line(&format!(
        "\nAll {count} expected mails to contacts are on disk, and no others."
    ))?;
    output::line(&farewell(kept)?)?;
    Ok(ExitKind::Ok.into())
}

/// Plays the four stories; returns the mails that contacts must have got.
async fn play(
    connection: &Connection,
    fast: bool,
    contacts: &[contacts_file::Row],
) -> anyhow::Result<Vec<mails::Expected>> {
    let narrator = Narrator {
        client: Client::new(connection.clone())?,
        fast,
    };
    let mut outreach = OutreachStory::new(&narrator, contacts)?;
    outreach.play(&OUTREACH.read()).await?;
    let requests = RequestsStory::new(&narrator, connection).await?;
    requests.play(&CONCIERGE.read()).await?;
    RefundStory::new(&narrator).play(&REFUND.read()).await?;
    let people = SimulatedPeople::new(&narrator, connection).await?;
    people.play().await?;
    let mut expected = outreach.expected_mails();
    expected.push(RequestsStory::expected_mail());
    Ok(expected)
}

/// The demo moves a clock and writes mails, so the directory must not contain a system of the user.
fn new_or_empty(dir: &Path) -> anyhow::Result<PathBuf> {
    let is_empty = match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| format!("cannot use {}", dir.display())),
    };
    if !is_empty {
        bail!(Usage(format!(
            "{} is not empty; the demo moves the clock of a system, so it needs a new or empty directory",
            dir.display()
        )));
    }
    Ok(dir.to_owned())
}

fn farewell(kept: Option<&Path>) -> anyhow::Result<String> {
    let Some(data) = kept else {
        let text =
            "The demo has deleted its data directory. `demo --data DIR` keeps it, with the mails.";
        return Ok(text.to_owned());
    };
    let mail = mails::newest(&data.join(MAILS))?.context("there is no mail to open")?;
    let (data, mail) = (data.display(), mail.display());
    Ok(format!("The data is in {data}. A mail to open: {mail}"))
}
