//! `agent rehearse`: an agent with the contacts of a file, on a clock of its own. Nothing is sent.

mod report;

use std::path::Path;

use anyhow::bail;
use chrono::{DateTime, Utc};
use holdpoint_contracts::rehearsal::{
    CONTACTS_MAX, CONTACTS_OF_ALL_MAX, Rehearsal, RehearsalContact, RehearsalReport, RehearseAgent,
};

use crate::cli::runs::RehearseArgs;
use crate::client::Body;
use crate::command::Session;
use crate::command::run::contacts_file;
use crate::exit::{ExitKind, Usage};
use crate::output;
use crate::parsers::read_text;

pub(super) async fn rehearse(session: &Session, args: RehearseArgs) -> anyhow::Result<ExitKind> {
    let contacts = read_contacts(&args.contacts)?;
    let script = args.script.as_deref().map(read_text).transpose()?;
    let mut cast = Cast {
        contacts: &contacts,
        script,
        start_at: args.start,
    };
    let report = rehearse_all(session, &read_text(&args.file)?, &cast).await?;
    let Some(other) = &args.compare else {
        return print(session, &report, &report::text(&report));
    };
    // Runs of both versions start at the same instant.
    cast.start_at = Some(report.rehearsal.started_at);
    let other = rehearse_all(session, &read_text(other)?, &cast).await?;
    let changes = report::changes(&other.rehearsal, &report.rehearsal);
    if session.json {
        output::line(&serde_json::to_string(&changes)?)?;
    } else {
        output::line(&report::changes_text(&changes))?;
    }
    Ok(ExitKind::Ok)
}

/// What both versions of a comparison share.
struct Cast<'c> {
    contacts: &'c [RehearsalContact],
    script: Option<String>,
    /// None: the service chooses.
    start_at: Option<DateTime<Utc>>,
}

/// Rehearses all contacts, with as many requests as that takes.
async fn rehearse_all(
    session: &Session,
    text: &str,
    cast: &Cast<'_>,
) -> anyhow::Result<RehearsalReport> {
    let mut left = cast.contacts;
    let mut all: Option<Rehearsal> = None;
    while !left.is_empty() {
        let page = left.get(..CONTACTS_MAX).unwrap_or(left);
        let request = RehearseAgent {
            text: Some(text.to_owned()),
            agent: None,
            contacts: page.to_vec(),
            script: cast.script.clone(),
            start_at: all.as_ref().map(|all| all.started_at).or(cast.start_at),
        };
        let reply: Body<RehearsalReport> = session.client.post("agents/rehearse", &request).await?;
        let rehearsal = reply.value.rehearsal;
        let Some((first, _)) = left.split_first().filter(|_| rehearsal.runs.is_empty()) else {
            left = left.get(rehearsal.runs.len()..).unwrap_or_default();
            match &mut all {
                Some(all) => all.runs.extend(rehearsal.runs),
                None => all = Some(rehearsal),
            }
            continue;
        };
        bail!("the rehearsal of the contact {} takes too long", first.id);
    }
    let mut all = all.ok_or_else(|| Usage("the file has no contacts".to_owned()))?;
    all.contacts_left = 0;
    Ok(all.into())
}

fn read_contacts(file: &Path) -> anyhow::Result<Vec<RehearsalContact>> {
    let rows = contacts_file::read(file)?;
    let count = rows.len();
    if count > CONTACTS_OF_ALL_MAX {
        bail!(Usage(format!(
            "{}: {count} contacts; a rehearsal takes at most {CONTACTS_OF_ALL_MAX}",
            file.display()
        )));
    }
    let contacts = rows.into_iter().map(|row| {
        let mut fields = row.contact.as_object().cloned().unwrap_or_default();
        fields.remove("id");
        RehearsalContact { id: row.id, fields }
    });
    Ok(contacts.collect())
}

fn print(session: &Session, report: &RehearsalReport, text: &str) -> anyhow::Result<ExitKind> {
    if session.json {
        output::line(&serde_json::to_string(report)?)?;
    } else {
        output::line(text)?;
    }
    Ok(ExitKind::Ok)
}
