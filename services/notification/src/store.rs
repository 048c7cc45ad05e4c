//! Rows of the notification service: the only place with its queries. Rows never leave it.

mod change_row;
mod copy_row;
mod delivery_row;
mod end_row;
mod note_row;
mod notice_row;
mod old;
mod preferences_row;
mod recording;
mod secret_row;
mod turns;
mod watch_row;
mod webhook_row;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, Role, may};
use holdpoint_contracts::notification::{
    self as contract, FeedCursor, FeedItem, NotificationView, RequestEnd, RunEnded, WatchStatus,
    Watched,
};
use holdpoint_ids::{HoldId, NotificationId, RoleName, UserName, WebhookId, Workspace};
use holdpoint_kernel::Changed;
use holdpoint_store::{StoreError, Transaction};
use holdpoint_user_directory::table as people;
use sea_orm::ConnectionTrait;

use crate::domain::NotificationDomain;
use crate::domain::{
    Aggregate, Copy, Delivery, DeliveryKey, EndKey, Fact, Key, Need, Note, NoteKey, Notice, Person,
    Recipient, RequestLifecycle, Rules, Subject, WEBHOOKS_MAX, Watch, Webhook,
};

pub(crate) use copy_row::{After, Behind, Filter, some_unread};
pub(crate) use delivery_row::{Last, due, last_digest, of_request, of_webhook};
pub(crate) use old::has_old;
pub(crate) use preferences_row::{DigestPlace, digests};
pub(crate) use recording::record;
pub(crate) use turns::Turns;
pub(crate) use webhook_row::enabled as enabled_webhooks;

/// The number in a notification's id, as rows have it.
const fn told_rev(id: NotificationId) -> u64 {
    match id.rev {
        Some(rev) => rev,
        None => 0,
    }
}

