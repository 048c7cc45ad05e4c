//! Rows of the executor: the only place with its queries. Rows never leave it.

mod agent_row;
mod agent_version_row;
mod contact_row;
mod history_row;
mod run_row;
mod run_value_row;
mod step_row;
mod workspace_row;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, ContactId, RunId, Workspace};
use holdpoint_kernel::Changed;
use holdpoint_store::StoreError;
use sea_orm::{DatabaseConnection, DatabaseTransaction};

use crate::Executor;
use crate::domain::scope::Scope;
use crate::domain::{Aggregate, Effect, Fact, Key, Need};

pub(crate) use agent_row::{list as list_agents, named as agents};
pub(crate) use agent_version_row::one as plan;
pub(crate) use contact_row::{list as list_contacts, load as contacts};
pub(crate) use history_row::after as history_after;
pub(crate) use run_row::{Filter, list as list_runs, one as run, open as open_runs};
pub(crate) use step_row::of_run as steps_of;
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
    db: &DatabaseTransaction,
    keys: &[Key],
) -> Result<Vec<(Key, Aggregate)>, StoreError> {
    let mut agents: BTreeMap<&Workspace, Vec<&AgentName>> = BTreeMap::new();
    let mut contacts: BTreeMap<&Workspace, Vec<&ContactId>> = BTreeMap::new();
    let mut runs = Vec::new();
    let mut workspaces = Vec::new();
    for key in keys {
        match key {
            Key::Agent(workspace, agent) => agents.entry(workspace).or_default().push(agent),
            Key::Contact(workspace, contact) => {
                contacts.entry(workspace).or_default().push(contact);
            }
            Key::Run(run) => runs.push(*run),
            Key::Workspace(workspace) => workspaces.push(workspace),
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
    Ok(found)
}

/// Loads what decisions lack: plans and values.
pub(crate) async fn find(
    db: &DatabaseTransaction,
    needs: &[Need],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut values: Vec<(RunId, &str)> = Vec::new();
    let mut plans = Vec::new();
    for need in needs {
        match need {
            Need::Value(run, name) => values.push((*run, name)),
            Need::Plan(workspace, agent, version) => plans.push((workspace, agent, *version)),
            // Aggregates come through `load`.
            Need::Agent(..) | Need::Contact(..) | Need::Workspace(_) => {}
        }
    }
    let mut found = agent_version_row::find(db, &plans).await?;
    found.extend(run_value_row::find(db, &values).await?);
    Ok(found)
}

/// Saves states under their guards; returns those that lost.
pub(crate) async fn save(
    db: &DatabaseTransaction,
    changed: &[Changed<'_, Executor>],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let (mut agents, mut contacts, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    let mut workspaces = Vec::new();
    for one in changed {
        match one.state {
            Aggregate::Agent(agent) => agents.push((agent, one.read_version)),
            Aggregate::Contact(contact) => contacts.push((contact, one.read_version)),
            Aggregate::Run(run) => runs.push((run, one.read_version)),
            Aggregate::Workspace(scope) => workspaces.push((scope, one.read_version)),
        }
    }
    let mut losers = agent_row::save(db, &agents).await?;
    losers.extend(contact_row::save(db, &contacts, now).await?);
    losers.extend(run_row::save(db, &runs).await?);
    losers.extend(workspace_row::save(db, &workspaces).await?);
    Ok(losers)
}

/// Stores what belongs beside the states, one statement a table.
pub(crate) async fn record(
    db: &DatabaseTransaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let (mut versions, mut values) = (Vec::new(), Vec::new());
    let mut histories = Vec::new();
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
            Effect::HandOut(_) | Effect::Timer { .. } => {}
        }
    }
    agent_version_row::insert(db, versions).await?;
    run_value_row::insert(db, values).await?;
    step_row::upsert(db, steps.into_values()).await?;
    history_row::insert(db, histories).await
}
