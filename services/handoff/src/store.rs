//! Rows of the handoff service: the only module with its queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the entity macro generates public models and a nested save that begins a transaction"
)]

mod counter_row;
mod list_columns;
mod name_groups;
mod policy_row;
mod request_row;
mod retention;
mod standing_approval_row;
mod standing_approval_use_row;
mod user_change_row;
mod user_row;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Changed, Store, Traces, erase_traces};
use holdpoint_store::{BrokenRow as _, ChangedState, StateRow as _, StoreError, Transaction};

use crate::domain::{Aggregate, Effect, Fact, HandoffDomain, Key, Need, User};
use crate::service::Handoff;

pub(crate) use policy_row::{Entity as Policies, list_policies};
pub(crate) use request_row::{
    Entity as Requests, Filter, Order, RequestCursor, Snoozed, known_requests, list_requests,
    list_requests_of,
};
pub(crate) use retention::has_expired;
pub(crate) use standing_approval_row::{
    Entity as StandingApprovals, StandingApprovalFilter, list_standing_approvals,
};
pub(crate) use standing_approval_use_row::list_uses;
pub(crate) use user_change_row::list_user_changes;
pub(crate) use user_row::{Entity as Users, find_leaving, list_members, list_users};

impl Store<HandoffDomain> for Handoff {
    /// Loads aggregates, one statement for each table.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        let (mut requests, mut users, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        let mut standing = Vec::new();
        for key in keys {
            match key {
                Key::Request(workspace, id) => {
                    requests.push((workspace.to_string(), id.to_string()));
                }
                Key::User(workspace, name) => users.push((workspace.to_string(), name.to_string())),
                Key::Policy(workspace, name) => {
                    policies.push((workspace.to_string(), name.to_string()));
                }
                Key::StandingApproval(workspace, id) => {
                    standing.push((workspace.to_string(), id.to_string()));
                }
                Key::Expired => {}
            }
        }
        let requests = Requests::load_states(db, &requests).await?.into_iter();
        let users = Users::load_states(db, &users).await?.into_iter();
        let policies = Policies::load_states(db, &policies).await?.into_iter();
        let standing = StandingApprovals::load_states(db, &standing).await?;
        let standing = standing.into_iter();
        let found = requests
            .map(|request| Aggregate::Request(Box::new(request)))
            .chain(users.map(Aggregate::User))
            .chain(policies.map(|policy| Aggregate::Policy(Box::new(policy))))
            .chain(standing.map(|one| Aggregate::StandingApproval(Box::new(one))));
        Ok(found.map(|state| (state.key(), state)).collect())
    }

    /// Loads facts that are not aggregates, one statement for each kind.
    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        let (mut owned, mut inhabited) = (Vec::new(), Vec::new());
        let (mut roles, mut loaded, mut ruled) = (Vec::new(), Vec::new(), Vec::new());
        let (mut standing, mut counted) = (Vec::new(), Vec::new());
        for need in needs {
            match need {
                Need::Owners(workspace) => owned.push(workspace),
                Need::Members(workspace) => inhabited.push(workspace),
                Need::Role(workspace, role) => roles.push((workspace, role)),
                Need::Loads(workspace) => loaded.push(workspace),
                Need::Policies(workspace) => ruled.push(workspace),
                Need::StandingApprovals(workspace, kind, now) => {
                    standing.push((workspace, kind, *now));
                }
                Need::StandingApprovalCount { .. } => counted.push(need),
                // The kernel loads aggregates through `load`.
                Need::User(..) | Need::Policy(..) | Need::Request(..) => {}
            }
        }
        let mut found = Vec::with_capacity(needs.len());
        for (workspace, owners) in user_row::list_owners(db, &owned).await? {
            found.push((Need::Owners(workspace), Fact::Owners(owners)));
        }
        for (workspace, any) in user_row::find_inhabited(db, &inhabited).await? {
            found.push((Need::Members(workspace), Fact::Members(any)));
        }
        for (workspace, role, members) in list_members(db, &roles).await? {
            found.push((Need::Role(workspace, role), Fact::Role(members)));
        }
        for (workspace, loads) in request_row::count_loads(db, &loaded).await? {
            found.push((Need::Loads(workspace), Fact::Loads(loads)));
        }
        for (workspace, names) in policy_row::list_names(db, &ruled).await? {
            found.push((Need::Policies(workspace), Fact::Policies(names)));
        }
        found.extend(standing_approval_row::find_for_calls(db, &standing).await?);
        found.extend(standing_approval_row::count_live(db, &counted).await?);
        Ok(found)
    }

    /// Saves each state if its row still has the version that was read; returns the other keys.
    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, HandoffDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let (mut requests, mut users, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        let mut standing = Vec::new();
        for one in changed {
            match one.state {
                Aggregate::Request(request) => requests.push(one.with_state(&**request)),
                Aggregate::User(user) => users.push(one.with_state(user)),
                Aggregate::Policy(policy) => policies.push(one.with_state(&**policy)),
                Aggregate::StandingApproval(state) => standing.push(one.with_state(&**state)),
                Aggregate::Expired => {}
            }
        }
        let mut losers = Requests::save(db, &requests, now).await?;
        losers.extend(Policies::save(db, &policies, now).await?);
        losers.extend(StandingApprovals::save(db, &standing, now).await?);
        losers.extend(Users::save(db, &users, now).await?);
        if !users.is_empty() && losers.is_empty() {
            losers.extend(find_ownerless(db, &users).await?);
        }
        Ok(losers)
    }

    /// Stores changes of users, from which other services copy their user directory, and deletes what has expired.
    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        for effect in effects {
            if let Effect::DeleteExpired { before } = effect {
                retention::delete_expired(db, *before).await?;
            }
        }
        erase_traces_of(db, effects).await?;
        standing_approval_use_row::insert(db, effects, now).await?;
        let changes: Vec<_> = effects
            .iter()
            .filter_map(Effect::try_as_user_changed_ref)
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        let last = counter_row::take(db, changes.len()).await?;
        user_change_row::insert(db, &changes, last, now).await
    }
}

/// Deletes what the kernel has kept of messages about erased holds.
async fn erase_traces_of(db: &Transaction, effects: &[Effect]) -> Result<(), StoreError> {
    let mut traces: BTreeMap<&Workspace, Traces> = BTreeMap::new();
    for effect in effects {
        if let Effect::Erased {
            workspace,
            id,
            contact,
        } = effect
        {
            let of_workspace = traces.entry(workspace).or_default();
            of_workspace.add_run(id.run);
            let added = of_workspace.add_contact(contact);
            added.map_err(Requests::broken)?;
        }
    }
    for (workspace, traces) in traces {
        erase_traces(db, workspace, &traces).await?;
    }
    Ok(())
}

/// Users of workspaces that have no active owner any more. Two replicas may each have removed one of two
/// owners after they had seen the other one. The second transaction waits for the counter's row, sees what
/// the first one has committed, and decides again.
async fn find_ownerless(
    db: &Transaction,
    users: &[ChangedState<'_, User, Key>],
) -> Result<Vec<Key>, StoreError> {
    counter_row::lock(db).await?;
    let mut workspaces: Vec<_> = users.iter().map(|one| &one.state.workspace).collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    let owners = user_row::list_owners(db, &workspaces).await?;
    let is_owned = |workspace: &Workspace| {
        owners
            .iter()
            .any(|(one, owners)| one == workspace && !owners.is_empty())
    };
    let lost = users.iter().filter(|one| !is_owned(&one.state.workspace));
    Ok(lost.map(|one| one.key.clone()).collect())
}
