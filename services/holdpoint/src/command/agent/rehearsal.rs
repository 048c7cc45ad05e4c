//! `agent rehearse`: an agent with the contacts of a file, on a clock of its own. Nothing is sent.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use holdpoint_contracts::rehearsal::{
    RehearsalContact, RehearsalStatus, RehearseAgent, STORED_CONTACTS_MAX, StoredRehearsal,
};

use crate::cli::runs::RehearseArgs;
use crate::client::{Body, ClientError};
use crate::command::Session;
use crate::command::rehearsals::{self, await_end};
use crate::command::run::contacts_file;
use crate::exit::{ExitKind, Usage};
use crate::parsers::read_text;

pub(super) async fn rehearse(session: &Session, args: RehearseArgs) -> anyhow::Result<ExitKind> {
    let script = args.script.as_deref().map(read_text).transpose()?;
    let mut request = RehearseAgent {
        text: Some(read_text(&args.file)?),
        agent: None,
        version: None,
        contacts: read_contacts(&args.contacts)?,
        script,
        start_at: args.start,
        seconds: None,
        policies: Vec::new(),
        standing_approvals: Vec::new(),
    };
    let Some(other) = &args.compare else {
        let id = start(session, &request).await?.id;
        return rehearsals::show(session, &id).await;
    };
    let new = start(session, &request).await?;
    let new = completed(session, &new.id).await?;
    request.text = Some(read_text(other)?);
    // Runs of both versions start at the same instant.
    request.start_at = Some(new.start_at);
    let old = start(session, &request).await?;
    completed(session, &old.id).await?;
    rehearsals::compare(session, &new.id, &old.id).await
}

/// # Errors
/// The rehearsal has ended before its last contact, so it cannot be compared.
async fn completed(session: &Session, id: &str) -> anyhow::Result<StoredRehearsal> {
    let rehearsal = await_end(session, id).await?.rehearsal;
    if rehearsal.status != RehearsalStatus::Completed {
        let detail = rehearsal.detail.as_deref().unwrap_or_default();
        bail!("the rehearsal {id} is {}: {detail}", rehearsal.status);
    }
    Ok(rehearsal)
}

/// How often a request is sent while other rehearsals run, and the time between.
const TRIES_MAX: u32 = 90;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A workspace rehearses one agent at a time, so another rehearsal may have to end first.
async fn start(session: &Session, request: &RehearseAgent) -> anyhow::Result<StoredRehearsal> {
    let mut tries = 1;
    loop {
        let reply: Result<Body<StoredRehearsal>, _> =
            session.client.post(rehearsals::PATH, request).await;
        match reply {
            Ok(reply) => return Ok(reply.value),
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
    if count > STORED_CONTACTS_MAX {
        bail!(Usage(format!(
            "{}: {count} contacts; a rehearsal takes at most {STORED_CONTACTS_MAX}",
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
