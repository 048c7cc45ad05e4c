//! Registers the tools of a node at its start (S2-R2).
//!
//! Owns the requests. The executor decides what counts. A node whose tools are not registered works all the same: it
//! names the risk of a tool when a step wants to start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::HTTP_QUEUE;
use holdpoint_contracts::tool::{RegisterTools, RegisteredTool, ToolSpec, is_built_in};
use holdpoint_ids::{NodeName, ToolName, Workspace};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::tool::{Tool, ToolDefinition};

/// Most tools in one request.
const TOOLS_MAX: usize = 100;

/// Approximate size of one request, in bytes of JSON. A larger tool has a request of its own.
const BYTES_MAX: usize = 256 * 1024;

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Wait before another try …
const PAUSE: Duration = Duration::from_secs(1);

/// … and the longest one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a node registers, in requests.
pub(super) struct Registration {
    pub(super) bus: Bus,
    pub(super) workspace: Workspace,
    pub(super) node: NodeName,
    left: Vec<Vec<ToolSpec>>,
}

impl Registration {
    /// The tools of a node. The registry knows built-in tools without a registration.
    pub(super) fn new(
        bus: &Bus,
        workspace: &Workspace,
        node: &NodeName,
        tools: &BTreeMap<ToolName, Arc<dyn Tool>>,
    ) -> Self {
        let own = tools
            .iter()
            .filter(|(name, _)| !is_built_in(name.as_str()) && name.as_str() != HTTP_QUEUE);
        let specs = own.map(|(name, tool)| spec(name, tool.as_ref()));
        Self {
            bus: bus.clone(),
            workspace: workspace.clone(),
            node: node.clone(),
            left: in_requests(specs),
        }
    }

    /// Registers the tools. A task goes on with what the executor has not taken at once.
    pub(super) async fn start(mut self) -> Option<AbortOnDropHandle<()>> {
        let is_registered = self.send().await;
        (!is_registered).then(|| AbortOnDropHandle::new(tokio::spawn(self.complete())))
    }

    /// Sends what is left once. Returns whether all is done.
    async fn send(&mut self) -> bool {
        while let Some(tools) = self.left.last() {
            let command = RegisterTools {
                node: self.node.clone(),
                tools: tools.clone(),
            };
            let envelope = Envelope::of_service("worker", command);
            let asked = self.bus.ask(&self.workspace, &envelope);
            match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
                Ok(Ok(replies)) => log(tools, &replies),
                // An executor of an older release does not know the command.
                Ok(Err(problem)) if problem.status < 500 => {
                    tracing::warn!(%problem, "tools are not registered; their risk counts when a step wants to start");
                }
                Ok(Err(problem)) => {
                    tracing::debug!(%problem, "registration of tools refused; trying again");
                    return false;
                }
                Err(_) => {
                    tracing::debug!("no reply to a registration of tools in time; trying again");
                    return false;
                }
            }
            self.left.pop();
        }
        true
    }

    /// Tries until all is registered.
    async fn complete(mut self) {
        let mut pause = PAUSE;
        while !self.send().await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

fn spec(name: &ToolName, tool: &dyn Tool) -> ToolSpec {
    let ToolDefinition {
        version,
        args_schema,
        result_schema,
    } = tool.definition();
    ToolSpec {
        name: name.clone(),
        version,
        risk: tool.risk(),
        idempotent: tool.is_idempotent(),
        args_schema,
        result_schema,
        http: None,
    }
}

fn in_requests(specs: impl Iterator<Item = ToolSpec>) -> Vec<Vec<ToolSpec>> {
    let mut requests: Vec<Vec<ToolSpec>> = Vec::new();
    let mut bytes = 0;
    for spec in specs {
        let own = json_bytes(&json!(spec));
        match requests.last_mut() {
            Some(last) if last.len() < TOOLS_MAX && bytes + own <= BYTES_MAX => {
                bytes += own;
                last.push(spec);
            }
            Some(_) | None => {
                bytes = own;
                requests.push(vec![spec]);
            }
        }
    }
    requests
}

fn log(tools: &[ToolSpec], replies: &[Reply<RegisteredTool>]) {
    for (tool, reply) in tools.iter().zip(replies) {
        let tool = &tool.name;
        match reply {
            Reply::Ok(RegisteredTool::Agreed) => {}
            Reply::Ok(RegisteredTool::Differs) => tracing::warn!(
                %tool,
                "the registry keeps another risk, schema or `idempotent` of this tool until an operator changes it"
            ),
            Reply::Problem(problem) => tracing::warn!(%tool, %problem, "tool not registered"),
        }
    }
}
