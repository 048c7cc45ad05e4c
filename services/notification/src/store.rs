//! Rows of the notification service: the only place with its queries. Rows never leave it.
#![expect(
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "the entity macro generates public models and a nested save that begins a transaction"
)]

mod change_row;
mod delivery_row;
mod effects;
mod erasure;
mod event_row;
mod inbox;
mod inbox_entry_row;
mod key_columns;
mod preferences_row;
mod retention;
mod secret_row;
mod watch_row;
mod webhook_row;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, Role, may};
use holdpoint_contracts::notification as contract;
use holdpoint_ids::{HoldId, RoleName, UserName, WebhookId, Workspace};
use holdpoint_kernel::{Changed, Store};
use holdpoint_store::{ColumnRow as _, StateRow as _, StoreError, Transaction};
use holdpoint_user_directory::table as people;
use sea_orm::ConnectionTrait;

use crate::Notification;
use crate::domain::{
    Aggregate, DeliveryKey, DeliveryRules, DeliveryTarget, Effect, Fact, Key, Need,
    NotificationDomain, NotificationEvent, Person, Subscription, WEBHOOKS_MAX, Webhook,
};

pub(crate) use change_row::newest;
pub(crate) use delivery_row::{Last, any_due, due, last_digest, of_request, of_webhook};
pub(crate) use event_row::FairQueue;
pub(crate) use inbox::{entry, feed, list};
pub(crate) use inbox_entry_row::{EntryFilter, PageStart, some_unread};
pub(crate) use preferences_row::{DigestPlace, digests};
pub(crate) use retention::has_expired;
pub(crate) use watch_row::{list as watches, watching};
pub(crate) use webhook_row::{enabled as enabled_webhooks, list as webhooks};

