//! Rows of the executor: the only place with its queries. Rows never leave it.

mod activity_row;
mod agent_row;
mod agent_version_row;
mod contact_row;
mod history_row;
mod lease_event_row;
mod lease_row;
mod node_row;
mod run_row;
mod run_value_row;
mod step_row;
mod tool_row;
mod workspace_row;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, RunId, ToolName, UserName, Workspace};
use holdpoint_kernel::Changed;
use holdpoint_store::{StoreError, Transaction};
use holdpoint_user_directory::table as people;
use sea_orm::DatabaseConnection;

use crate::domain::ExecutorDomain;
use crate::domain::scope::Scope;
use crate::domain::{Aggregate, Effect, Fact, Key, Lease, Need};

pub(crate) use activity_row::newest as activities_of;
pub(crate) use agent_row::{list as list_agents, named as agents};
pub(crate) use agent_version_row::one as plan;
pub(crate) use contact_row::{list as list_contacts, load as contacts};
pub(crate) use history_row::after as history_after;
pub(crate) use lease_event_row::of_run as handovers_of;
pub(crate) use lease_row::{
    due as due_leases, id as lease_id, list as list_leases, load as leases,
};
pub(crate) use node_row::{
    forgettable as forgettable_nodes, list as list_nodes, load as nodes, suspects,
};
pub(crate) use run_row::{Filter, list as list_runs, load as runs, one as run, open as open_runs};
pub(crate) use run_value_row::{find as values, input_of};
pub(crate) use step_row::{of_run as steps_of, queued as queued_steps};
pub(crate) use tool_row::{
    list as list_tools, load as tools, names as tool_names, registered as registered_tools,
};
pub(crate) use workspace_row::one as workspace_scope;

/// Scopes with pages to come: whose, of which agent, and what.
pub(crate) async fn scopes_to_follow(
    db: &DatabaseConnection,
    limit: u64,
) -> Result<Vec<(Workspace, Option<AgentName>, Scope)>, StoreError> {
    let agents = agent_row::to_follow(db, limit).await?;
    let workspaces = workspace_row::to_follow(db, limit).await?;
    let agents = agents
        .into_iter()
        .map(|agent| (agent.workspace, Some(agent.name), agent.scope));
    let workspaces = workspaces
        .into_iter()
        .map(|it| (it.workspace, None, it.scope));
    Ok(workspaces.chain(agents).collect())
}

