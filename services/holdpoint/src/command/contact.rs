//! `contact`: the people and companies that runs are about.

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::erasure::ErasureView;
use holdpoint_contracts::instant;
use serde_json::{Map, Value, json};

use super::{ClientCommand, Session, page_query};
use crate::cli::runs::ContactCommand;
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
