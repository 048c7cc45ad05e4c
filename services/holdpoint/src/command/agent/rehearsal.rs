//! `agent rehearse`: an agent with the contacts of a file, on a clock of its own. Nothing is sent.

mod report;

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use chrono::{DateTime, Utc};
use holdpoint_contracts::rehearsal::{
    CONTACTS_MAX, Rehearsal, RehearsalContact, RehearsalReport, RehearseAgent,
};
use holdpoint_contracts::size::json_bytes;

use crate::cli::runs::RehearseArgs;
use crate::client::{Body, ClientError};
use crate::command::Session;
use crate::command::run::contacts_file;
use crate::exit::{ExitKind, Usage};
use crate::output;
use crate::parsers::read_text;

pub(super) async fn rehearse(session: &Session, args: RehearseArgs) -> anyhow::Result<ExitKind> {
    let contacts = read_contacts(&args.contacts)?;
    let script = args.script.as_deref().map(read_text).transpose()?;
    let mut shared = SharedInput {
        contacts: &contacts,
        script,
        start_at: args.start,
    };
    let report = rehearse_all(session, &read_text(&args.file)?, &shared).await?;
    let Some(other) = &args.compare else {
        output::line(&if session.json {
            serde_json::to_string(&report)?
        } else {
            report::text(&report)
        })?;
        return Ok(ExitKind::Ok);
    };
    // Runs of both versions start at the same instant.
    shared.start_at = Some(report.rehearsal.started_at);
    let other = rehearse_all(session, &read_text(other)?, &shared).await?;
    let changes = report::changes(&other.rehearsal, &report.rehearsal);
    output::line(&if session.json {
        serde_json::to_string(&changes)?
    } else {
        report::changes_text(&changes)
    })?;
    Ok(ExitKind::Ok)
}

/// Most contacts of one command.
const CONTACTS_OF_COMMAND_MAX: usize = 1_000;

/// Most bytes of the contacts of one request. A body has at most 1 MiB, with the agent and the script.
const REQUEST_BYTES_MAX: usize = 512 * 1024;

/// How often a request is sent while other rehearsals run, and the time between.
const TRIES_MAX: u32 = 60;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What both versions of a comparison share.
struct SharedInput<'c> {
    contacts: &'c [RehearsalContact],
    script: Option<String>,
    /// None: the service chooses.
    start_at: Option<DateTime<Utc>>,
}

/// Rehearses all contacts, with as many requests as that takes.
async fn rehearse_all(
    session: &Session,
    text: &str,
    shared: &SharedInput<'_>,
) -> anyhow::Result<RehearsalReport> {
    let mut left = shared.contacts;
    let mut all: Option<Rehearsal> = None;
    while !left.is_empty() {
        let page = next_page(left);
        let request = RehearseAgent {
            text: Some(text.to_owned()),
            agent: None,
            contacts: page.to_vec(),
            script: shared.script.clone(),
            start_at: all.as_ref().map(|all| all.started_at).or(shared.start_at),
        };
        let rehearsal = send(session, &request).await?;
        if let (Some(first), []) = (left.first(), &rehearsal.runs[..]) {
            bail!("the rehearsal of the contact {} takes too long", first.id);
        }
        left = left.get(rehearsal.runs.len()..).unwrap_or_default();
        match &mut all {
            Some(all) => all.runs.extend(rehearsal.runs),
            None => all = Some(rehearsal),
        }
    }
    let mut all = all.ok_or_else(|| Usage("the file has no contacts".to_owned()))?;
    all.contacts_left = 0;
    Ok(all.into())
}

/// The first contacts that fit into one request; at least one.
fn next_page(left: &[RehearsalContact]) -> &[RehearsalContact] {
    let mut bytes = 0_usize;
    let fitting = left.iter().take(CONTACTS_MAX).take_while(|contact| {
        bytes = bytes.saturating_add(json_bytes(contact));
        bytes <= REQUEST_BYTES_MAX
    });
    left.get(..fitting.count().max(1)).unwrap_or(left)
}

/// A service rehearses one agent at a time, so another rehearsal may have to end first.
async fn send(session: &Session, request: &RehearseAgent) -> anyhow::Result<Rehearsal> {
    let mut tries = 1;
    loop {
        let reply: Result<Body<RehearsalReport>, _> =
            session.client.post("agents/rehearse", request).await;
        match reply {
            Ok(reply) => return Ok(reply.value.rehearsal),
            Err(ClientError::Refused { problem, .. })
                if matches!(problem.status, 429 | 503) && tries < TRIES_MAX =>
            {
                tries += 1;
                tokio::time::sleep(RETRY_AFTER).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_contacts(file: &Path) -> anyhow::Result<Vec<RehearsalContact>> {
    let rows = contacts_file::read(file)?;
    let count = rows.len();
    if count > CONTACTS_OF_COMMAND_MAX {
        bail!(Usage(format!(
            "{}: {count} contacts; a rehearsal takes at most {CONTACTS_OF_COMMAND_MAX}",
            file.display()
        )));
    }
    let contacts = rows.into_iter().map(|row| {
        let mut fields = row.contact.as_object().cloned().unwrap_or_default();
        fields.shift_remove("id");
        RehearsalContact { id: row.id, fields }
    });
    Ok(contacts.collect())
}
