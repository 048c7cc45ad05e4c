//! `nodes`, `claims` and `tool`: the worker mesh and the tools that it calls.

use anyhow::bail;
use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_contracts::tool::ToolView;
use serde_json::json;

use super::{ClientCommand, Session, add_options, api_text, cells, instant, page_query};
use crate::cli::workspace::{MeshCommand, ToolCommand};
use crate::client::{Body, item_path};
use crate::exit::{ExitKind, Usage};

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
            Self::Put { tool } => session.post("tools", &tool, put_text).await,
            Self::List(page) => {
                let heading = [
                    "TOOL",
                    "SOURCE",
                    "VERSION",
                    "RISK",
                    "IDEMPOTENT",
                    "CALLS OR NODES",
                ];
                let row = |it: &ToolView| {
                    let ToolView { tool, source, .. } = it;
                    let by = called_by(it);
                    cells![
                        tool.name,
                        source,
                        tool.version,
                        tool.risk,
                        tool.idempotent,
                        by
                    ]
                };
                let query = page_query(&page);
                session.list("tools", &query, heading, row).await
            }
            Self::Show(tool) => session.show_json(&item_path("tools", &tool.name)?).await,
            Self::Accept(tool) => accept_offer(session, &tool.name).await,
            Self::Delete(tool) => session.delete("tools", &tool.name, "deleted").await,
        }
    }
}

fn put_text(tool: &ToolView) -> String {
    let change = if tool.changed { "stored" } else { "unchanged" };
    format!("{}  revision {}  {change}", tool.tool.name, tool.revision)
}

/// The call of an HTTP tool, or the live nodes that offer a tool.
fn called_by(tool: &ToolView) -> String {
    match &tool.tool.http {
        Some(call) => format!("{} {}", call.method, call.url),
        None if tool.deleted => "deleted".to_owned(),
        None => api_text(&tool.nodes),
    }
}

/// Registers what a node has offered last as the word of the operator.
async fn accept_offer(session: &Session, name: &str) -> anyhow::Result<ExitKind> {
    let path = item_path("tools", name)?;
    let shown: Body<ToolView> = session.client.get(&path, &[]).await?;
    let Some(offer) = shown.value.offers.into_iter().next() else {
        bail!(Usage(format!("no node has registered `{name}`")));
    };
    let mut body = json!(offer.tool);
    add_options(&mut body, json!({ "seen": shown.value.seen }));
    session.post("tools", &body, put_text).await
}