impl Store<NotificationDomain> for Notification {
    /// Loads aggregates, one statement for each table.
    async fn load(
        &self,
        db: &Transaction,
        keys: &[Key],
    ) -> Result<Vec<(Key, Aggregate)>, StoreError> {
        let (mut events, mut deliveries, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
        let (mut preferences, mut webhooks, mut watches) = (Vec::new(), Vec::new(), Vec::new());
        let mut entries: BTreeMap<&Workspace, Vec<_>> = BTreeMap::new();
        for key in keys {
            match key {
                Key::Event(key) => events.push(event_row::row_key(key)?),
                Key::InboxEntry(workspace, person, id) => {
                    entries.entry(workspace).or_default().push((person, *id));
                }
                Key::Delivery(key) => deliveries.push(delivery_row::row_key(key)?),
                Key::Secret(workspace) => secrets.push(workspace.to_string()),
                Key::Preferences(workspace, person) => {
                    preferences.push((workspace.to_string(), person.to_string()));
                }
                Key::Webhook(workspace, id) => {
                    webhooks.push((workspace.to_string(), id.to_string()));
                }
                Key::Watch(workspace, person, of) => {
                    watches.push((workspace.to_string(), person.to_string(), of.to_string()));
                }
                Key::Users | Key::Expired | Key::Inbox(..) => {}
            }
        }
        let mut found: Vec<Aggregate> = Vec::with_capacity(keys.len());
        let events = event_row::Entity::load_states(db, &events).await?;
        found.extend(events.into_iter().map(Aggregate::from));
        for (workspace, wanted) in entries {
            let rows = inbox_entry_row::load(db, workspace, &wanted).await?;
            let entries = inbox::with_events(db, workspace, rows).await?;
            found.extend(entries.into_iter().map(Aggregate::from));
        }
        let deliveries = delivery_row::Entity::load_states(db, &deliveries).await?;
        found.extend(deliveries.into_iter().map(Aggregate::from));
        let secrets = secret_row::Entity::load_states(db, &secrets).await?;
        found.extend(secrets.into_iter().map(Aggregate::from));
        let preferences = preferences_row::Entity::load_states(db, &preferences).await?;
        found.extend(preferences.into_iter().map(Aggregate::from));
        let webhooks = webhook_row::Entity::load_states(db, &webhooks).await?;
        found.extend(webhooks.into_iter().map(Aggregate::from));
        let watches = watch_row::Entity::load_states(db, &watches).await?;
        found.extend(watches.into_iter().map(Aggregate::from));
        let keyed = |state: Aggregate| Some((state.key()?, state));
        Ok(found.into_iter().filter_map(keyed).collect())
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
        changed: &[Changed<'_, NotificationDomain>],
        now: DateTime<Utc>,
    ) -> Result<Vec<Key>, StoreError> {
        let (mut events, mut deliveries, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
        let (mut preferences, mut webhooks, mut watches) = (Vec::new(), Vec::new(), Vec::new());
        for one in changed {
            match one.state {
                Aggregate::Event(event) => events.push(one.with_state(&**event)),
                Aggregate::Delivery(delivery) => deliveries.push(one.with_state(&**delivery)),
                Aggregate::Secret(secret) => secrets.push(one.with_state(&**secret)),
                Aggregate::Preferences(new) => preferences.push(one.with_state(&**new)),
                Aggregate::Webhook(webhook) => webhooks.push(one.with_state(&**webhook)),
                Aggregate::Watch(watch) => watches.push(one.with_state(&**watch)),
                // The effect records that an entry was read. The first writer wins, and nobody loses.
                Aggregate::InboxEntry(_) | Aggregate::Stateless => {}
            }
        }
        let mut losers = event_row::Entity::save(db, &events, now).await?;
        losers.extend(delivery_row::Entity::save(db, &deliveries, now).await?);
        losers.extend(secret_row::Entity::save(db, &secrets, now).await?);
        losers.extend(preferences_row::Entity::save(db, &preferences, now).await?);
        losers.extend(webhook_row::Entity::save(db, &webhooks, now).await?);
        losers.extend(watch_row::Entity::save(db, &watches, now).await?);
        Ok(losers)
    }

    async fn record(
        &self,
        db: &Transaction,
        effects: &[Effect],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.erase_mails(effects).await;
        effects::record(db, effects, now).await
    }
}

/// Loads needs: one statement for each kind, role and workspace.
async fn find(db: &Transaction, needs: &[Need]) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(needs.len());
    let mut names: BTreeMap<&Workspace, Vec<UserName>> = BTreeMap::new();
    let mut holds: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    let mut webhooks = Vec::new();
    for need in needs {
        match need {
            Need::Person(workspace, name) => {
                names.entry(workspace).or_default().push(name.clone());
            }
            Need::RequestLifecycle(workspace, hold) => {
                holds.entry(workspace).or_default().push(*hold);
            }
            // Below, with all others of their kind.
            Need::Watchers { .. } => {}
            Need::Webhooks(workspace) => {
                let limit = u64::try_from(WEBHOOKS_MAX).unwrap_or(u64::MAX);
                let all = webhook_row::list(db, workspace, None, limit).await?;
                webhooks.push((need.clone(), all));
            }
            Need::IsErased(..)
            | Need::LastErasure(..)
            | Need::ContactEvents { .. }
            | Need::Unread { .. }
            | Need::WatchCount(..)
            | Need::Members { .. } => {
                let fact = find_one(db, need).await?;
                found.extend(fact.map(|fact| (need.clone(), fact)));
            }
        }
    }
    for (need, names) in watch_row::watchers(db, needs).await? {
        found.push((need, Fact::Names(names)));
    }
    found.extend(with_backlogs(db, webhooks).await?);
    for (workspace, names) in names {
        found.extend(find_people(db, workspace, &names).await?);
    }
    for (workspace, holds) in holds {
        for (hold, lifecycle) in event_row::lifecycles(db, workspace, &holds).await? {
            let need = Need::RequestLifecycle(workspace.clone(), hold);
            found.push((need, Fact::RequestLifecycle(lifecycle)));
        }
    }
    Ok(found)
}

/// Loads a need that has a statement of its own. `None`: it does not exist, or is loaded with others of its kind.
async fn find_one(db: &Transaction, need: &Need) -> Result<Option<Fact>, StoreError> {
    Ok(match need {
        Need::IsErased(workspace, hold) => {
            let events = event_row::of_holds(db, workspace, &[*hold]).await?;
            let is_erased = events.iter().any(NotificationEvent::is_erased);
            Some(Fact::IsErased(is_erased))
        }
        Need::LastErasure(workspace, hold) => {
            let number = event_row::last_erasure(db, workspace, *hold).await?;
            number.map(Fact::Count)
        }
        Need::ContactEvents {
            workspace,
            kind,
            since,
            most,
        } => {
            let count = event_row::contact_events(db, workspace, *kind, *since, *most).await?;
            Some(Fact::Count(count))
        }
        Need::Unread {
            workspace,
            person,
            until,
        } => {
            let count = inbox_entry_row::unread(db, workspace, person, *until).await?;
            Some(Fact::Count(count))
        }
        Need::WatchCount(workspace, person) => {
            let count = watch_row::count(db, workspace, person).await?;
            Some(Fact::Count(count))
        }
        Need::Members {
            workspace,
            role,
            after,
            limit,
        } => {
            let limit = u64::try_from(*limit).unwrap_or(u64::MAX);
            let members = people::members(db, workspace, role, after.as_ref(), limit).await?;
            Some(Fact::Names(members))
        }
        Need::Person(..)
        | Need::RequestLifecycle(..)
        | Need::Watchers { .. }
        | Need::Webhooks(_) => None,
    })
}

/// Adds to webhooks how many deliveries are pending for each.
async fn with_backlogs(
    db: &Transaction,
    webhooks: Vec<(Need, Vec<Webhook>)>,
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let all = webhooks.iter().flat_map(|(_, all)| all);
    let ids: Vec<_> = all.map(|webhook| webhook.id).collect();
    let pending = delivery_row::pending_of_webhooks(db, &ids).await?;
    let subscription = |webhook: Webhook| Subscription {
        pending: pending.get(&webhook.id.to_string()).copied().unwrap_or(0),
        webhook: Arc::new(webhook),
    };
    let fact = |(need, all): (Need, Vec<Webhook>)| {
        (
            need,
            Fact::Webhooks(all.into_iter().map(subscription).collect()),
        )
    };
    Ok(webhooks.into_iter().map(fact).collect())
}

async fn find_people(
    db: &Transaction,
    workspace: &Workspace,
    names: &[UserName],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut rules = preferences_row::rules(db, workspace, names).await?;
    let users = people::find_all(db, workspace, names).await?;
    let person = |user: people::User| {
        let need = Need::Person(workspace.clone(), user.name.clone());
        let person = Person {
            rules: rules.remove(&user.name).unwrap_or_default(),
            name: user.name,
            active: user.active,
            has_mail: user.email.is_some(),
            may_look: may_look(&user.roles),
        };
        (need, Fact::Person(person))
    };
    Ok(users.into_iter().map(person).collect())
}

/// Whether one of these roles lets a person look at runs and requests.
pub(crate) fn may_look(roles: &[RoleName]) -> bool {
    let named = roles.iter().filter_map(|role| Role::named(role.as_str()));
    named.into_iter().any(|role| may(role, Right::Look))
}

#[derive(Debug)]
pub(crate) struct DeliveryPayload {
    pub(crate) event: NotificationEvent,
    /// Whether the event asks no action any more.
    pub(crate) is_settled: bool,
    /// The person it goes to, if it goes to a person.
    pub(crate) person: Option<people::User>,
}

impl DeliveryPayload {
    /// Whether it asks for an action that is not needed any more.
    pub(crate) fn is_void(&self) -> bool {
        self.is_settled && !self.event.is_request_end()
    }
}

/// Reads the payload of a delivery, as things are now.
pub(crate) async fn delivery_payload(
    db: &impl ConnectionTrait,
    key: &DeliveryKey,
) -> Result<Option<DeliveryPayload>, StoreError> {
    let events = event_row::of_holds(db, &key.workspace, &[key.note.hold]).await?;
    let lifecycle = inbox::lifecycle_of(&events);
    let Some(event) = events.into_iter().find(|event| event.id() == key.note) else {
        return Ok(None);
    };
    let person = match &key.to {
        DeliveryTarget::Mail(name) | DeliveryTarget::Chat(name) => {
            people::find(db, &key.workspace, name).await?
        }
        DeliveryTarget::Callback | DeliveryTarget::Webhook(_) | DeliveryTarget::Digest(_) => None,
    };
    let request = event.as_request().filter(|_| !event.is_mention());
    Ok(Some(DeliveryPayload {
        is_settled: request.is_some_and(|request| lifecycle.is_settled(request.rev)),
        event,
        person,
    }))
}

pub(crate) async fn person(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    name: &UserName,
) -> Result<Option<(people::User, DeliveryRules)>, StoreError> {
    let names = std::slice::from_ref(name);
    let mut rules = preferences_row::rules(db, workspace, names).await?;
    let user = people::find(db, workspace, name).await?;
    Ok(user.map(|user| (user, rules.remove(name).unwrap_or_default())))
}

/// The key that signs the callbacks of a workspace, if it was made.
pub(crate) async fn secret(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Option<String>, StoreError> {
    let found = secret_row::Entity::load_states(db, &[workspace.to_string()]).await?;
    Ok(found.into_iter().next().map(|secret| secret.text))
}

pub(crate) async fn webhook(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: WebhookId,
) -> Result<Option<Webhook>, StoreError> {
    let key = (workspace.to_string(), id.to_string());
    let found = webhook_row::Entity::load_states(db, &[key]).await?;
    Ok(found.into_iter().next())
}

pub(crate) async fn preferences(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
) -> Result<Option<contract::Preferences>, StoreError> {
    let key = (workspace.to_string(), person.to_string());
    let found = preferences_row::Entity::load_states(db, &[key]).await?;
    Ok(found.into_iter().next().map(|one| one.said))
}
