//! Reads of nodes and leases.

use std::collections::BTreeMap;

use holdpoint_contracts::executor::{ListClaims, ListNodes};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::steps::{ClaimView, NodeView};
use holdpoint_ids::Workspace;
use holdpoint_kernel::{LIMIT_MAX, check_limit, cut_page};

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::store;

impl ExecutorQueries {
    /// All nodes, with the leases of this workspace only: a workspace never sees the steps of another.
    pub(super) async fn nodes(
        &self,
        workspace: &Workspace,
        ListNodes {}: ListNodes,
    ) -> Result<Page<NodeView>, QueryError> {
        let nodes = store::list_nodes(&self.db, LIMIT_MAX).await?;
        let leases = store::list_leases(&self.db, workspace, LIMIT_MAX).await?;
        let mut tasks: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for lease in leases {
            let task = format!("{}/{}", lease.run, lease.step);
            tasks.entry(lease.node).or_default().push(task);
        }
        let views = nodes.into_iter().map(|node| NodeView {
            claimed_tasks: tasks.remove(&node.name).unwrap_or_default(),
            node: node.name,
            status: node.status,
            last_seen: node.last_seen,
            tools: node.tools,
            queue_depth: node.queue_depth,
        });
        // One page suffices: live nodes come first, and a node that is down is deleted after a day.
        Ok(views.collect::<Vec<_>>().into())
    }

    pub(super) async fn claims(
        &self,
        workspace: &Workspace,
        query: ListClaims,
    ) -> Result<Page<ClaimView>, QueryError> {
        let limit = check_limit(query.limit)?;
        let leases = store::list_leases(&self.db, workspace, limit).await?;
        let views = leases.into_iter().map(|lease| ClaimView {
            run: lease.run,
            step: lease.step,
            node: lease.node,
            dispatch: lease.dispatch,
            claimed_at: lease.claimed_at,
            heartbeat_at: lease.heartbeat_at,
            progress_at: None,
            claim_timeout: lease.lease_ms,
        });
        let mut claims = cut_page(views.collect(), limit, |view: &ClaimView| view.step.clone());
        // Callers look for the oldest leases, so there is no second page.
        claims.next_cursor = None;
        Ok(claims)
    }
}
