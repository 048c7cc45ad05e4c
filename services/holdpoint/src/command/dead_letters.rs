//! `dead`: messages that could not be handled.

use holdpoint_contracts::run::Page;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientCommand, Session, cells, instant, page_query, print_rows};
use crate::cli::workspace::DeadCommand;
use crate::client::{Body, item_path};
use crate::exit::ExitKind;
use crate::output;

#[derive(Deserialize)]
struct DeadLetter {
    id: String,
    subject: String,
    reason: String,
    #[serde(with = "holdpoint_contracts::instant")]
    created_at: chrono::DateTime<chrono::Utc>,
}

#[derive(Deserialize)]
struct DeadLetters {
    /// Services that did not respond.
    unavailable: Vec<String>,
    #[serde(flatten)]
    page: Page<DeadLetter>,
}

impl ClientCommand for DeadCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::List(page) => {
                let query = page_query(&page);
                list(session, &session.client.get("dead", &query).await?)
            }
            Self::Show(letter) => session.show_json(&item_path("dead", &letter.id)?).await,
            Self::Replay { ids } => {
                for id in ids {
                    let path = format!("{}/replay", item_path("dead", &id)?);
                    let text = |_: &Value| format!("{id}  replayed");
                    session.post(&path, &json!({}), text).await?;
                }
                Ok(ExitKind::Ok)
            }
            Self::Drop { ids } => {
                for id in ids {
                    session.delete("dead", &id, "removed").await?;
                }
                Ok(ExitKind::Ok)
            }
        }
    }
}

fn list(session: &Session, body: &Body<DeadLetters>) -> anyhow::Result<ExitKind> {
    for service in &body.value.unavailable {
        output::note(&format!(
            "The {service} service does not respond, so its dead letters are missing."
        ));
    }
    if session.json {
        output::line(&body.text)?;
        return Ok(ExitKind::Ok);
    }
    let heading = ["ID", "SINCE", "MESSAGE", "REASON"];
    let row = |it: &DeadLetter| {
        let verb = it.subject.rsplit('.').next();
        cells![it.id, instant(it.created_at), verb, it.reason]
    };
    print_rows(&body.value.page, heading, row, "No results.")
}
