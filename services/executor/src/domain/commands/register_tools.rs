//! `executor.register_tools`: a node registers what it offers, at its start.
//!
//! A registration adds to the entry of all nodes. It may raise the risk. It never lowers one and never replaces a
//! schema: only an operator does that (S2-R2). So a node that goes away changes nothing.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_contracts::subject::SYSTEM_WORKSPACE;
use holdpoint_contracts::tool::{RegisteredTool, ToolOffer, ToolSpec};
use holdpoint_holds::redaction::{ARGS, PATHS_MAX, RESULT, hides_any};
use holdpoint_ids::{NodeName, Workspace};

use crate::domain::commands::put_tool::spec_refusal;
use crate::domain::decision::{Decided, Decision, LookupFn, Outcome, decided};
use crate::domain::effect::Reply;
use crate::domain::model::tool::{OFFERED_TOOLS_MAX, Tool};
use crate::domain::need::{Aggregate, Need};
use crate::domain::refusal::Refusal;
use crate::domain::rules::places::take_place;

/// Definitions of one tool that its entry keeps. An older one counts as new when a node registers it again.
const OFFERS_KEPT: usize = 4;

/// Nodes that an entry names for each definition. Each start of a node is a new name.
const OFFERING_NODES_KEPT: usize = 20;

/// An offer of one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) node: &'a NodeName,
    pub(crate) spec: &'a ToolSpec,
}

pub(crate) fn register_tool(
    known: Option<&Tool>,
    registration: Registration<'_>,
    lookup: LookupFn<'_>,
    now: DateTime<Utc>,
) -> Decision {
    let Registration {
        workspace,
        node,
        spec,
    } = registration;
    if let Some(refusal) = offer_refusal(workspace, spec) {
        return Err(refusal.into());
    }
    let Some(known) = known else {
        let need = Need::ToolCount(workspace.clone());
        let place = take_place(need, OFFERED_TOOLS_MAX, Refusal::TooManyTools, lookup)?;
        let first = Tool {
            workspace: workspace.clone(),
            spec: spec.clone(),
            version: 1,
            deleted: false,
            seen: 0,
            changes: Vec::new(),
            offers: with_offer(&[], node, spec, now),
            unchanged: 0,
            risk_revision: 1,
        };
        return Ok(Outcome::Decided(Box::new(Decided {
            state: Aggregate::Tool(first),
            effects: Vec::new(),
            facts: vec![place],
            reply: Reply::Registered(RegisteredTool::Agreed),
        })));
    };
    let same = known.offers.iter().find(|offer| offer.tool == *spec);
    let offers = with_offer(&known.offers, node, spec, now);
    let merged = ToolSpec {
        secrets: secrets_of(&offers),
        ..merge(&known.spec, spec, same.is_some())
    };
    let reply = Reply::Registered(agreement(&merged, spec));
    if same.is_some_and(|offer| offer.nodes.contains(node)) {
        return Ok(Outcome::Unchanged(reply));
    }
    let is_new = same.is_none();
    let has_new_risk = is_new && spec.risk == merged.risk;
    // An operator may have promised of the known ones that a second call does no harm.
    let counts = has_new_risk || (is_new && !spec.idempotent) || merged != known.spec;
    let mut next = Tool {
        version: known.version + 1,
        unchanged: known.unchanged + u64::from(!counts),
        spec: merged,
        offers,
        ..known.clone()
    };
    if has_new_risk {
        next.risk_revision = next.revision();
    }
    decided(Aggregate::Tool(next), Vec::new(), reply)
}

fn offer_refusal(workspace: &Workspace, spec: &ToolSpec) -> Option<Refusal> {
    // Another workspace has the entries of its operators.
    let is_offer = workspace.as_str() == SYSTEM_WORKSPACE && spec.http.is_none();
    if is_offer {
        return spec_refusal(spec);
    }
    let message =
        format!("a node registers tools in the workspace `{SYSTEM_WORKSPACE}`, without `http`");
    Some(Refusal::InvalidTool(message))
}

/// All registrations together.
fn merge(known: &ToolSpec, offered: &ToolSpec, is_same: bool) -> ToolSpec {
    let newest = if is_same { known } else { offered };
    let or = |one: &Option<_>, other: &Option<_>| one.clone().or_else(|| other.clone());
    ToolSpec {
        version: newest.version.clone(),
        risk: known.risk.max(offered.risk),
        idempotent: known.idempotent && offered.idempotent,
        args_schema: or(&known.args_schema, &offered.args_schema),
        result_schema: or(&known.result_schema, &offered.result_schema),
        timeout: newest.timeout,
        retry: newest.retry.clone(),
        redaction: both(known.redaction.as_ref(), offered.redaction.as_ref()),
        ..known.clone()
    }
}

/// All parts that one of them hides. Only an operator shows one again. Too many parts are hidden as a whole.
fn both(known: Option<&Vec<String>>, offered: Option<&Vec<String>>) -> Option<Vec<String>> {
    let paths: BTreeSet<_> = known.into_iter().chain(offered).flatten().collect();
    let mut paths: Vec<_> = paths.into_iter().cloned().collect();
    if paths.len() > PATHS_MAX {
        let roots = [ARGS, RESULT].into_iter();
        let hidden = roots.filter(|root| hides_any(root, &paths));
        paths = hidden.map(str::to_owned).collect();
    }
    (!paths.is_empty()).then_some(paths)
}

/// The secrets of all kept offers. Each of their nodes may take the call, so an approval covers all of them.
fn secrets_of(offers: &[ToolOffer]) -> Vec<String> {
    let names: BTreeSet<_> = offers
        .iter()
        .flat_map(|offer| &offer.tool.secrets)
        .collect();
    names.into_iter().cloned().collect()
}

fn agreement(merged: &ToolSpec, offered: &ToolSpec) -> RegisteredTool {
    let offered = ToolSpec {
        version: merged.version.clone(),
        secrets: merged.secrets.clone(),
        ..offered.clone()
    };
    if *merged == offered {
        RegisteredTool::Agreed
    } else {
        RegisteredTool::Differs
    }
}

/// The offers with this one first. A node offers one definition.
fn with_offer(
    known: &[ToolOffer],
    node: &NodeName,
    spec: &ToolSpec,
    now: DateTime<Utc>,
) -> Vec<ToolOffer> {
    let same = known.iter().find(|offer| offer.tool == *spec);
    let mut nodes = same.map(|offer| offer.nodes.clone()).unwrap_or_default();
    nodes.retain(|known| known != node);
    nodes.push(node.clone());
    let over = nodes.len().saturating_sub(OFFERING_NODES_KEPT);
    nodes.drain(..over);
    let mut offers = vec![ToolOffer {
        tool: spec.clone(),
        nodes,
        registered_at: now,
    }];
    let others = known.iter().filter(|offer| offer.tool != *spec).cloned();
    offers.extend(others.map(|mut offer| {
        offer.nodes.retain(|known| known != node);
        offer
    }));
    offers.truncate(OFFERS_KEPT);
    offers
}
