//! `template` and `calendar`: what agents of the workspace use by name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use holdpoint_contracts::executor::LibraryEntryView;
use serde_json::json;

use super::{ClientCommand, Session, cells, instant};
use crate::cli::library::{CalendarCommand, TemplateCommand};
use crate::client::{Body, item_path};
use crate::exit::ExitKind;
use crate::parsers::read_text;

const TEMPLATES: &str = "templates";
const CALENDARS: &str = "calendars";

impl ClientCommand for TemplateCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Put {
                name,
                body,
                subject,
                html,
            } => {
                let stdin = Path::new("-");
                if body == stdin && html.as_deref().is_some_and(|html| html == stdin) {
                    bail!("only one of the texts can come from standard input");
                }
                let body = read_text(&body)?;
                let html = html.as_deref().map(read_text).transpose()?;
                let texts = [("body", Some(body)), ("subject", subject), ("html", html)];
                let texts = texts.into_iter().chain([("name", Some(name))]);
                let template: BTreeMap<_, _> = texts
                    .filter_map(|(field, text)| Some((field, text?)))
                    .collect();
                session.post(TEMPLATES, &template, put_text).await
            }
            Self::List => list(session, TEMPLATES, "TEMPLATE").await,
            Self::Show(one) => {
                let path = item_path(TEMPLATES, &one.name)?;
                let template: Body<LibraryEntryView> = session.client.get(&path, &[]).await?;
                session.show(&template, mail_text)
            }
            Self::Delete(one) => session.delete(TEMPLATES, &one.name, "deleted").await,
        }
    }
}

impl ClientCommand for CalendarCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Put {
                name,
                time_zone,
                days,
                holidays,
            } => {
                // The API takes a null as an absent field, which has a default.
                let present = |values: Vec<String>| (!values.is_empty()).then_some(values);
                let calendar = json!({
                    "name": name, "time_zone": time_zone,
                    "days": present(days), "holidays": present(holidays),
                });
                session.post(CALENDARS, &calendar, put_text).await
            }
            Self::List => list(session, CALENDARS, "CALENDAR").await,
            Self::Show(one) => {
                let path = item_path(CALENDARS, &one.name)?;
                session.show_json(&path).await
            }
            Self::Delete(one) => session.delete(CALENDARS, &one.name, "deleted").await,
        }
    }
}

async fn list(session: &Session, path: &str, head: &str) -> anyhow::Result<ExitKind> {
    let row = |it: &LibraryEntryView| cells![it.name, instant(it.updated_at), it.updated_by];
    session
        .list(path, &[], [head, "CHANGED", "CHANGED BY"], row)
        .await
}

/// A mail as its recipient reads it.
fn mail_text(template: &LibraryEntryView) -> String {
    let field = |name: &str| template.value.as_ref()?.get(name)?.as_str();
    let subject = field("subject").unwrap_or(&template.name);
    let body = field("body").unwrap_or_default();
    let html = field("html").map(|html| format!("\n\nHTML:\n{html}"));
    format!("Subject: {subject}\n\n{body}{}", html.unwrap_or_default())
}

fn put_text(entry: &LibraryEntryView) -> String {
    if entry.changed == Some(true) {
        format!(
            "{}  stored; agents take it when they are applied again",
            entry.name
        )
    } else {
        format!("{}  unchanged", entry.name)
    }
}
