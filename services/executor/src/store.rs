//! Rows of the executor: the only module with its queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the entity macro generates public models and a nested save that begins a transaction"
)]

/// Implements [`holdpoint_store::StateRow`] for an entity of a state with a version, by the row of a state.
macro_rules! state_row {
    ($State:ty, |$state:ident, $stored:ident| $row:expr $(, $constant:expr)?) => {
        impl ActiveModelBehavior for ActiveModel {}

        impl holdpoint_store::StateRow for Entity {
            type State = $State;

            $(const CONSTANT: &'static [Column] = $constant;)?

            fn state(row: &Model) -> &str {
                &row.state
            }

            fn version(state: &$State) -> u64 {
                state.version
            }

            fn row(
                $state: &$State,
                $stored: holdpoint_store::StoredState,
            ) -> Result<ActiveModel, StoreError> {
                Ok($row)
            }
        }
    };
}

mod activity_row;
mod agent_row;
mod agent_version_row;
mod contact_field_row;
mod contact_list;
mod contact_row;
mod erasure;
mod history_row;
mod lease_event_row;
mod lease_row;
mod library_row;
mod node_row;
mod operation_result_row;
mod operation_row;
mod retention;
mod run_limit_row;
mod run_row;
mod run_stats;
mod run_value_row;
mod step_row;
mod suspension;
mod tool_row;
mod workspace_counts;
mod workspace_row;

use self::suspension::{blob_chunk_row, snapshot_row, tool_calls};

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, RunId, UserName, Workspace};
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{ChangedState, StateRow as _, StoreError, Transaction, insert_rows};
use holdpoint_user_directory::table as directory;
use sea_orm::DatabaseConnection;

use self::erasure::erase;
use self::retention::delete_expired;
use crate::domain::scope::Scope;
use crate::domain::{Aggregate, Effect, ExecutorDomain, Fact, Key, KnownUser, Lease, Need};
use crate::executor::Executor;

pub(crate) use activity_row::{mails_of, newest as activities_of};
pub(crate) use agent_row::{list as list_agents, named as agents};
pub(crate) use agent_version_row::{find as plans, newest as agent_versions, one as plan};
pub(crate) use contact_field_row::names as contact_field_names;
pub(crate) use contact_list::list as list_contacts;
pub(crate) use contact_row::{
    erasing as unfinished_erasures, one as contact, with_keys as contacts_with_keys,
};
pub(crate) use history_row::after as history_after;
pub(crate) use lease_event_row::{of_run as lease_events_of, of_steps as lease_events_of_steps};
pub(crate) use lease_row::{
    due as due_leases, forgettable_nodes, id as lease_id, list as list_leases, load as leases,
};
pub(crate) use library_row::one as library;
pub(crate) use node_row::{list as list_nodes, named as nodes, suspects};
pub(crate) use operation_result_row::{counts as result_counts, list as list_results};
pub(crate) use operation_row::{
    list as list_operations, one as operation, unfinished as unfinished_operations,
};
pub(crate) use retention::has_expired;
pub(crate) use run_limit_row::{first_queued, queued_keys};
pub(crate) use run_row::{
    AwaitedReply, ContactKey, Filter, OfContact, awaiting_reply, awaiting_reply_of,
    count as count_runs, list as list_runs, of_contact as runs_of_contact, one as run,
    open as open_runs, statuses as run_statuses, with_ids as runs,
};
pub(crate) use run_stats::{RunStatsRow, newest as newest_run_stats};
pub(crate) use run_value_row::{find as values, input_of, plan_of as generated_plan};
pub(crate) use step_row::{
    named as steps_named, of_run as steps_of, queued as queued_steps, with_tool as steps_with_tool,
};
pub(crate) use suspension::blob_chunk_row::{
    BlobId, find as blob_content, has_expired as has_expired_blobs,
};
pub(crate) use suspension::snapshot_row::of_run as snapshot_of;
pub(crate) use tool_row::{list as list_tools, named as tools, names as tool_names};
pub(crate) use workspace_row::one as workspace_scope;

/// Scopes that some of their runs do not follow yet. Without an agent a scope is the whole workspace.
pub(crate) async fn pending_scopes(
    db: &DatabaseConnection,
    limit: u64,
) -> Result<Vec<(Workspace, Option<AgentName>, Scope)>, StoreError> {
    let agents = agent_row::to_sync(db, limit).await?.into_iter();
    let workspaces = workspace_row::to_sync(db, limit).await?.into_iter();
    let of_agents = agents.map(|it| (it.workspace, Some(it.name), it.scope));
    let of_workspaces = workspaces.map(|it| (it.workspace, None, it.scope));
    Ok(of_workspaces.chain(of_agents).collect())
}

