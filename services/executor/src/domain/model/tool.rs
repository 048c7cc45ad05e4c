//! An entry of the tool registry: what an operator says of a tool in a workspace, or what nodes have registered.
//!
//! Nodes work for all workspaces. Their registrations are entries of the system workspace.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdpoint_contracts::secret::{SecretPart, read_references};
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
pub use holdpoint_contracts::tool::{BUILT_IN, is_always_idempotent, is_built_in};
use holdpoint_contracts::tool::{
    HttpCall, Risk, ToolChange, ToolOffer, ToolRetry, ToolSpec, ToolView,
};
use holdpoint_ids::{ToolName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::is_default;

/// The built-in tool that asks a person. Its tasks outlive the run.
pub const CREATE_TASK: &str = "create_task";

/// Most tools that nodes register, over all nodes: as many as there may be queues.
pub const OFFERED_TOOLS_MAX: u64 = 10_000;

/// Risk of a tool that is not registered. A worker that starts a step on it may still name the risk `high`.
const UNREGISTERED_RISK: Risk = Risk::Medium;

/// A tool's control state. A forgotten one stays known as such: steps that call it fail, instead of
/// waiting for a worker that never comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub workspace: Workspace,
    /// Of an entry of nodes: their registrations together. The highest risk counts, the first schema, `idempotent`
    /// only if all say so, the newest limits, and the secrets of all.
    pub spec: ToolSpec,
    /// Rises with every change.
    pub version: u64,
    pub deleted: bool,
    /// The revision of the entry of nodes that the operator has seen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub seen: u64,
    /// What operators have changed, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ToolChange>,
    /// What nodes have registered, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<ToolOffer>,
    /// Of an entry of nodes: the versions that changed nothing that counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unchanged: u64,
    /// Of an entry of nodes: the revision of the newest definition with the highest risk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub risk_revision: u64,
}

impl Tool {
    /// Rises with every change that counts.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.version.saturating_sub(self.unchanged)
    }

    /// A copy for decisions about runs, which need neither changes nor registrations.
    #[must_use]
    pub fn without_records(&self) -> Self {
        Self {
            workspace: self.workspace.clone(),
            spec: self.spec.clone(),
            changes: Vec::new(),
            offers: Vec::new(),
            ..*self
        }
    }
}

/// Both entries of a tool: that of an operator in a workspace, and that of the nodes.
#[derive(Debug, Clone, Default)]
pub struct ToolEntry {
    pub operator: Option<Arc<Tool>>,
    pub nodes: Option<Arc<Tool>>,
}

impl ToolEntry {
    /// Adds one of the two entries.
    pub fn add(&mut self, tool: Arc<Tool>) {
        if tool.workspace.as_str() == SYSTEM_WORKSPACE {
            self.nodes = Some(tool);
        } else {
            self.operator = Some(tool);
        }
    }

