//! Reads of the tool registry: built-in tools, those of operators, and those of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdpoint_contracts::executor::{GetTool, ListTools};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::steps::HTTP_QUEUE;
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_contracts::tool::{
    BUILT_IN, NODES_SHOWN, ToolSource, ToolSpec, ToolView, built_in_risk, is_always_idempotent,
    is_built_in,
};
use holdpoint_ids::{NodeName, ToolName, Workspace};
use holdpoint_kernel::{LIMIT_MAX, check_limit, cut_page};
use holdpoint_store::StoreError;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::model::built_in_schemas::built_in_args_schema;
use crate::domain::{Key, Node, Refusal, Tool, ToolEntry};
use crate::store;

/// The tools of live nodes, each with its nodes.
pub(super) type Offered = BTreeMap<ToolName, Vec<NodeName>>;

/// Registry entries by the names of their tools.
pub(super) type Entries = BTreeMap<ToolName, ToolEntry>;

impl ExecutorQueries {
    /// Both registry entries of each of these tools.
    pub(super) async fn tool_entries(
        &self,
        workspace: &Workspace,
        names: impl IntoIterator<Item = ToolName>,
    ) -> Result<Entries, StoreError> {
        let names = names.into_iter();
        let keys = names.flat_map(|name| Key::of_tool(workspace, &name));
        let keys: Vec<_> = keys.filter_map(Key::try_as_tool).collect();
        let keys: Vec<_> = keys.iter().map(|(of, name)| (of, name.clone())).collect();
        let mut entries = Entries::new();
        add_tools(&mut entries, store::tools(&self.db, &keys).await?);
        Ok(entries)
    }

    /// Tools that nodes offer which are not down. Nodes of older releases only name them.
    pub(super) async fn offered_tools(&self) -> Result<Offered, StoreError> {
        let nodes = store::list_nodes(&self.db, LIMIT_MAX).await?;
        let live = nodes.into_iter().filter(Node::is_live);
        let mut offered = Offered::new();
        for Node { name, tools, .. } in live {
            for tool in tools {
                offered.entry(tool).or_default().push(name.clone());
            }
        }
        Ok(offered)
    }

    /// All tools in the order of their names, without the registrations and changes of each.
    pub(super) async fn tools(
        &self,
        workspace: &Workspace,
        query: &ListTools,
    ) -> Result<Page<ToolView>, QueryError> {
        let limit = check_limit(query.limit)?;
        let after = query.cursor.as_deref();
        let offered = self.offered_tools().await?;
        let mut entries = Entries::new();
        let system = SYSTEM_WORKSPACE.parse().ok();
        for of in [Some(workspace), system.as_ref()].into_iter().flatten() {
            let tools = store::list_tools(&self.db, of, after, limit + 1).await?;
            add_tools(&mut entries, tools);
        }
        let mut names: BTreeSet<ToolName> = offered.keys().chain(entries.keys()).cloned().collect();
        names.extend(BUILT_IN.into_iter().filter_map(|name| name.parse().ok()));
        names.retain(|name| name.as_str() != HTTP_QUEUE);
        names.retain(|name| after.is_none_or(|after| name.as_str() > after));
        let shown = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let names: Vec<_> = names.into_iter().take(shown).collect();
        // Deleted ones are not listed.
        let is_listed =
            |name: &&ToolName| entries.get(name).is_some_and(|it| it.operator.is_some());
        let others = names.iter().filter(|name| !is_listed(name));
        let others = others.filter(|name| !is_built_in(name.as_str()));
        let deleted: Vec<_> = others.map(|name| (workspace, name.clone())).collect();
        add_tools(&mut entries, store::tools(&self.db, &deleted).await?);
        let views = names.into_iter();
        let views = views.map(|name| {
            let entry = entries.get(&name);
            view(name, entry, &offered)
        });
        Ok(cut_page(views.collect(), limit, |view: &ToolView| {
            view.tool.name.to_string()
        }))
    }

    /// One tool, with what nodes have registered and what operators have changed.
    pub(super) async fn tool(
        &self,
        workspace: &Workspace,
        query: &GetTool,
    ) -> Result<ToolView, QueryError> {
        let name = &query.tool;
        let entries = self.tool_entries(workspace, [name.clone()]).await?;
        let offered = self.offered_tools().await?;
        let entry = entries.get(name);
        let is_known = entry.is_some_and(|entry| {
            entry.nodes.is_some() || entry.operator.as_ref().is_some_and(|tool| !tool.deleted)
        });
        if !is_known && !is_built_in(name.as_str()) && !offered.contains_key(name) {
            return Err(Refusal::ToolNotFound(name.clone()).into());
        }
        let operator = entry.and_then(|entry| entry.operator.as_deref());
        let nodes = entry.and_then(|entry| entry.nodes.as_deref());
        Ok(ToolView {
            changes: operator
                .map(|tool| tool.changes.clone())
                .unwrap_or_default(),
            offers: nodes.map(|tool| tool.offers.clone()).unwrap_or_default(),
            ..view(name.clone(), entry, &offered)
        })
    }
}

fn add_tools(entries: &mut Entries, tools: Vec<Tool>) {
    for tool in tools {
        let entry = entries.entry(tool.spec.name.clone()).or_default();
        entry.add(Arc::new(tool));
    }
}

fn view(name: ToolName, entry: Option<&ToolEntry>, offered: &Offered) -> ToolView {
    let mut nodes = offered.get(&name).cloned().unwrap_or_default();
    nodes.truncate(NODES_SHOWN);
    let view = match entry {
        Some(entry) => entry.view(&name),
        None => unregistered(name),
    };
    ToolView { nodes, ..view }
}

/// A built-in tool, or one that nodes of older releases name.
fn unregistered(name: ToolName) -> ToolView {
    let source = if is_built_in(name.as_str()) {
        ToolSource::BuiltIn
    } else {
        ToolSource::Worker
    };
    let args_schema = built_in_args_schema(name.as_str());
    let risk = built_in_risk(name.as_str());
    let tool = ToolSpec {
        idempotent: is_always_idempotent(name.as_str()),
        args_schema,
        ..ToolSpec::new(name, risk)
    };
    ToolView::new(tool, source, 0)
}