/// Whether some rows of a workspace's runs do not show a command for many yet.
pub(crate) async fn has_pending_scope(
    db: &DatabaseConnection,
    workspace: &Workspace,
) -> Result<bool, StoreError> {
    if agent_row::any_to_sync(db, workspace).await? {
        return Ok(true);
    }
    let scope = workspace_row::one(db, workspace).await?;
    Ok(scope.is_some_and(|it| !it.scope.is_followed()))
}

impl Store<ExecutorDomain> for Executor {
    /// One statement for each table.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        let agents = named(keys, Key::try_as_agent_ref);
        let contacts = named(keys, Key::try_as_contact_ref);
        let tools = named(keys, Key::try_as_tool_ref);
        let runs = keys.iter().filter_map(Key::try_as_run_ref);
        let runs: Vec<_> = runs.map(|run| run.uuid()).collect();
        let nodes = keys.iter().filter_map(Key::try_as_node_ref);
        let nodes: Vec<_> = nodes.map(ToString::to_string).collect();
        let workspaces: Vec<_> = keys.iter().filter_map(Key::try_as_workspace_ref).collect();
        let operations = keys.iter().filter_map(Key::try_as_operation_ref);
        let operations: Vec<_> = operations.map(|operation| operation.uuid()).collect();
        let mut found = Vec::with_capacity(keys.len());
        let agents = agent_row::Entity::load_shared(db, &agents).await?;
        found.extend(agents.into_iter().map(Aggregate::Agent));
        let contacts = contact_row::Entity::load_states(db, &contacts).await?;
        found.extend(contacts.into_iter().map(Aggregate::Contact));
        let scopes = workspace_row::load_shared(db, &workspaces).await?;
        found.extend(scopes.into_iter().map(Aggregate::Workspace));
        let runs = run_row::Entity::load_states(db, &runs).await?;
        found.extend(runs.into_iter().map(Aggregate::Run));
        let nodes = node_row::Entity::load_states(db, &nodes).await?;
        found.extend(nodes.into_iter().map(Aggregate::Node));
        let tools = tool_row::Entity::load_states(db, &tools).await?;
        found.extend(tools.into_iter().map(Aggregate::Tool));
        let libraries = keys.iter().filter_map(Key::try_as_library_ref);
        let libraries: Vec<_> = libraries.map(ToString::to_string).collect();
        let libraries = library_row::Entity::load_states(db, &libraries).await?;
        found.extend(libraries.into_iter().map(Aggregate::Library));
        let operations = operation_row::Entity::load_states(db, &operations).await?;
        found.extend(operations.into_iter().map(Aggregate::Operation));
        Ok(found
            .into_iter()
            .map(|state| (key_of(&state), state))
            .collect())
    }

    /// Plans, values and users; aggregates come through `load`.
    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        let mut values: Vec<(RunId, &str)> = Vec::new();
        let (mut plans, mut requests, mut activities) = (Vec::new(), Vec::new(), Vec::new());
        let (mut failed, mut tool_calls, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut places, mut starts, mut once) = (Vec::new(), Vec::new(), Vec::new());
        let (mut results, mut operations) = (Vec::new(), Vec::new());
        let (mut counted, mut generated_plans) = (Vec::new(), Vec::new());
        let mut users: BTreeMap<&Workspace, Vec<UserName>> = BTreeMap::new();
        for need in needs {
            match need {
                Need::User(workspace, name) => {
                    users.entry(workspace).or_default().push(name.clone());
                }
                Need::Value(run, name) => values.push((*run, name)),
                Need::GeneratedPlan(run) => generated_plans.push(*run),
                Need::Plan(workspace, agent, version) => plans.push((workspace, agent, *version)),
                Need::Request(run, step) => requests.push((*run, step.as_str())),
                Need::FailedAttempts(run, step) => failed.push((*run, step.as_str())),
                Need::ToolCalls(run) => tool_calls.push(*run),
                Need::Snapshot(run) => snapshots.push(*run),
                Need::ToolCount(workspace) => counted.push(workspace),
                Need::Activities(workspace, contact) => activities.push((workspace, contact)),
                Need::Places(key) => places.push(key.as_str()),
                Need::Starts(key) => starts.push(key.as_str()),
                Need::StartedOnce(key) => once.push(key.as_str()),
                Need::OperationResult(operation, run) => results.push((*operation, *run)),
                Need::RunningOperations(workspace) => operations.push(workspace),
                Need::State(_) | Need::DirectoryAge => {}
            }
        }
        let mut found = agent_version_row::find(db, &plans).await?;
        found.extend(run_value_row::find_plans(db, &generated_plans).await?);
        found.extend(run_value_row::find(db, &values).await?);
        found.extend(step_row::requests(db, &requests).await?);
        found.extend(step_row::failed_attempts(db, &failed).await?);
        found.extend(activity_row::find(db, &activities).await?);
        found.extend(tool_calls::find(db, &tool_calls).await?);
        found.extend(snapshot_row::find(db, &snapshots).await?);
        found.extend(run_limit_row::find_places(db, &places).await?);
        found.extend(run_limit_row::find_starts(db, &starts).await?);
        found.extend(run_limit_row::find_started(db, &once).await?);
        found.extend(operation_result_row::find(db, &results).await?);
        found.extend(operation_row::find_counts(db, &operations).await?);
        found.extend(tool_row::find_counts(db, &counted).await?);
        if needs.contains(&Need::DirectoryAge)
            && let Some(age) = self.directory.age()
        {
            found.push((Need::DirectoryAge, Fact::DirectoryAge(age)));
        }
        for (workspace, names) in users {
            for user in directory::find_all(db, workspace, &names).await? {
                let need = Need::User(workspace.clone(), user.name);
                let fact = KnownUser {
                    is_active: user.active,
                    roles: user.roles,
                };
                found.push((need, Fact::User(Arc::new(fact))));
            }
        }
        Ok(found)
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, ExecutorDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let agents = states(changed, Aggregate::try_as_agent_ref);
        let contacts = states(changed, Aggregate::try_as_contact_ref);
        let runs = states(changed, Aggregate::try_as_run_ref);
        let workspaces = states(changed, Aggregate::try_as_workspace_ref);
        let nodes = states(changed, Aggregate::try_as_node_ref);
        let tools = states(changed, Aggregate::try_as_tool_ref);
        let libraries = states(changed, Aggregate::try_as_library_ref);
        let operations = states(changed, Aggregate::try_as_operation_ref);
        let mut losers = agent_row::Entity::save(db, &agents, now).await?;
        losers.extend(contact_row::Entity::save(db, &contacts, now).await?);
        losers.extend(run_row::Entity::save(db, &runs, now).await?);
        losers.extend(workspace_row::Entity::save(db, &workspaces, now).await?);
        losers.extend(node_row::save(db, nodes, now).await?);
        losers.extend(tool_row::Entity::save(db, &tools, now).await?);
        losers.extend(library_row::Entity::save(db, &libraries, now).await?);
        losers.extend(operation_row::Entity::save(db, &operations, now).await?);
        Ok(losers)
    }

    /// One statement for each table.
    #[expect(clippy::too_many_lines, reason = "one line for each variant")]
    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let (mut versions, mut values, mut forgotten) = (Vec::new(), Vec::new(), Vec::new());
        let (mut histories, mut lease_events, mut activities) = (vec![], vec![], vec![]);
        let mut steps: BTreeMap<(RunId, &str), step_row::Merged<'_>> = BTreeMap::new();
        for effect in effects {
            match effect {
                Effect::AgentVersion {
                    workspace,
                    agent,
                    version,
                    plan,
                } => versions.push(agent_version_row::active(
                    workspace, agent, *version, plan, now,
                )?),
                Effect::Value { run, name, value } => {
                    values.push(run_value_row::active(*run, name, value)?);
                }
                Effect::Step(row) => {
                    let merged = steps.entry((row.run, row.step.as_str()));
                    merged.or_default().add(row);
                }
                Effect::History { run, items, .. } => {
                    histories.push(history_row::active(*run, items)?);
                }
                Effect::LeaseEvent { run, step, entry } => {
                    lease_events.push(lease_event_row::active(*run, step, entry)?);
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
                Effect::Users(changes) => directory::apply(db, changes).await?,
                Effect::DeleteExpiredRuns { .. }
                | Effect::StepDispatch(_)
                | Effect::Lease(_)
                | Effect::LeaseEnded { .. }
                | Effect::LeasesRenewed { .. }
                | Effect::ScopeSyncPending
                | Effect::OperationResult(_)
                | Effect::OperationPending
                | Effect::EraseContactTraces { .. }
                | Effect::ErasurePending
                | Effect::DeleteRun { .. }
                | Effect::Timer { .. }
                | Effect::Hold { .. }
                | Effect::RunEnded { .. }
                | Effect::ContactEvent { .. }
                | Effect::ContactFields { .. }
                | Effect::NodeTimer { .. }
                | Effect::ChildRun { .. }
                | Effect::ChildRunEnded { .. }
                | Effect::Snapshot(_)
                | Effect::Blob { .. }
                | Effect::DeleteExpiredBlobs { .. }
                | Effect::Limits { .. }
                | Effect::PlacesChanged { .. }
                | Effect::ReplyPending { .. }
                | Effect::ProbeNode { .. } => {}
            }
        }
        write_leases(db, lease_events, effects, now).await?;
        activity_row::replace(db, &forgotten, activities).await?;
        insert_rows(db, versions, None).await?;
        step_row::upsert(db, steps.into_values()).await?;
        write_histories_and_delete(db, values, histories, effects).await
    }
}

