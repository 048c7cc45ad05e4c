//! `nodes`, `claims` and `tool`: the worker mesh and the tools that it calls.

use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::ToolView;

use super::{ClientCommand, Session, cells, instant, page_query};
use crate::cli::workspace::{MeshCommand, ToolCommand};
use crate::exit::ExitKind;

impl ClientCommand for MeshCommand {
    async fn perform(self, session: &Session) -> anyhow::Result<ExitKind> {
        match self {
            Self::Nodes => {
                let heading = ["NODE", "STATUS", "LAST SEEN", "TOOLS", "STEPS"];
                let row = |it: &NodeView| {
                    let last_seen = instant(it.last_seen);
                    cells![it.node, it.status, last_seen, it.tools, it.claimed_tasks]
                };
                session.list("nodes", &[], heading, row).await
            }
            Self::Claims => {
                let heading = ["RUN", "STEP", "NODE", "DISPATCH", "SINCE", "HEARTBEAT"];
                let row = |it: &ClaimView| {
                    let (claimed, heartbeat) = (instant(it.claimed_at), instant(it.heartbeat_at));
                    cells![it.run, it.step, it.node, it.dispatch, claimed, heartbeat]
                };
                session.list("claims", &[], heading, row).await
            }
        }
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
                let row = |ToolView { tool, .. }: &ToolView| {
                    let call = format!("{} {}", tool.http.method, tool.http.url);
                    cells![tool.name, tool.version, tool.risk, tool.idempotent, call]
                };
                let query = page_query(&page);
                session.list("tools", &query, heading, row).await
            }
            Self::Delete(tool) => session.delete("tools", &tool.name, "deleted").await,
        }
    }
}
