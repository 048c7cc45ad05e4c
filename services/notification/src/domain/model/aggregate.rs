//! The aggregates of the service, and how each is identified.

use holdpoint_contracts::notification::Watched;
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::delivery::{Delivery, DeliveryKey};
use super::event::{EventKey, NotificationEvent};
use super::inbox_entry::InboxEntry;
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

/// The state of an aggregate.
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
    #[must_use]
    pub fn as_event(&self) -> Option<&NotificationEvent> {
        if let Self::Event(event) = self {
            Some(event)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_inbox_entry(&self) -> Option<&InboxEntry> {
        if let Self::InboxEntry(entry) = self {
            Some(entry)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_delivery(&self) -> Option<&Delivery> {
        if let Self::Delivery(delivery) = self {
            Some(delivery)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_secret(&self) -> Option<&Secret> {
        if let Self::Secret(secret) = self {
            Some(secret)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_preferences(&self) -> Option<&Preferences> {
        if let Self::Preferences(preferences) = self {
            Some(preferences)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_webhook(&self) -> Option<&Webhook> {
        if let Self::Webhook(webhook) = self {
            Some(webhook)
        } else {
            None
        }
    }

    #[must_use]
    pub fn as_watch(&self) -> Option<&Watch> {
        if let Self::Watch(watch) = self {
            Some(watch)
        } else {
            None
        }
    }
}