/// Whether some runs of a workspace may not be what their rows say.
pub(crate) async fn has_pages_to_come(
    db: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<bool, StoreError> {
    if agent_row::any_to_follow(db, workspace).await? {
        return Ok(true);
    }
    let scope = workspace_row::one(db, workspace).await?;
    Ok(scope.is_some_and(|it| !it.scope.is_followed()))
}

/// Loads aggregates, one statement a table (and workspace).
pub(crate) async fn load(
    db: &Transaction,
    keys: &[Key],
) -> Result<Vec<(Key, Aggregate)>, StoreError> {
    let mut agents: BTreeMap<&Workspace, Vec<&AgentName>> = BTreeMap::new();
    let mut contacts: BTreeMap<&Workspace, Vec<&ContactId>> = BTreeMap::new();
    let mut tools: BTreeMap<&Workspace, Vec<&ToolName>> = BTreeMap::new();
    let (mut runs, mut nodes, mut workspaces) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        match key {
            Key::Agent(workspace, agent) => agents.entry(workspace).or_default().push(agent),
            Key::Contact(workspace, contact) => {
                contacts.entry(workspace).or_default().push(contact);
            }
            Key::Run(run) => runs.push(*run),
            Key::Workspace(workspace) => workspaces.push(workspace),
            Key::Node(node) => nodes.push(node.as_str()),
            Key::Tool(workspace, name) => tools.entry(workspace).or_default().push(name),
            Key::Users | Key::Unknown(_) => {}
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for (workspace, names) in agents {
        for agent in agent_row::load(db, workspace, &names).await? {
            let key = Key::Agent(agent.workspace.clone(), agent.name.clone());
            found.push((key, Aggregate::Agent(agent)));
        }
    }
    for (workspace, ids) in contacts {
        for contact in contact_row::load(db, workspace, &ids).await? {
            let key = Key::Contact(contact.workspace.clone(), contact.id.clone());
            found.push((key, Aggregate::Contact(contact)));
        }
    }
    for scope in workspace_row::load(db, &workspaces).await? {
        let key = Key::Workspace(scope.workspace.clone());
        found.push((key, Aggregate::Workspace(scope)));
    }
    for run in run_row::load(db, &runs).await? {
        found.push((Key::Run(run.id), Aggregate::Run(run)));
    }
    for node in node_row::load(db, &nodes).await? {
        found.push((Key::Node(node.name.clone()), Aggregate::Node(node)));
    }
    for tool in tool_row::load(db, &tools).await? {
        let key = Key::Tool(tool.workspace.clone(), tool.spec.name.clone());
        found.push((key, Aggregate::Tool(tool)));
    }
    Ok(found)
}

/// Loads what decisions lack: plans and values.
pub(crate) async fn find(
    db: &Transaction,
    needs: &[Need],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut values: Vec<(RunId, &str)> = Vec::new();
    let (mut plans, mut requests, mut activities) = (Vec::new(), Vec::new(), Vec::new());
    let mut users: BTreeMap<&Workspace, Vec<UserName>> = BTreeMap::new();
    for need in needs {
        match need {
            Need::User(workspace, name) => users.entry(workspace).or_default().push(name.clone()),
            Need::Value(run, name) => values.push((*run, name)),
            Need::Plan(workspace, agent, version) => plans.push((workspace, agent, *version)),
            Need::Request(run, step) => requests.push((*run, step.as_str())),
            Need::Activities(workspace, contact) => activities.push((workspace, contact)),
            // Aggregates come through `load`.
            Need::Agent(..)
            | Need::Contact(..)
            | Need::Run(_)
            | Need::Tool(..)
            | Need::Workspace(_) => {}
        }
    }
    let mut found = agent_version_row::find(db, &plans).await?;
    found.extend(run_value_row::find(db, &values).await?);
    found.extend(step_row::requests(db, &requests).await?);
    found.extend(activity_row::find(db, &activities).await?);
    for (workspace, names) in users {
        for user in people::find_all(db, workspace, &names).await? {
            let need = Need::User(workspace.clone(), user.name);
            found.push((need, Fact::User(user.active)));
        }
    }
    Ok(found)
}

/// Saves states under their guards; returns those that lost.
pub(crate) async fn save(
    db: &Transaction,
    changed: &[Changed<'_, ExecutorDomain>],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let (mut agents, mut contacts, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut nodes, mut tools, mut workspaces) = (Vec::new(), Vec::new(), Vec::new());
    for one in changed {
        match one.state {
            Aggregate::Agent(agent) => agents.push((agent, one.read_version)),
            Aggregate::Contact(contact) => contacts.push((contact, one.read_version)),
            Aggregate::Run(run) => runs.push((run, one.read_version)),
            Aggregate::Workspace(scope) => workspaces.push((scope, one.read_version)),
            Aggregate::Node(node) => nodes.push((node, one.read_version)),
            Aggregate::Tool(tool) => tools.push((tool, one.read_version)),
            Aggregate::Users => {}
        }
    }
    let mut losers = agent_row::save(db, &agents).await?;
    losers.extend(contact_row::save(db, &contacts, now).await?);
    losers.extend(run_row::save(db, &runs).await?);
    losers.extend(workspace_row::save(db, &workspaces).await?);
    losers.extend(node_row::save(db, &nodes).await?);
    losers.extend(tool_row::save(db, &tools, now).await?);
    Ok(losers)
}

/// Stores what belongs beside the states, one statement a table.
pub(crate) async fn record(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (mut versions, mut values) = (Vec::new(), Vec::new());
    let (mut histories, mut lease_events) = (Vec::new(), Vec::new());
    let mut leases: BTreeMap<String, Option<&Lease>> = BTreeMap::new();
    let (mut heartbeats, mut activities, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps: BTreeMap<(RunId, &str), step_row::Merged<'_>> = BTreeMap::new();
    for effect in effects {
        match effect {
            Effect::AgentVersion {
                workspace,
                agent,
                version,
                plan,
            } => {
                versions.push(agent_version_row::active(
                    workspace, agent, *version, plan, now,
                )?);
            }
            Effect::Value { run, name, value } => {
                values.push(run_value_row::active(*run, name, value)?);
            }
            Effect::Step(row) => {
                let place = steps.entry((row.run, row.step.as_str()));
                place.or_default().add(row);
            }
            Effect::History { run, items, .. } => histories.push(history_row::active(*run, items)?),
            Effect::Lease(lease) => {
                leases.insert(lease_row::id(lease.run, &lease.step), Some(lease));
            }
            Effect::LeaseOver { run, step } => {
                leases.insert(lease_row::id(*run, step), None);
            }
            Effect::Claim { run, step, entry } => {
                lease_events.push(lease_event_row::active(*run, step, entry)?);
            }
            Effect::Beaten { working } => {
                let ids = working.iter();
                heartbeats.extend(ids.map(|claimed| lease_row::id(claimed.run, &claimed.step)));
            }
            Effect::Activity {
                workspace,
                contact,
                id,
                activity,
            } => activities.push(activity_row::active(workspace, contact, (id, activity))),
            Effect::ForgetActivities { workspace, contact } => {
                activities.retain(|row| !activity_row::is_of(row, workspace, contact));
                forgotten.push((workspace, contact));
            }
            Effect::Users(facts) => people::apply(db, facts).await?,
            Effect::StepDispatch(_)
            | Effect::ScopeSyncPending
            | Effect::Timer { .. }
            | Effect::Hold { .. }
            | Effect::Ended { .. }
            | Effect::NodeTimer { .. }
            | Effect::AskToBeat { .. } => {}
        }
    }
    write_leases(db, leases).await?;
    lease_row::beaten(db, &heartbeats, now).await?;
    activity_row::forget(db, &forgotten).await?;
    activity_row::insert(db, activities).await?;
    lease_event_row::insert(db, lease_events).await?;
    agent_version_row::insert(db, versions).await?;
    run_value_row::insert(db, values).await?;
    step_row::upsert(db, steps.into_values()).await?;
    history_row::insert(db, histories).await
}

/// The last word on each lease of a batch.
async fn write_leases(
    db: &Transaction,
    leases: BTreeMap<String, Option<&Lease>>,
) -> Result<(), StoreError> {
    let standing: Vec<_> = leases.values().filter_map(|lease| *lease).collect();
    let over = leases.iter().filter(|(_, lease)| lease.is_none());
    let over: Vec<_> = over.map(|(id, _)| id.clone()).collect();
    lease_row::forget(db, &over).await?;
    lease_row::upsert(db, &standing).await
}
