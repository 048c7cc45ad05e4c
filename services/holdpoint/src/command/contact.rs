//! `contact`: the people and companies that runs are about.

use chrono::{DateTime, Utc};
use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::erasure::ErasureView;
use holdpoint_contracts::instant;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ClientCommand, Session, cells, instant as shown_instant, page_query};
use crate::cli::runs::{ContactCommand, UnmatchedCommand};
use crate::client::{Method, item_path};
use crate::exit::ExitKind;
use crate::parsers;
use crate::table::{Rows, one_line};

impl ClientCommand for ContactCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let client = &session.client;
        let path = |id: &str| item_path("contacts", id);
        let body = match self {
            Self::List(page) => {
                let query = page_query(&page);
                let heading = ["CONTACT", "FIELDS"];
                return session.list("contacts", &query, heading, row).await;
            }
            Self::Put { contact } => {
                let id = parsers::contact_id(&contact)?;
                let path = path(id.as_str())?;
                client.send_json(Method::PUT, &path, &contact).await?
            }
            Self::Erase { contact, yes: _ } => {
                let path = format!("{}/erase", path(&contact.id)?);
                let erasure = client.send_json(Method::POST, &path, &json!({})).await?;
                return session.show(&erasure, erasure_table);
            }
            Self::Erasure(contact) => {
                let path = format!("{}/erasure", path(&contact.id)?);
                let erasure = client.get(&path, &[]).await?;
                return session.show(&erasure, erasure_table);
            }
            Self::Unmatched(command) => return command.perform(session).await,
            Self::Show(contact) => client.get(&path(&contact.id)?, &[]).await?,
            Self::Set { contact, fields } => {
                let patch: Map<String, Value> = fields.into_iter().collect();
                let path = path(&contact.id)?;
                client.send_json(Method::PATCH, &path, &patch).await?
            }
        };
        session.show(&body, fields_table)
    }
}

/// Characters of a reply in the list.
const TEXT_CHARS_MAX: usize = 120;

/// The list of replies without a contact.
const UNMATCHED: &str = "hooks/inbound/unmatched";

#[derive(Deserialize)]
struct UnmatchedReply {
    id: String,
    from: Option<String>,
    text: String,
    #[serde(with = "instant")]
    received_at: DateTime<Utc>,
}

impl ClientCommand for UnmatchedCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List(page) => {
                let heading = ["ID", "RECEIVED", "FROM", "TEXT"];
                let query = page_query(&page);
                session
                    .list(UNMATCHED, &query, heading, unmatched_row)
                    .await
            }
            Self::Assign { reply, contact } => {
                let path = format!("{}/assign", item_path(UNMATCHED, &reply.id)?);
                let text = |_: &Value| format!("{}  recorded for {contact}", reply.id);
                session
                    .post(&path, &json!({ "contact": contact }), text)
                    .await
            }
            Self::Remove(reply) => session.delete(UNMATCHED, &reply.id, "removed").await,
        }
    }
}

/// The beginning of a text; `--json` has all of it.
fn unmatched_row(reply: &UnmatchedReply) -> [String; 4] {
    let text: String = reply.text.chars().take(TEXT_CHARS_MAX).collect();
    cells![reply.id, shown_instant(reply.received_at), reply.from, text]
}

fn row(contact: &ContactView) -> [String; 2] {
    let fields = contact.fields.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| format!("{name}={}", field_text(value)))
        .collect();
    [contact.id.to_string(), fields.join("  ")]
}

fn fields_table(contact: &ContactView) -> String {
    let mut rows = Rows::new(&["FIELD", "VALUE"]);
    rows.push(["id", contact.id.as_str()]);
    for (name, value) in &contact.fields {
        rows.push([name, &field_text(value)]);
    }
    rows.render()
}

fn erasure_table(erasure: &ErasureView) -> String {
    let mut rows = Rows::new(&["FIELD", "VALUE"]);
    rows.push(["contact", erasure.contact.as_str()]);
    rows.push(["state", erasure.state.into()]);
    rows.push(["requested by", &erasure.requested_by]);
    rows.push(["requested at", &instant::write(erasure.requested_at)]);
    let counted = |left: Option<u64>| left.map(|left| left.to_string());
    if let Some(runs) = counted(erasure.runs_left) {
        rows.push(["runs left", &runs]);
    }
    if let Some(requests) = counted(erasure.requests_left) {
        rows.push(["requests left", &requests]);
    }
    rows.render()
}

/// A text without quotes, anything else as JSON.
fn field_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), one_line)
}
