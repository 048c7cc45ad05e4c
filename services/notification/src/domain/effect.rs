//! Values that a decision returns: what the service carries out, and the reply to the caller.

use chrono::{DateTime, Utc};
use holdpoint_contracts::executor::RunEndsOf;
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    AllRead, EventRecorded, NotificationView, Preferences, RunEndRecorded, WatchAdded, WatchView,
    WebhookAdded, WebhookSecretView, WebhookView,
};
use holdpoint_ids::{HoldId, NotificationId, UserName, WebhookId, Workspace};
use serde::Serialize;

use super::model::{Delivery, DeliveryKey, EndsFor, NotificationEvent, Phase, PlannedDelivery};

/// Something to store beside the state, to send, or both.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Adds a notification to the inboxes of people. An entry that exists stays as it is.
    AddInboxEntries(NewInboxEntries),
    /// Stores an event that another aggregate has caused. An event that exists stays as it is.
    StoreEvent(Box<NotificationEvent>),
    /// Creates deliveries. One that exists stays as it is, and a person who has a delivery of this
    /// notification gets another one only after it has failed.
    Deliver(NewDeliveries),
    /// A request has ended. The chats that received it are notified of the end, too.
    NotifyChatsOfEnd {
        workspace: Workspace,
        id: NotificationId,
        priority: Priority,
    },
    /// Preferences have changed. Deliveries that wait for quiet hours or a retry are due now and decided again.
    Reconsider {
        workspace: Workspace,
        person: UserName,
    },
    /// A webhook accepts calls again, or is not called any more. Its deliveries that wait for a retry are due
    /// now, so that they do not fill its bound.
    RetryWebhook { workspace: Workspace, id: WebhookId },
    /// Attempts a claimed delivery.
    Send { key: DeliveryKey, attempt: u32 },
    /// Asks the executor to report run ends.
    WatchRunEnds {
        workspace: Workspace,
        by: EndsFor,
        of: RunEndsOf,
        /// The version of the watch or webhook.
        rev: u64,
    },
    /// More people are to be notified: wakes the fan-out sweep.
    ContinueFanOut,
    /// A request needs no action any more: all its inbox entries count as read.
    ReadRequestEntries { workspace: Workspace, hold: HoldId },
    ReadEntry {
        workspace: Workspace,
        person: UserName,
        id: NotificationId,
    },
    ReadAllEntries {
        workspace: Workspace,
        person: UserName,
        /// Entries that changed after this number stay unread.
        until: Option<u64>,
    },
    /// Empties all events of a request or run, and deletes their inbox entries, deliveries and stored mails.
    EraseHold { workspace: Workspace, hold: HoldId },
    /// Deletes one page of the rows that expired before this instant.
    DeleteExpired { before: DateTime<Utc> },
    /// Updates the user directory.
    Users(Vec<UserChange>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewInboxEntries {
    pub workspace: Workspace,
    pub id: NotificationId,
    pub people: Vec<UserName>,
    pub at: DateTime<Utc>,
    /// Set if the notification asks no action any more.
    pub read_at: Option<DateTime<Utc>>,
    /// They are notified only because they watch.
    pub watching: bool,
    /// It replaces an earlier reminder of its request.
    pub renews: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewDeliveries {
    pub workspace: Workspace,
    pub id: NotificationId,
    pub priority: Priority,
    pub to: Vec<PlannedDelivery>,
}

impl NewDeliveries {
    /// The first version of one of them.
    #[must_use]
    pub fn delivery(&self, planned: &PlannedDelivery, now: DateTime<Utc>) -> Delivery {
        Delivery {
            key: DeliveryKey {
                workspace: self.workspace.clone(),
                note: self.id,
                to: planned.to.clone(),
            },
            priority: self.priority,
            after: planned.after.clone(),
            at: now,
            changed_at: now,
            phase: if planned.dropped.is_some() {
                Phase::Dropped
            } else {
                Phase::Pending {
                    next_at: planned.due_at,
                    waits: planned.waits,
                }
            },
            attempts: 0,
            last_error: planned.dropped.clone(),
            version: 1,
        }
    }
}

/// The inboxes that an effect changes in one workspace.
pub(crate) enum ChangedInboxes<'e> {
    Of(&'e [UserName]),
    Any,
}

impl Effect {
    pub(crate) fn changed_inboxes(&self) -> Option<(&Workspace, ChangedInboxes<'_>)> {
        match self {
            Self::AddInboxEntries(new) => Some((&new.workspace, ChangedInboxes::Of(&new.people))),
            Self::ReadEntry {
                workspace, person, ..
            }
            | Self::ReadAllEntries {
                workspace, person, ..
            } => {
                let one = std::slice::from_ref(person);
                Some((workspace, ChangedInboxes::Of(one)))
            }
            Self::ReadRequestEntries { workspace, .. } | Self::EraseHold { workspace, .. } => {
                Some((workspace, ChangedInboxes::Any))
            }
            Self::StoreEvent(_)
            | Self::Deliver(_)
            | Self::NotifyChatsOfEnd { .. }
            | Self::Reconsider { .. }
            | Self::RetryWebhook { .. }
            | Self::Send { .. }
            | Self::WatchRunEnds { .. }
            | Self::ContinueFanOut
            | Self::DeleteExpired { .. }
            | Self::Users(_) => None,
        }
    }

    /// Whether a delivery may be due now.
    pub(crate) const fn has_due_deliveries(&self) -> bool {
        matches!(
            self,
            Self::Deliver(_)
                | Self::NotifyChatsOfEnd { .. }
                | Self::Reconsider { .. }
                | Self::RetryWebhook { .. }
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    EventRecorded(EventRecorded),
    RunEndRecorded(RunEndRecorded),
    Notification(Box<NotificationView>),
    AllRead(AllRead),
    Secret(WebhookSecretView),
    Preferences(Preferences),
    WebhookAdded(Box<WebhookAdded>),
    /// A changed or removed webhook.
    Webhook(Box<WebhookView>),
    WatchAdded(Box<WatchAdded>),
    /// A watch that was removed.
    Watch(Box<WatchView>),
    /// No caller waits.
    Done,
}
