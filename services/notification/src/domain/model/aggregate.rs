//! The aggregates of the service, and how each is identified.

use holdpoint_contracts::notification::Watched;
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::delivery::{Delivery, DeliveryKey};
use super::event::{EventKey, InboxEntry, NotificationEvent};
use super::preferences::Preferences;
use super::watch::Watch;
use super::webhook::Webhook;

/// Identifies one aggregate. The workspace is part of it, so that no aggregate reaches into another workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Event(EventKey),
    InboxEntry(Workspace, UserName, NotificationId),
    /// All inbox entries of a person. They have no common state.
    Inbox(Workspace, UserName),
    Delivery(DeliveryKey),
    Secret(Workspace),
    Preferences(Workspace, UserName),
    Webhook(Workspace, WebhookId),
    Watch(Workspace, UserName, Watched),
    /// The user directory. It has no state here.
    Users,
    /// Rows past their retention. They have no state here.
    Expired,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    Event(Box<NotificationEvent>),
    InboxEntry(Box<InboxEntry>),
    Delivery(Box<Delivery>),
    Secret(Box<Secret>),
    Preferences(Box<Preferences>),
    Webhook(Box<Webhook>),
    Watch(Box<Watch>),
    /// An input that has effects only: its rows are guarded in other ways.
    Stateless,
}

/// The key that signs the callbacks of a workspace. It is made once and never changes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub workspace: Workspace,
    /// `whsec_…`
    pub text: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Secret").field(&self.workspace).finish()
    }
}

impl Aggregate {
    /// `None`: it has no state of its own.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Event(event) => Key::Event(event.key()),
            Self::InboxEntry(entry) => Key::InboxEntry(
                entry.workspace.clone(),
                entry.person.clone(),
                entry.event.id(),
            ),
            Self::Delivery(delivery) => Key::Delivery(delivery.key.clone()),
            Self::Secret(secret) => Key::Secret(secret.workspace.clone()),
            Self::Preferences(one) => Key::Preferences(one.workspace.clone(), one.person.clone()),
            Self::Webhook(webhook) => Key::Webhook(webhook.workspace.clone(), webhook.id),
            Self::Watch(watch) => Key::Watch(
                watch.workspace.clone(),
                watch.person.clone(),
                watch.of.clone(),
            ),
            Self::Stateless => return None,
        })
    }
}

/// The conversions between an aggregate and its state.
macro_rules! state {
    ($variant:ident($state:ty), $accessor:ident) => {
        impl From<$state> for Aggregate {
            fn from(state: $state) -> Self {
                Self::$variant(Box::new(state))
            }
        }

        impl Aggregate {
            #[must_use]
            pub fn $accessor(&self) -> Option<&$state> {
                if let Self::$variant(state) = self {
                    Some(state)
                } else {
                    None
                }
            }
        }
    };
}

state!(Event(NotificationEvent), as_event);
state!(InboxEntry(InboxEntry), as_inbox_entry);
state!(Delivery(Delivery), as_delivery);
state!(Secret(Secret), as_secret);
state!(Preferences(Preferences), as_preferences);
state!(Webhook(Webhook), as_webhook);
state!(Watch(Watch), as_watch);
