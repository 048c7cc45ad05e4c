//! `dead`: messages that could not be handled.

use holdpoint_contracts::run::Page;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientCommand, Session, instant, list, page_query, show};
use crate::cli::DeadCommand;
use crate::client::{Body, segment};
use crate::exit::Outcome;
use crate::output;

/// One line of the list.
#[derive(Deserialize)]
struct Line {
    id: String,
    subject: String,
    reason: String,
    #[serde(with = "holdpoint_contracts::instant")]
    created_at: chrono::DateTime<chrono::Utc>,
}

/// A page of them.
#[derive(Deserialize)]
struct Letters {
    unavailable: Vec<String>,
    #[serde(flatten)]
    page: Page<Line>,
}

impl ClientCommand for DeadCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::List(page) => {
                let answer: Body<Letters> = session.client.get("dead", &page_query(&page)).await?;
                let Body {
                    text,
                    value,
                    status,
                } = answer;
                for service in &value.unavailable {
                    let away = format!(
                        "the {service} service does not answer: its dead letters are not listed"
                    );
                    output::note(&away);
                }
                let answer = Body {
                    text,
                    value: value.page,
                    status,
                };
                let heading = ["ID", "SINCE", "MESSAGE", "REASON"];
                list(session, &answer, &heading, |letter| {
                    vec![
                        letter.id.clone(),
                        instant(letter.created_at),
                        verb(&letter.subject).to_owned(),
                        letter.reason.clone(),
                    ]
                })
            }
            Self::Show { id } => {
                let path = format!("dead/{}", segment(&id)?);
                let answer: Body<Value> = session.client.get(&path, &[]).await?;
                show(session, &answer, |letter| format!("{letter:#}"))
            }
            Self::Replay { ids } => {
                for id in ids {
                    let path = format!("dead/{}/replay", segment(&id)?);
                    let answer: Body<Value> = session.client.post(&path, &json!({})).await?;
                    show(session, &answer, |_| format!("{id}  decided again"))?;
                }
                Ok(Outcome::Ok)
            }
            Self::Drop { ids } => {
                for id in ids {
                    let path = format!("dead/{}", segment(&id)?);
                    let answer: Body<Value> = session.client.delete(&path).await?;
                    show(session, &answer, |_| format!("{id}  removed"))?;
                }
                Ok(Outcome::Ok)
            }
        }
    }
}

/// What a message asks for: the last part of its subject.
fn verb(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or(subject)
}
