//! `nodes`, `claims` and `tool`: who does the work, and what there is to call.

use holdpoint_contracts::run::Page;
use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::ToolView;
use serde_json::Value;

use super::{ClientCommand, Session, instant, list, page_query, show};
use crate::cli::ToolCommand;
use crate::client::{Body, segment};
use crate::exit::Outcome;

/// `nodes`.
pub(crate) struct Nodes;

/// `claims`.
pub(crate) struct Claims;

impl ClientCommand for Nodes {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        let answer: Body<Page<NodeView>> = session.client.get("nodes", &[]).await?;
        let heading = ["NODE", "STATUS", "LAST SEEN", "TOOLS", "WORKS ON"];
        list(session, &answer, &heading, |node| {
            let tools: Vec<_> = node.tools.iter().map(ToString::to_string).collect();
            vec![
                node.node.to_string(),
                word(&node.status),
                instant(node.last_seen),
                tools.join(", "),
                node.claimed_tasks.join(", "),
            ]
        })
    }
}

impl ClientCommand for Claims {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        let answer: Body<Page<ClaimView>> = session.client.get("claims", &[]).await?;
        let heading = ["RUN", "STEP", "NODE", "DISPATCH", "SINCE", "HEARTBEAT"];
        list(session, &answer, &heading, |claim| {
            vec![
                claim.run.to_string(),
                claim.step.clone(),
                claim.node.to_string(),
                claim.dispatch.to_string(),
                instant(claim.claimed_at),
                instant(claim.heartbeat_at),
            ]
        })
    }
}

impl ClientCommand for ToolCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<Outcome> {
        match self {
            Self::Put { tool } => {
                let answer: Body<ToolView> = session.client.post("tools", &tool).await?;
                show(session, &answer, |tool| {
                    let news = if tool.changed { "stored" } else { "unchanged" };
                    format!("{}  revision {}  {news}", tool.tool.name, tool.revision)
                })
            }
            Self::List(page) => {
                let query = page_query(&page);
                let answer: Body<Page<ToolView>> = session.client.get("tools", &query).await?;
                let heading = ["TOOL", "VERSION", "RISK", "IDEMPOTENT", "CALLS"];
                list(session, &answer, &heading, |view| {
                    let tool = &view.tool;
                    vec![
                        tool.name.to_string(),
                        tool.version.clone().unwrap_or_default(),
                        word(&tool.risk),
                        tool.idempotent.to_string(),
                        format!("{} {}", tool.http.method, tool.http.url),
                    ]
                })
            }
            Self::Delete { name } => {
                let path = format!("tools/{}", segment(&name)?);
                let answer: Body<Value> = session.client.delete(&path).await?;
                show(session, &answer, |_| format!("{name}  forgotten"))
            }
        }
    }
}

/// The word that the API has for it.
fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
