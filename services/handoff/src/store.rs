//! Rows of the handoff service: the only place with its queries. Rows never leave it.

mod away;
mod counter_row;
mod policy_row;
mod request_row;
mod user_change_row;
mod user_row;
mod words;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, PolicyName, UserName, Workspace};
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{StoreError, Transaction};

use crate::Handoff;
use crate::domain::{Aggregate, Effect, Fact, HandoffDomain, Key, Need};

pub(crate) use policy_row::{list as list_policies, load as policies};
pub(crate) use request_row::{
    Behind, Filter, Order, Snoozed, known, list as list_requests, load as requests,
    of_party as requests_of,
};
pub(crate) use user_change_row::after as user_facts_after;
pub(crate) use user_row::{leaving, list as list_users, load as users, members};

impl Store<HandoffDomain> for Handoff {
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        load(db, keys).await
    }

    async fn find(
        &self,
        db: &Transaction,
        needs: &[Need],
    ) -> Result<Vec<(Need, Fact)>, StoreError> {
        find(db, needs).await
    }

    async fn save(
        &self,
        db: &Transaction,
        changed: &[Changed<'_, HandoffDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        save(db, changed, now).await
    }

    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        record(db, effects, now).await
    }
}

/// Loads aggregates, one statement a table and workspace.
pub(crate) async fn load(
    db: &Transaction,
    keys: &[Key],
) -> Result<Vec<(Key, Aggregate)>, StoreError> {
    let mut ids: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    let mut names: BTreeMap<&Workspace, Vec<&UserName>> = BTreeMap::new();
    let mut rules: BTreeMap<&Workspace, Vec<&PolicyName>> = BTreeMap::new();
    for key in keys {
        match key {
            Key::Request(workspace, id) => ids.entry(workspace).or_default().push(*id),
            Key::User(workspace, name) => names.entry(workspace).or_default().push(name),
            Key::Policy(workspace, name) => rules.entry(workspace).or_default().push(name),
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for (workspace, ids) in ids {
        for request in request_row::load(db, workspace, &ids).await? {
            let key = Key::Request(workspace.clone(), request.id);
            found.push((key, Aggregate::Request(Box::new(request))));
        }
    }
    for (workspace, names) in names {
        for user in user_row::load(db, workspace, &names).await? {
            let key = Key::User(workspace.clone(), user.name.clone());
            found.push((key, Aggregate::User(user)));
        }
    }
    for (workspace, names) in rules {
        for policy in policy_row::load(db, workspace, &names).await? {
            let key = Key::Policy(workspace.clone(), policy.name.clone());
            found.push((key, Aggregate::Policy(Box::new(policy))));
        }
    }
    Ok(found)
}

/// Loads what decisions lack besides users, one statement for each kind.
pub(crate) async fn find(
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
            // They come through `load`.
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

/// Saves states under their guards; returns those that lost.
pub(crate) async fn save(
    db: &Transaction,
    changed: &[Changed<'_, HandoffDomain>],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let (mut requests, mut users, mut rules) = (Vec::new(), Vec::new(), Vec::new());
    for one in changed {
        match one.state {
            Aggregate::Request(request) => requests.push((&**request, one.read_version)),
            Aggregate::User(user) => users.push((user, one.read_version)),
            Aggregate::Policy(policy) => rules.push((&**policy, one.read_version)),
        }
    }
    let mut losers = request_row::save(db, &requests, now).await?;
    losers.extend(policy_row::save(db, &rules, now).await?);
    losers.extend(user_row::save(db, &users, now).await?);
    if !users.is_empty() && losers.is_empty() {
        losers.extend(ownerless(db, &users).await?);
    }
    Ok(losers)
}

/// Two replicas may each have taken one of two owners away, having seen the other one: whoever comes
/// second to the counter's row sees what the first has committed, and decides again.
async fn ownerless(
    db: &Transaction,
    users: &[(&crate::domain::User, u64)],
) -> Result<Vec<Key>, StoreError> {
    counter_row::lock(db).await?;
    let mut workspaces: Vec<_> = users.iter().map(|(user, _)| &user.workspace).collect();
    workspaces.sort_unstable();
    workspaces.dedup();
    let owners = user_row::owners(db, &workspaces).await?;
    let is_owned = |workspace: &Workspace| {
        owners
            .iter()
            .any(|(one, owners)| one == workspace && !owners.is_empty())
    };
    let lost = users.iter().filter(|(user, _)| !is_owned(&user.workspace));
    Ok(lost
        .map(|(user, _)| Key::User(user.workspace.clone(), user.name.clone()))
        .collect())
}

/// Stores what belongs beside the states.
pub(crate) async fn record(
    db: &Transaction,
    effects: &[Effect],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let changes: Vec<_> = effects.iter().filter_map(Effect::as_user_change).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let last = counter_row::take(db, changes.len()).await?;
    user_change_row::insert(db, &changes, last, now).await
}
