//! `nodes`, `claims` and `tool`: the worker mesh and the tools that it calls.

use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::ToolView;

use super::{ClientCommand, Session, api_text, instant, page_query};
use crate::cli::ToolCommand;
use crate::exit::ExitKind;

/// `nodes`.
pub(crate) struct Nodes;

/// `claims`.
pub(crate) struct Claims;

impl ClientCommand for Nodes {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let heading = ["NODE", "STATUS", "LAST SEEN", "TOOLS", "STEPS"];
        let row = |node: &NodeView| {
            let tools: Vec<_> = node.tools.iter().map(ToString::to_string).collect();
            [
                node.node.to_string(),
                api_text(&node.status),
                instant(node.last_seen),
                tools.join(", "),
                node.claimed_tasks.join(", "),
            ]
        };
        session.list("nodes", &[], heading, row).await
    }
}

impl ClientCommand for Claims {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        let heading = ["RUN", "STEP", "NODE", "DISPATCH", "SINCE", "HEARTBEAT"];
        let row = |claim: &ClaimView| {
            [
                claim.run.to_string(),
                claim.step.clone(),
                claim.node.to_string(),
                claim.dispatch.to_string(),
                instant(claim.claimed_at),
                instant(claim.heartbeat_at),
            ]
        };
        session.list("claims", &[], heading, row).await
    }
}

impl ClientCommand for ToolCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Put { tool } => {
                let text = |tool: &ToolView| {
                    let change = if tool.changed { "stored" } else { "unchanged" };
                    format!("{}  revision {}  {change}", tool.tool.name, tool.revision)
                };
                session.post("tools", &tool, text).await
            }
            Self::List(page) => {
                let heading = ["TOOL", "VERSION", "RISK", "IDEMPOTENT", "CALLS"];
                let row = |view: &ToolView| {
                    let tool = &view.tool;
                    [
                        tool.name.to_string(),
                        tool.version.clone().unwrap_or_default(),
                        api_text(&tool.risk),
                        tool.idempotent.to_string(),
                        format!("{} {}", tool.http.method, tool.http.url),
                    ]
                };
                let query = page_query(&page);
                session.list("tools", &query, heading, row).await
            }
            Self::Delete(tool) => session.delete("tools", &tool.name, "deleted").await,
        }
    }
}