    /// Whether an operator or a node has registered it.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.operator.is_some() || self.nodes.is_some()
    }

    /// What an operator says of it now.
    #[must_use]
    pub fn operator_entry(&self) -> Option<&Tool> {
        self.operator.as_deref().filter(|tool| !tool.deleted)
    }

    /// What counts of a field: the statement of the operator, else that of the nodes. An HTTP tool of an operator takes
    /// nothing from nodes.
    fn field<T: ?Sized>(&self, of: impl Fn(&ToolSpec) -> Option<&T>) -> Option<&T> {
        let nodes = || of(&self.nodes.as_deref()?.spec);
        match self.operator_entry() {
            Some(tool) if tool.spec.http.is_some() => of(&tool.spec),
            Some(tool) => of(&tool.spec).or_else(nodes),
            None => nodes(),
        }
    }

    #[must_use]
    pub fn args_schema(&self) -> Option<&Value> {
        self.field(|spec| spec.args_schema.as_ref())
    }

    #[must_use]
    pub fn result_schema(&self) -> Option<&Value> {
        self.field(|spec| spec.result_schema.as_ref())
    }

    /// Longest time of one attempt, in milliseconds, for steps that state none.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        self.field(|spec| spec.timeout.as_ref()).copied()
    }

    /// When a failed call is repeated, for steps that state nothing.
    #[must_use]
    pub fn retry(&self) -> Option<&ToolRetry> {
        self.field(|spec| spec.retry.as_ref())
    }

    /// Names of the secrets that nodes resolve for it.
    fn secrets(&self) -> &[String] {
        let nodes = self.nodes.as_deref().filter(|_| self.http().is_none());
        nodes.map_or(&[], |tool| &tool.spec.secrets)
    }

    /// Names of the secrets that its definition has, in order (S2-R15).
    #[must_use]
    pub fn credentials(&self) -> Vec<&str> {
        let headers = self
            .http()
            .into_iter()
            .flat_map(|call| call.headers.values());
        let parts = headers.flat_map(|text| read_references(text).unwrap_or_default());
        let of_http = parts.filter_map(|part| match part {
            SecretPart::Secret(name) => Some(name),
            SecretPart::Literal(_) => None,
        });
        let names: BTreeSet<_> = of_http
            .chain(self.secrets().iter().map(String::as_str))
            .collect();
        names.into_iter().collect()
    }

    /// The system that it calls: the host of an HTTP call, or its name before the first dot (S2-R15). Empty: unknown.
    #[must_use]
    pub fn app(&self, name: &ToolName) -> String {
        if let Some(call) = self.http() {
            let url = call.url.split_once("://").map_or("", |(_, rest)| rest);
            let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            return host.to_owned();
        }
        let app = name.as_str().split_once('.').map(|(app, _)| app);
        app.unwrap_or_default().to_owned()
    }

    /// Parts of arguments and results that are never shown, in order. Nodes may add to what the operator has seen.
    #[must_use]
    pub fn redaction(&self) -> Vec<String> {
        let of = |tool: &Tool| tool.spec.redaction.clone();
        let operator = self.operator_entry();
        let stated = operator.and_then(of);
        let has_seen_all = |operator: &Tool| {
            let revision = self.nodes.as_deref().map_or(0, Tool::revision);
            operator.spec.http.is_some() || operator.seen >= revision
        };
        if let Some(stated) = &stated
            && operator.is_some_and(has_seen_all)
        {
            return stated.clone();
        }
        let nodes = self.nodes.as_deref().filter(|_| self.http().is_none());
        let nodes = nodes.and_then(of);
        let paths: BTreeSet<_> = stated.into_iter().chain(nodes).flatten().collect();
        paths.into_iter().collect()
    }

    /// The HTTP call of an operator.
    #[must_use]
    pub fn http(&self) -> Option<&HttpCall> {
        self.operator_entry()?.spec.http.as_ref()
    }

    /// Whether an operator has deleted the HTTP call.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        self.operator
            .as_deref()
            .is_some_and(|tool| tool.deleted && tool.spec.http.is_some())
    }

    /// The word of the operator counts for the definitions that the operator has seen. A later one may only raise
    /// the risk (S2-R2).
    #[must_use]
    pub fn risk(&self) -> Risk {
        let nodes = self.nodes.as_deref();
        match (self.operator_entry(), nodes) {
            (Some(operator), Some(nodes)) if operator.seen < nodes.risk_revision => {
                operator.spec.risk.max(nodes.spec.risk)
            }
            (Some(tool), _) | (None, Some(tool)) => tool.spec.risk,
            (None, None) => UNREGISTERED_RISK,
        }
    }

    /// Whether a second call does no harm. The promise of nodes counts for a worker that makes it too.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match (self.operator_entry(), self.nodes.as_deref()) {
            (None, Some(nodes)) => nodes.spec.idempotent,
            (Some(_), _) | (None, None) => self.is_promised_by_operator(),
        }
    }

    /// Whether an operator says that a second call does no harm. Every definition that the operator has not seen must
    /// say so too.
    #[must_use]
    pub fn is_promised_by_operator(&self) -> bool {
        let nodes = self.nodes.as_deref();
        self.operator_entry().is_some_and(|operator| {
            let unseen = nodes
                .filter(|nodes| operator.spec.http.is_none() && operator.seen < nodes.revision());
            operator.spec.idempotent && unseen.is_none_or(|nodes| nodes.spec.idempotent)
        })
    }

    /// Whether a step on it must not start as one on an unknown tool.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.risk() == Risk::High
            || self.is_deleted()
            || self.http().is_some()
            || self.args_schema().is_some()
            || self.result_schema().is_some()
            || self.timeout_ms().is_some()
            || self.retry().is_some()
            || !self.secrets().is_empty()
            || !self.redaction().is_empty()
    }

    /// Whether the registry knows that nodes rate it `high`, whatever the operator says of it.
    #[must_use]
    pub fn is_high_at_nodes(&self) -> bool {
        self.nodes
            .as_deref()
            .is_some_and(|tool| tool.spec.risk == Risk::High)
    }

    /// Rises with every change of one of the entries. None: it is not registered.
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        let of = |tool: &Option<Arc<Tool>>| tool.as_deref().map_or(0, Tool::revision);
        self.is_known()
            .then(|| of(&self.operator) + of(&self.nodes))
    }

    /// The version that an approval covers. A changed schema, address or risk is a new revision, and so another
    /// call.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let revision = self.revision()?;
        let named = self.named_version().unwrap_or("unversioned");
        Some(format!("{named}+{revision}"))
    }

    fn named_version(&self) -> Option<&str> {
        self.field(|spec| spec.version.as_deref())
    }

    /// The tool as lists show it.
    #[must_use]
    pub fn view(&self, name: &ToolName) -> ToolView {
        let tool = ToolSpec {
            name: name.clone(),
            version: self.named_version().map(str::to_owned),
            risk: self.risk(),
            idempotent: self.is_idempotent(),
            args_schema: self.args_schema().cloned(),
            result_schema: self.result_schema().cloned(),
            timeout: self.timeout_ms(),
            retry: self.retry().cloned(),
            secrets: self.secrets().to_vec(),
            redaction: Some(self.redaction()).filter(|paths| !paths.is_empty()),
            http: self.http().cloned(),
        };
        let source = tool.source();
        ToolView {
            seen: self.nodes.as_deref().map_or(0, Tool::revision),
            deleted: self.is_deleted(),
            ..ToolView::new(tool, source, self.revision().unwrap_or_default())
        }
    }
}
