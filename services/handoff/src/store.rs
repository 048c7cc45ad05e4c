//! Rows of the handoff service: the only module with its queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the entity macro generates public models and a nested save that begins a transaction"
)]

mod counter_row;
mod policy_row;
mod request_row;
mod snooze_column;
mod token_set_column;
mod user_change_row;
mod user_row;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use holdpoint_ids::Workspace;
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{ChangedState, StateRow as _, StoreError, Transaction};

use crate::Handoff;
use crate::domain::{Aggregate, Effect, Fact, HandoffDomain, Key, Need, User};

pub(crate) use policy_row::{list as list_policies, named as policies};
pub(crate) use request_row::{
    Filter, Order, RequestCursor as Behind, Snoozed, known, list as list_requests,
    of_recipient as requests_of, with_ids as requests,
};
pub(crate) use user_change_row::after as user_facts_after;
pub(crate) use user_row::{leaving, list as list_users, members, named as users};

impl Store<HandoffDomain> for Handoff {
    /// Loads aggregates, one statement for each table.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        let (mut requests, mut users, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            match key {
                Key::Request(workspace, id) => {
                    requests.push((workspace.to_string(), id.to_string()));
                }
                Key::User(workspace, name) => users.push((workspace.to_string(), name.to_string())),
                Key::Policy(workspace, name) => {
                    policies.push((workspace.to_string(), name.to_string()));
                }
            }
        }
        let mut found = Vec::with_capacity(keys.len());
        for request in request_row::Entity::load_states(db, &requests).await? {
            let key = Key::Request(request.workspace.clone(), request.id);
            found.push((key, Aggregate::Request(Box::new(request))));
        }
        for user in user_row::Entity::load_states(db, &users).await? {
            let key = Key::User(user.workspace.clone(), user.name.clone());
            found.push((key, Aggregate::User(user)));
        }
        for policy in policy_row::Entity::load_states(db, &policies).await? {
            let key = Key::Policy(policy.workspace.clone(), policy.name.clone());
            found.push((key, Aggregate::Policy(Box::new(policy))));
        }
        Ok(found)
    }

    /// Loads facts that are not aggregates, one statement for each kind.
    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        let (mut owned, mut inhabited) = (Vec::new(), Vec::new());
        let (mut roles, mut loaded, mut ruled) = (Vec::new(), Vec::new(), Vec::new());
        for need in needs {
            match need {
                Need::Owners(workspace) => owned.push(workspace),
                Need::Members(workspace) => inhabited.push(workspace),
                Need::Role(workspace, role) => roles.push((workspace, role)),
                Need::Loads(workspace) => loaded.push(workspace),
                Need::Policies(workspace) => ruled.push(workspace),
                // The kernel loads aggregates through `load`.
                Need::User(..) | Need::Policy(..) | Need::Request(..) => {}
            }
        }
        let mut found = Vec::with_capacity(needs.len());
        for (workspace, owners) in user_row::owners(db, &owned).await? {
            found.push((Need::Owners(workspace), Fact::Owners(owners)));
        }
        for (workspace, any) in user_row::inhabited(db, &inhabited).await? {
            found.push((Need::Members(workspace), Fact::Members(any)));
        }
        for (workspace, role, members) in members(db, &roles).await? {
            found.push((Need::Role(workspace, role), Fact::Role(members)));
        }
        for (workspace, loads) in request_row::loads(db, &loaded).await? {
            found.push((Need::Loads(workspace), Fact::Loads(loads)));
        }
        for (workspace, names) in policy_row::names(db, &ruled).await? {
            found.push((Need::Policies(workspace), Fact::Policies(names)));
        }
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
        for one in changed {
            match one.state {
                Aggregate::Request(request) => requests.push(changed_state(one, &**request)),
                Aggregate::User(user) => users.push(changed_state(one, user)),
                Aggregate::Policy(policy) => policies.push(changed_state(one, &**policy)),
            }
        }
        let mut losers = request_row::Entity::save(db, &requests, now).await?;
        losers.extend(policy_row::Entity::save(db, &policies, now).await?);
        losers.extend(user_row::Entity::save(db, &users, now).await?);
        if !users.is_empty() && losers.is_empty() {
            losers.extend(find_ownerless(db, &users).await?);
        }
        Ok(losers)
    }

    /// Stores changes of users, from which other services copy their user directory.
    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let changes: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::UserChanged { workspace, user } => Some((workspace, user)),
                Effect::Timer { .. }
                | Effect::Close { .. }
                | Effect::HandoffUpdate { .. }
                | Effect::RequestEvent { .. }
                | Effect::Changed { .. } => None,
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        let last = counter_row::take(db, changes.len()).await?;
        user_change_row::insert(db, &changes, last, now).await
    }
}

fn changed_state<'c, S>(
    one: &Changed<'c, HandoffDomain>,
    state: &'c S,
) -> ChangedState<'c, S, Key> {
    ChangedState {
        state,
        key: one.key,
        read_version: one.read_version,
    }
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
    let owners = user_row::owners(db, &workspaces).await?;
    let is_owned = |workspace: &Workspace| {
        owners
            .iter()
            .any(|(one, owners)| one == workspace && !owners.is_empty())
    };
    let lost = users.iter().filter(|one| !is_owned(&one.state.workspace));
    Ok(lost.map(|one| one.key.clone()).collect())
}
