//! `contact`: whom runs are about.

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::run::Page;
use serde_json::{Map, Value};

use super::{ClientCommand, Session, note_more, page_query};
use crate::cli::{ContactCommand, PageArgs};
use crate::client::Body;
use crate::exit::Outcome;
use crate::output;
use crate::parsers;
use crate::table::{Rows, one_line};

impl ClientCommand for ContactCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        let client = &session.client;
        let answer = match self {
            Self::List(page) => return list(session, &page).await,
            Self::Put { contact } => {
                client
                    .put_contact(parsers::contact_id(&contact)?.as_str(), &contact)
                    .await?
            }
            Self::Show { id } => client.contact(&id).await?,
            Self::Set { id, fields } => {
                let patch: Map<String, Value> = fields.into_iter().collect();
                client.patch_contact(&id, &Value::Object(patch)).await?
            }
        };
        if session.json {
            output::line(&answer.text)?;
        } else {
            output::line(&fields_table(&answer.value))?;
        }
        Ok(Outcome::Ok)
    }
}

async fn list(session: &Session, page: &PageArgs) -> anyhow::Result<Outcome> {
    let answer: Body<Page<ContactView>> = session.client.get("contacts", &page_query(page)).await?;
    if session.json {
        output::line(&answer.text)?;
        return Ok(Outcome::Ok);
    }
    let mut rows = Rows::new(&["CONTACT", "FIELDS"]);
    for contact in &answer.value.items {
        let fields: Vec<_> = contact
            .fields
            .iter()
            .map(|(name, value)| format!("{name}={}", shown(value)))
            .collect();
        rows.push([contact.id.to_string(), fields.join("  ")]);
    }
    if rows.is_empty() {
        output::note("no contacts yet; `holdpoint contact put JSON` stores one");
    } else {
        output::line(&rows.render())?;
    }
    note_more(answer.value.next_cursor.as_deref());
    Ok(Outcome::Ok)
}

fn fields_table(contact: &ContactView) -> String {
    let mut rows = Rows::new(&["FIELD", "VALUE"]);
    rows.push(["id", contact.id.as_str()]);
    for (name, value) in &contact.fields {
        rows.push([name.clone(), shown(value)]);
    }
    rows.render()
}

/// A text without its quotes, anything else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), one_line)
}