/// Loads aggregates, one statement a table and workspace.
pub(crate) async fn load(
    db: &Transaction,
    keys: &[Key],
) -> Result<Vec<(Key, Aggregate)>, StoreError> {
    let mut notes: BTreeMap<&Workspace, Vec<&NoteKey>> = BTreeMap::new();
    let mut copies: BTreeMap<&Workspace, Vec<(&UserName, NotificationId)>> = BTreeMap::new();
    let (mut deliveries, mut secrets) = (Vec::new(), Vec::new());
    let mut people: BTreeMap<&Workspace, Vec<UserName>> = BTreeMap::new();
    let (mut webhooks, mut watches, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for key in keys {
        match key {
            Key::Webhook(workspace, id) => webhooks.push((workspace, *id)),
            Key::Watch(workspace, person, of) => watches.push((workspace, person, of)),
            Key::Preferences(workspace, person) => {
                people.entry(workspace).or_default().push(person.clone());
            }
            Key::Delivery(key) => deliveries.push(key),
            Key::Secret(workspace) => secrets.push(workspace),
            Key::End(key) => ends.push(key),
            Key::Note(key) => notes.entry(&key.workspace).or_default().push(key),
            Key::Copy(workspace, person, id) => {
                copies.entry(workspace).or_default().push((person, *id));
            }
            // It has no row: the facts guard themselves.
            Key::Users | Key::Old | Key::Reading(..) => {}
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for (workspace, keys) in notes {
        for note in note_row::load(db, workspace, &keys).await? {
            found.push((Key::Note(note.key()), Aggregate::Note(Box::new(note))));
        }
    }
    for (workspace, wanted) in copies {
        let rows = copy_row::load(db, workspace, &wanted).await?;
        for copy in with_notes(db, workspace, rows).await? {
            let key = Key::Copy(workspace.clone(), copy.person.clone(), copy.id());
            found.push((key, Aggregate::Copy(Box::new(copy))));
        }
    }
    for end in end_row::load(db, &ends).await? {
        let key = Key::End(EndKey::of(&end.workspace, &end.end));
        found.push((key, Aggregate::End(Box::new(end))));
    }
    for delivery in delivery_row::load(db, &deliveries).await? {
        let key = Key::Delivery(delivery.key.clone());
        found.push((key, Aggregate::Delivery(Box::new(delivery))));
    }
    for (workspace, names) in people {
        for one in preferences_row::load(db, workspace, &names).await? {
            let key = Key::Preferences(workspace.clone(), one.person.clone());
            found.push((key, Aggregate::Preferences(Box::new(one))));
        }
    }
    for webhook in webhook_row::load(db, &webhooks).await? {
        let key = Key::Webhook(webhook.workspace.clone(), webhook.id);
        found.push((key, Aggregate::Webhook(Box::new(webhook))));
    }
    for watch in watch_row::load(db, &watches).await? {
        found.push((watch_row::key(&watch), Aggregate::Watch(Box::new(watch))));
    }
    for secret in secret_row::load(db, &secrets).await? {
        let key = Key::Secret(secret.workspace.clone());
        found.push((key, Aggregate::Secret(Box::new(secret))));
    }
    Ok(found)
}

/// What one try to deliver needs to know.
#[derive(Debug)]
pub(crate) struct DeliveryPayload {
    pub(crate) of: FeedPage,
    /// The person it goes to, where it goes to one.
    pub(crate) person: Option<people::User>,
}

/// What a delivery is of.
#[derive(Debug)]
pub(crate) enum FeedPage {
    /// Something that happened to a request.
    Request {
        note: Box<Note>,
        /// Whether nobody has to do anything any more.
        has_ended: bool,
    },
    /// A run has ended.
    End(Box<RunEnded>),
}

impl FeedPage {
    /// Whether it asks for something that nobody has to do any more.
    pub(crate) fn is_void(&self) -> bool {
        match self {
            Self::Request { note, has_ended } => *has_ended && !note.fact.kind.is_end(),
            Self::End(_) => false,
        }
    }
}

/// Reads what a delivery is of, as things are now.
pub(crate) async fn parcel(
    db: &impl ConnectionTrait,
    key: &DeliveryKey,
) -> Result<Option<DeliveryPayload>, StoreError> {
    let notes = note_row::of(db, &key.workspace, &[key.note.hold]).await?;
    let course = course(&notes);
    let of = match notes.into_iter().find(|note| note.id() == key.note) {
        Some(note) => Some(FeedPage::Request {
            has_ended: course.is_settled(note.fact.rev),
            note: Box::new(note),
        }),
        None => end_of_run(db, key).await?,
    };
    let Some(of) = of else {
        return Ok(None);
    };
    let person = match &key.to {
        Recipient::Mail(name) | Recipient::Chat(name) => {
            people::find(db, &key.workspace, name).await?
        }
        Recipient::Callback | Recipient::Webhook(_) | Recipient::Digest(_) => None,
    };
    Ok(Some(DeliveryPayload { of, person }))
}

async fn end_of_run(
    db: &impl ConnectionTrait,
    key: &DeliveryKey,
) -> Result<Option<FeedPage>, StoreError> {
    let notices = notice_row::of(db, &key.workspace, &[key.note.hold]).await?;
    let told = notices.into_iter().find(|notice| notice.id == key.note);
    Ok(told.and_then(|notice| notice.end).map(FeedPage::End))
}

/// Somebody by name, and how they want to be told.
pub(crate) async fn person(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    name: &UserName,
) -> Result<Option<(people::User, Rules)>, StoreError> {
    let names = std::slice::from_ref(name);
    let mut rules = preferences_row::rules(db, workspace, names).await?;
    let user = people::find(db, workspace, name).await?;
    Ok(user.map(|user| (user, rules.remove(name).unwrap_or_default())))
}

/// What a workspace's callbacks are signed with, if that was made.
pub(crate) async fn secret(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<Option<String>, StoreError> {
    let found = secret_row::load(db, &[workspace]).await?;
    Ok(found.into_iter().next().map(|secret| secret.text))
}

/// One webhook.
pub(crate) async fn webhook(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    id: WebhookId,
) -> Result<Option<Webhook>, StoreError> {
    let found = webhook_row::load(db, &[(workspace, id)]).await?;
    Ok(found.into_iter().next())
}

/// The webhooks of a workspace that were not removed, oldest first, after one.
pub(crate) async fn webhooks(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    after: Option<WebhookId>,
    limit: u64,
) -> Result<Vec<Webhook>, StoreError> {
    webhook_row::list(db, workspace, after, limit).await
}

/// What a person watches, by id.
pub(crate) async fn watches(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
) -> Result<Vec<Watch>, StoreError> {
    watch_row::list(db, workspace, person).await
}

/// Whether a person watches something, and how many do.
pub(crate) async fn watching(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    of: &Watched,
) -> Result<WatchStatus, StoreError> {
    let (is_watched, watchers) = watch_row::watching(db, (workspace, person, of)).await?;
    Ok(WatchStatus {
        is_watched,
        watchers,
    })
}

/// What a person has said of how they want to be told.
pub(crate) async fn preferences(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
) -> Result<Option<contract::Preferences>, StoreError> {
    let found = preferences_row::load(db, workspace, std::slice::from_ref(person)).await?;
    Ok(found.into_iter().next().map(|one| one.said))
}

/// Copies with what they are of, and how that ended.
async fn with_notes(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    rows: Vec<copy_row::Row>,
) -> Result<Vec<Copy>, StoreError> {
    let mut holds: Vec<HoldId> = rows.iter().map(|row| row.hold).collect();
    holds.sort_unstable();
    holds.dedup();
    let mut notes: BTreeMap<HoldId, Vec<Note>> = BTreeMap::new();
    for note in note_row::of(db, workspace, &holds).await? {
        notes.entry(note.fact.id).or_default().push(note);
    }
    holds.retain(|hold| !notes.contains_key(hold));
    let notices = notice_row::of(db, workspace, &holds).await?;
    let copy = |row: copy_row::Row| {
        let of = match notes.get(&row.hold) {
            Some(all) => {
                let note = all.iter().find(|note| told_rev(note.id()) == row.rev)?;
                Subject::Note(Box::new(note.clone()), end_of(note, all))
            }
            None => {
                let is_it = |one: &&Notice| (one.id.hold, told_rev(one.id)) == (row.hold, row.rev);
                Subject::Notice(Box::new(notices.iter().find(is_it)?.clone()))
            }
        };
        Some(Copy {
            workspace: workspace.clone(),
            person: row.person,
            of,
            read_at: row.read_at,
            watching: row.watching,
        })
    };
    Ok(rows.into_iter().filter_map(copy).collect())
}

fn course(notes: &[Note]) -> RequestLifecycle {
    let mut course = RequestLifecycle::default();
    for note in notes {
        course.note(note.fact.kind, note.fact.rev);
    }
    course
}

/// What is said of a notification, by all that is known of its request: how that ended, if it was not
/// asked again since; or that somebody took over what it told of.
fn end_of(told: &Note, all: &[Note]) -> Option<RequestEnd> {
    let course = course(all);
    let counts = |note: &&Note| {
        let rev = note.fact.rev;
        let is_end = note.fact.kind.is_end();
        Some(rev) > course.opened && (is_end || rev > told.fact.rev)
    };
    let newest = |note: &&Note| (note.fact.kind.is_end(), note.fact.rev);
    let ends = all.iter().filter(|note| note.end().is_some());
    ends.filter(counts).max_by_key(newest)?.end()
}

/// One person's notifications, newest first, each with where the next page begins.
pub(crate) async fn list(
    db: &impl ConnectionTrait,
    filter: &Filter<'_>,
) -> Result<Vec<NotificationView>, StoreError> {
    let rows = copy_row::list(db, filter).await?;
    let copies = with_notes(db, filter.workspace, rows).await?;
    Ok(copies.iter().filter_map(Copy::view).collect())
}

/// One person's notifications in the order in which they last changed; and the number of the newest
/// change in the workspace.
pub(crate) async fn news(
    db: &impl ConnectionTrait,
    filter: &After<'_>,
) -> Result<(Vec<FeedItem>, u64), StoreError> {
    let rows = copy_row::after(db, filter).await?;
    let seqs: BTreeMap<_, _> = rows
        .iter()
        .map(|row| ((row.hold, row.rev), row.seq))
        .collect();
    let copies = with_notes(db, filter.workspace, rows).await?;
    let item = |copy: &Copy| {
        let id = copy.id();
        let seq = *seqs.get(&(id.hold, told_rev(id)))?;
        let mark = FeedCursor { seq, id };
        let notification = copy.view()?;
        Some(FeedItem { mark, notification })
    };
    let items = copies.iter().filter_map(item).collect();
    Ok((items, newest(db, filter.workspace).await?))
}

/// The number of the newest change of a workspace's notifications.
pub(crate) async fn newest(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
) -> Result<u64, StoreError> {
    change_row::newest(db, workspace).await
}

/// One person's copy.
pub(crate) async fn copy(
    db: &impl ConnectionTrait,
    workspace: &Workspace,
    person: &UserName,
    id: NotificationId,
) -> Result<Option<NotificationView>, StoreError> {
    let rows = copy_row::load(db, workspace, &[(person, id)]).await?;
    let copies = with_notes(db, workspace, rows).await?;
    Ok(copies.first().and_then(Copy::view))
}

/// Loads what decisions lack, one statement for each kind, role and workspace.
pub(crate) async fn find(
    db: &Transaction,
    needs: &[Need],
) -> Result<Vec<(Need, Fact)>, StoreError> {
    let mut found = Vec::with_capacity(needs.len());
    let mut names: BTreeMap<&Workspace, Vec<UserName>> = BTreeMap::new();
    let mut holds: BTreeMap<&Workspace, Vec<HoldId>> = BTreeMap::new();
    for need in needs {
        match need {
            Need::Person(workspace, name) => {
                names.entry(workspace).or_default().push(name.clone());
            }
            Need::Webhooks(workspace) => {
                let limit = u64::try_from(WEBHOOKS_MAX).unwrap_or(u64::MAX);
                let all = webhook_row::list(db, workspace, None, limit).await?;
                let hooks = all.iter().filter_map(Webhook::hook).collect();
                found.push((need.clone(), Fact::Webhooks(hooks)));
            }
            Need::Unread {
                workspace,
                person,
                until,
            } => {
                let count = copy_row::unread(db, workspace, person, *until).await?;
                found.push((need.clone(), Fact::Unread(count)));
            }
            // Together, further down.
            Need::Watchers { .. } => {}
            Need::WatchStatus(workspace, person) => {
                let count = watch_row::count(db, workspace, person).await?;
                found.push((need.clone(), Fact::WatchStatus(count)));
            }
            Need::RequestLifecycle(workspace, hold) => {
                holds.entry(workspace).or_default().push(*hold)
            }
            Need::Members {
                workspace,
                role,
                after,
                limit,
            } => {
                let limit = u64::try_from(*limit).unwrap_or(u64::MAX);
                let members = people::members(db, workspace, role, after.as_ref(), limit).await?;
                found.push((need.clone(), Fact::Members(members)));
            }
        }
    }
    for (need, names) in watch_row::watchers(db, needs).await? {
        found.push((need, Fact::Members(names)));
    }
    for (workspace, names) in names {
        let mut rules = preferences_row::rules(db, workspace, &names).await?;
        for user in people::find_all(db, workspace, &names).await? {
            let need = Need::Person(workspace.clone(), user.name.clone());
            let person = Person {
                rules: rules.remove(&user.name).unwrap_or_default(),
                name: user.name,
                active: user.active,
                has_mail: user.email.is_some(),
                may_look: may_look(&user.roles),
            };
            found.push((need, Fact::Person(person)));
        }
    }
    for (workspace, holds) in holds {
        for (hold, course) in note_row::courses(db, workspace, &holds).await? {
            let need = Need::RequestLifecycle(workspace.clone(), hold);
            found.push((need, Fact::RequestLifecycle(course)));
        }
    }
    Ok(found)
}

/// Whether one of these roles lets somebody look at runs and requests.
pub(crate) fn may_look(roles: &[RoleName]) -> bool {
    let named = roles.iter().filter_map(|role| Role::named(role.as_str()));
    named.into_iter().any(|role| may(role, Right::Look))
}

/// Saves states under their guards; returns those that lost.
pub(crate) async fn save(
    db: &Transaction,
    changed: &[Changed<'_, NotificationDomain>],
    now: DateTime<Utc>,
) -> Result<Vec<Key>, StoreError> {
    let (mut notes, mut secrets) = (Vec::new(), Vec::new());
    let (mut preferences, mut webhooks) = (Vec::new(), Vec::new());
    let mut deliveries: Vec<(&Delivery, u64)> = Vec::new();
    let (mut watches, mut ends) = (Vec::new(), Vec::new());
    for one in changed {
        match one.state {
            Aggregate::Note(note) => notes.push((&**note, one.read_version)),
            Aggregate::End(end) => ends.push((&**end, one.read_version)),
            Aggregate::Delivery(delivery) => deliveries.push((&**delivery, one.read_version)),
            Aggregate::Secret(secret) => secrets.push(&**secret),
            Aggregate::Preferences(said) => preferences.push((&**said, one.read_version)),
            Aggregate::Webhook(webhook) => webhooks.push((&**webhook, one.read_version)),
            Aggregate::Watch(watch) => watches.push((&**watch, one.read_version)),
            // What was read is recorded: who was faster stays, and nobody loses.
            Aggregate::Copy(_) | Aggregate::Users => {}
        }
    }
    let mut losers = note_row::save(db, &notes, now).await?;
    losers.extend(end_row::save(db, &ends, now).await?);
    losers.extend(delivery_row::save(db, &deliveries, now).await?);
    losers.extend(secret_row::save(db, &secrets, now).await?);
    losers.extend(preferences_row::save(db, &preferences, now).await?);
    losers.extend(webhook_row::save(db, &webhooks, now).await?);
    losers.extend(watch_row::save(db, &watches, now).await?);
    Ok(losers)
}
