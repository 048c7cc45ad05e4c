//! Registers the tools of a node at its start (S2-R2).
//!
//! Owns the requests. The executor decides what counts. A node takes no step before the executor has replied: an
//! operator may have lowered the risk of an older definition, and a new one must not start under that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::secret::is_secret_name;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::HTTP_QUEUE;
use holdpoint_contracts::tool::{RegisterTools, RegisteredTool, ToolSpec, is_built_in, time_error};
use holdpoint_holds::redaction::{ARGS, RESULT, paths_error};
use holdpoint_ids::{NodeName, ToolName, Workspace};
use serde_json::json;

use crate::tool::{Tool, ToolDefinition};

/// Most tools in one request.
const TOOLS_MAX: usize = 100;

/// Approximate size of one request, in bytes of JSON. No registry takes a tool above it.
const BYTES_MAX: usize = 256 * 1024;

/// Characters that are left of the version of a refused definition.
const VERSION_CHARS_MAX: usize = 1_000;

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Wait before another try …
const PAUSE: Duration = Duration::from_secs(1);

/// … and the longest one. The node takes no steps meanwhile.
const PAUSE_MAX: Duration = Duration::from_secs(5);

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

    /// Returns when the executor has replied to every tool.
    pub(super) async fn complete(mut self) {
        let mut pause = PAUSE;
        while !self.send().await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends what is left once. Returns whether all is done.
    async fn send(&mut self) -> bool {
        while let Some(tools) = self.left.pop() {
            let command = RegisterTools {
                node: self.node.clone(),
                tools: tools.clone(),
            };
            let envelope = Envelope::of_service("worker", command);
            let asked = self.bus.ask(&self.workspace, &envelope);
            let replies = match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
                Ok(Ok(replies)) => replies,
                Ok(Err(problem)) => vec![Reply::Problem(problem); tools.len()],
                Err(_elapsed) => {
                    let problem = Problem::unavailable("no reply in time");
                    vec![Reply::Problem(problem); tools.len()]
                }
            };
            let is_unavailable = replies.iter().any(is_unavailable);
            let replies = tools.into_iter().zip(replies);
            let again: Vec<_> = replies
                .filter_map(|(tool, reply)| unregistered(tool, reply))
                .collect();
            if !again.is_empty() {
                self.left.push(again);
            }
            if is_unavailable {
                return false;
            }
        }
        true
    }
}

fn is_unavailable(reply: &Reply<RegisteredTool>) -> bool {
    matches!(reply, Reply::Problem(problem) if problem.status >= 500)
}

/// What is sent next of a tool that is not registered. Of a refused one, at least the risk must arrive.
fn unregistered(tool: ToolSpec, reply: Reply<RegisteredTool>) -> Option<ToolSpec> {
    let name = &tool.name;
    match reply {
        Reply::Ok(RegisteredTool::Agreed) => None,
        Reply::Ok(RegisteredTool::Differs) => {
            tracing::warn!(
                tool = %name,
                "the registry keeps another risk, schema, limit or `idempotent` of this tool until an operator changes it"
            );
            None
        }
        Reply::Problem(problem) if problem.status >= 500 => {
            tracing::warn!(tool = %name, %problem, "tool not registered; the worker takes no steps until it is");
            Some(tool)
        }
        // An executor of an older release refuses the command.
        Reply::Problem(problem) => {
            tracing::warn!(tool = %name, %problem, "definition of a tool refused; its risk is registered if possible");
            let reduced = without_details(&tool);
            (reduced != tool).then_some(reduced)
        }
    }
}

fn without_details(tool: &ToolSpec) -> ToolSpec {
    let version = tool.version.as_ref();
    ToolSpec {
        // A new version tells that an operator has not seen the definition.
        version: version.map(|version| version.chars().take(VERSION_CHARS_MAX).collect()),
        idempotent: tool.idempotent,
        secrets: tool.secrets.clone(),
        redaction: tool.redaction.clone(),
        ..ToolSpec::new(tool.name.clone(), tool.risk)
    }
}

fn spec(name: &ToolName, tool: &dyn Tool) -> ToolSpec {
    let ToolDefinition {
        version,
        args_schema,
        result_schema,
        timeout,
        retry,
        secrets,
        redaction,
    } = tool.definition();
    // The executor would refuse the whole definition.
    let is_valid = |error: Option<String>| {
        if let Some(error) = &error {
            tracing::warn!(tool = %name, error, "a part of the definition of a tool is not registered");
        }
        error.is_none()
    };
    let timeout = timeout.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
    let is_secret = |secret: &String| {
        let error = || format!("invalid name `{secret}` of a secret");
        is_valid((!is_secret_name(secret)).then(error))
    };
    ToolSpec {
        version,
        idempotent: tool.is_idempotent(),
        args_schema,
        result_schema,
        timeout: timeout.filter(|ms| is_valid(time_error("timeout", *ms))),
        retry: retry.filter(|retry| is_valid(retry.error())),
        secrets: secrets.into_iter().filter(is_secret).collect(),
        redaction: hidden_parts(redaction.into_iter().collect(), &is_valid),
        ..ToolSpec::new(name.clone(), tool.risk())
    }
}

/// If a path is not valid, its part is not known, and so all is hidden.
fn hidden_parts(
    paths: Vec<String>,
    is_valid: &dyn Fn(Option<String>) -> bool,
) -> Option<Vec<String>> {
    if paths.is_empty() {
        return None;
    }
    let all = || [ARGS, RESULT].map(str::to_owned).to_vec();
    let is_valid = is_valid(paths_error(&paths));
    Some(if is_valid { paths } else { all() })
}

fn in_requests(specs: impl Iterator<Item = ToolSpec>) -> Vec<Vec<ToolSpec>> {
    let mut requests: Vec<Vec<ToolSpec>> = Vec::new();
    let mut bytes = 0;
    for mut spec in specs {
        if json_bytes(&json!(spec)) > BYTES_MAX {
            spec = without_details(&spec);
        }
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
