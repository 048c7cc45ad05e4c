//! `rehearsal`: the rehearsals that the workspace keeps.

mod report;

use holdpoint_contracts::rehearsal::{
    Rehearsal, RehearsalChanges, RehearsalDetail, RehearsedRun, StoredRehearsal,
};
use holdpoint_contracts::run::Page;
use serde::Serialize;
use serde_json::Value;

use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::rehearsals::RehearsalCommand;
use crate::client::{Body, item_path};
use crate::exit::ExitKind;
use crate::output;

pub(super) const PATH: &str = "rehearsals";

/// How long one request waits for the end of a rehearsal.
const WAIT: &str = "20s";

impl ClientCommand for RehearsalCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List { agent, page } => {
                let mut query = page_query(&page);
                query.extend(agent.map(|agent| ("agent", agent)));
                let heading = ["REHEARSAL", "AGENT", "STATUS", "CONTACTS", "BY", "CREATED"];
                session.list(PATH, &query, heading, row).await
            }
            Self::Show(one) => show(session, &one.id).await,
            Self::Compare { rehearsal, from } => compare(session, &rehearsal.id, &from).await,
            Self::Cancel(one) => {
                let path = format!("{}/cancel", item_path(PATH, &one.id)?);
                let text = |it: &StoredRehearsal| format!("{}  {}", it.id, it.status);
                session.post(&path, &serde_json::json!({}), text).await
            }
            Self::Delete(one) => session.delete(PATH, &one.id, "deleted").await,
        }
    }
}

fn row(it: &StoredRehearsal) -> [String; 6] {
    let contacts = format!("{} of {}", it.rehearsed, it.contacts);
    cells![
        it.id,
        it.agent,
        it.status,
        contacts,
        it.created_by,
        instant(it.created_at)
    ]
}

/// A rehearsal with its runs, as `--json` prints it.
#[derive(Debug, Serialize)]
struct ShownRehearsal {
    #[serde(flatten)]
    detail: RehearsalDetail,
    runs: Vec<RehearsedRun>,
}

/// Shows a rehearsal once it has ended. One that failed has the runs before its end.
pub(super) async fn show(session: &Session, id: &str) -> anyhow::Result<ExitKind> {
    let detail = await_end(session, id).await?;
    let runs = all_runs(session, id).await?;
    if session.json {
        let kind = exit_kind(&detail.rehearsal);
        output::line(&serde_json::to_string(&ShownRehearsal { detail, runs })?)?;
        return Ok(kind);
    }
    let stored = &detail.rehearsal;
    let contacts = usize::try_from(stored.contacts).unwrap_or(usize::MAX);
    let rehearsal = Rehearsal {
        agent: stored.agent.clone(),
        version: stored.version,
        started_at: stored.start_at,
        contacts_left: contacts.saturating_sub(runs.len()),
        runs,
        steps: detail.steps.clone(),
    };
    output::line(&report::text(&detail, &rehearsal))?;
    Ok(exit_kind(stored))
}

fn exit_kind(rehearsal: &StoredRehearsal) -> ExitKind {
    if rehearsal.is_broken() {
        return ExitKind::Failed;
    }
    ExitKind::Ok
}

/// Waits for the end of a rehearsal.
pub(super) async fn await_end(session: &Session, id: &str) -> anyhow::Result<RehearsalDetail> {
    let path = item_path(PATH, id)?;
    loop {
        let query = [("wait", WAIT.to_owned())];
        let detail: Body<RehearsalDetail> = session.client.get(&path, &query).await?;
        if detail.value.rehearsal.has_ended() {
            return Ok(detail.value);
        }
    }
}

async fn all_runs(session: &Session, id: &str) -> anyhow::Result<Vec<RehearsedRun>> {
    let path = format!("{}/runs", item_path(PATH, id)?);
    let (mut all, mut query) = (Vec::new(), Vec::new());
    loop {
        let page: Body<Page<RehearsedRun>> = session.client.get(&path, &query).await?;
        all.extend(page.value.items);
        let Some(cursor) = page.value.next_cursor else {
            return Ok(all);
        };
        query = vec![("cursor", cursor)];
    }
}

pub(super) async fn compare(session: &Session, id: &str, from: &str) -> anyhow::Result<ExitKind> {
    let path = format!("{}/changes", item_path(PATH, id)?);
    let query = [("from", from.to_owned())];
    let changes: Body<Value> = session.client.get(&path, &query).await?;
    let text = serde_json::from_value::<RehearsalChanges>(changes.value.clone());
    let text = text.map(|changes| report::changes_text(&changes))?;
    session.show(&changes, |_| text)
}