fn key_of(state: &Aggregate) -> Key {
    match state {
        Aggregate::Agent(agent) => Key::Agent(agent.workspace.clone(), agent.name.clone()),
        Aggregate::Contact(contact) => Key::Contact(contact.workspace.clone(), contact.id.clone()),
        Aggregate::Run(run) => Key::Run(run.id),
        Aggregate::Workspace(scope) => Key::Workspace(scope.workspace.clone()),
        Aggregate::Node(node) => Key::Node(node.name.clone()),
        Aggregate::Tool(tool) => Key::Tool(tool.workspace.clone(), tool.spec.name.clone()),
        Aggregate::Library(library) => Key::Library(library.workspace.clone()),
        Aggregate::Operation(operation) => Key::Operation(operation.id),
        Aggregate::Stateless => Key::Users,
    }
}

/// The keys of one table whose key is a workspace and a name.
fn named<'k, N: ToString + 'k>(
    keys: &'k [Key],
    of_table: impl Fn(&'k Key) -> Option<(&'k Workspace, &'k N)>,
) -> Vec<(String, String)> {
    let keys = keys.iter().filter_map(of_table);
    keys.map(|(workspace, name)| (workspace.to_string(), name.to_string()))
        .collect()
}

fn states<'c, S>(
    changed: &[Changed<'c, ExecutorDomain>],
    of_table: impl Fn(&'c Aggregate) -> Option<&'c S>,
) -> Vec<ChangedState<'c, S, Key>> {
    let changed = changed.iter().filter_map(|one| {
        Some(ChangedState {
            state: of_table(one.state)?,
            key: one.key,
            read_version: one.read_version,
        })
    });
    changed.collect()
}

/// Writes values, what happened, what operations did, the snapshots of suspended runs, and the limits of runs. Deletions
/// come last, so that no row of a deleted run is written after its deletion.
async fn write_histories_and_delete(
    db: &Transaction,
    values: Vec<run_value_row::ActiveModel>,
    histories: Vec<history_row::ActiveModel>,
    effects: &[Effect],
) -> Result<(), StoreError> {
    run_value_row::insert(db, values).await?;
    contact_field_row::write(db, effects).await?;
    insert_rows(db, histories, None).await?;
    operation_result_row::insert(db, effects).await?;
    snapshot_row::upsert(db, effects).await?;
    blob_chunk_row::write(db, effects).await?;
    run_limit_row::upsert(db, effects).await?;
    erase(db, effects).await?;
    delete_expired(db, effects).await
}

/// The last effect on each lease of a batch counts. The leases of heartbeats are renewed.
async fn write_leases(
    db: &Transaction,
    lease_events: Vec<lease_event_row::ActiveModel>,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut renewed = Vec::new();
    let mut leases: BTreeMap<String, Option<&Lease>> = BTreeMap::new();
    for effect in effects {
        if let Effect::LeasesRenewed { working } = effect {
            renewed.extend(working.iter().map(|it| lease_row::id(it.run, &it.step)));
        } else if let Effect::Lease(lease) = effect {
            leases.insert(lease_row::id(lease.run, &lease.step), Some(lease));
        } else if let Effect::LeaseEnded { run, step } = effect {
            leases.insert(lease_row::id(*run, step), None);
        }
    }
    let held: Vec<_> = leases.values().filter_map(|lease| *lease).collect();
    let ended = leases.iter().filter(|(_, lease)| lease.is_none());
    let ended: Vec<_> = ended.map(|(id, _)| id.clone()).collect();
    lease_row::forget(db, &ended).await?;
    lease_row::upsert(db, &held).await?;
    lease_row::renew(db, &renewed, now).await?;
    insert_rows(db, lease_events, None).await
}
