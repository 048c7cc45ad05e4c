//! `template` and `calendar`: what agents of the workspace use by name.

use std::collections::BTreeMap;

use holdpoint_contracts::executor::LibraryEntryView;
use serde_json::json;

use super::{ClientCommand, Session, cells, instant};
use crate::cli::library::{CalendarCommand, TemplateCommand};
use crate::client::item_path;
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
                let html = html.as_deref().map(read_text).transpose()?;
                let body = read_text(&body)?;
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
                session.show_json(&path).await
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
                // Absent days are Monday to Friday.
                let days = (!days.is_empty()).then_some(days);
                let calendar = json!({
                    "name": name, "time_zone": time_zone, "days": days, "holidays": holidays,
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
