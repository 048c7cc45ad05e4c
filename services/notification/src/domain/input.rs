//! Everything that can happen in this service, and the aggregate that it happens to.

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::UserChange;
use holdpoint_contracts::notification::{ContactEvent, RequestEvent, RunEnded, Watched};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};

use super::model::{
    AttemptReport, CallOutcome, DeliveryKey, EventKey, Key, Preferences, Webhook, WebhookConfig,
};

/// Everything that can happen to one aggregate. A `person` is the caller, vouched for by the gateway.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The handoff service reports a change of a request until it is acknowledged.
    RecordRequestEvent {
        workspace: Workspace,
        event: Box<RequestEvent>,
    },
    /// The executor reports the end of a run that may be watched until it is acknowledged.
    RecordRunEnd {
        workspace: Workspace,
        end: Box<RunEnded>,
    },
    /// The executor reports a change of a contact until it is acknowledged.
    RecordContactEvent {
        workspace: Workspace,
        event: Box<ContactEvent>,
    },
    /// A sweep found an event whose fan-out is pending.
    ContinueFanOut(EventKey),
    /// The executor replies that a run had ended before the person began to watch it.
    RunEndedBefore {
        workspace: Workspace,
        person: UserName,
        end: Box<RunEnded>,
    },
    /// A person marks one notification as read.
    ReadNotification {
        workspace: Workspace,
        person: UserName,
        id: NotificationId,
    },
    /// A person marks all their notifications as read.
    ReadNotifications {
        workspace: Workspace,
        person: UserName,
        /// Notifications that changed after this number stay unread.
        until: Option<u64>,
    },
    /// A person sets their preferences, which are valid.
    PutPreferences {
        new: Box<Preferences>,
        /// Signs the calls of a new chat.
        fresh: String,
    },
    /// A sweep found that a digest is due.
    CreateDigest {
        workspace: Workspace,
        person: UserName,
    },
    /// A person begins to watch something.
    Watch {
        workspace: Workspace,
        person: UserName,
        of: Watched,
    },
    /// A person stops watching something.
    Unwatch {
        workspace: Workspace,
        person: UserName,
        of: Watched,
    },
    /// An administrator adds a webhook.
    AddWebhook(Box<Webhook>),
    /// An administrator changes, disables or enables a webhook.
    ChangeWebhook {
        workspace: Workspace,
        id: WebhookId,
        to: Box<WebhookConfig>,
        enabled: bool,
    },
    /// An administrator removes a webhook.
    RemoveWebhook { workspace: Workspace, id: WebhookId },
    /// A sweep repeats for an enabled webhook what the executor is to report. A webhook that was added before
    /// the executor could report the ends of all runs has never asked for them (Mend C-10).
    WatchRunEnds { workspace: Workspace, id: WebhookId },
    /// The sender reports the result of a call to a webhook.
    RecordCall {
        workspace: Workspace,
        id: WebhookId,
        outcome: CallOutcome,
    },
    /// A sweep found a delivery due. It is dispatched to this process alone.
    ClaimDelivery(DeliveryKey),
    /// The sender reports the result of one attempt.
    RecordAttempt {
        key: DeliveryKey,
        attempt: u32,
        report: AttemptReport,
    },
    /// An administrator or the sender reads the signing secret; it is made on first use.
    ShowSecret {
        workspace: Workspace,
        /// The value of a new secret.
        fresh: String,
    },
    /// A sweep found rows that expired before this instant.
    DeleteExpired { before: DateTime<Utc> },
    /// The handoff service reports changes of users.
    Users(Vec<UserChange>),
}

impl Input {
    /// The aggregate that it is for.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::RecordRequestEvent { workspace, event } => {
                Key::Event(EventKey::of_request(workspace, event))
            }
            Self::RecordRunEnd { workspace, end } => {
                Key::Event(EventKey::of_run_end(workspace, end))
            }
            Self::RecordContactEvent { workspace, event } => {
                Key::Event(EventKey::of_contact(workspace, event))
            }
            Self::ContinueFanOut(key) => Key::Event(key.clone()),
            Self::RunEndedBefore {
                workspace,
                person,
                end,
            } => Key::Watch(workspace.clone(), person.clone(), Watched::Run(end.run)),
            Self::ReadNotification {
                workspace,
                person,
                id,
            } => Key::InboxEntry(workspace.clone(), person.clone(), *id),
            Self::ReadNotifications {
                workspace, person, ..
            } => Key::Inbox(workspace.clone(), person.clone()),
            Self::ClaimDelivery(key) | Self::RecordAttempt { key, .. } => {
                Key::Delivery(key.clone())
            }
            Self::ShowSecret { workspace, .. } => Key::Secret(workspace.clone()),
            Self::PutPreferences { new, .. } => {
                Key::Preferences(new.workspace.clone(), new.person.clone())
            }
            Self::CreateDigest { workspace, person } => {
                Key::Preferences(workspace.clone(), person.clone())
            }
            Self::Watch {
                workspace,
                person,
                of,
            }
            | Self::Unwatch {
                workspace,
                person,
                of,
            } => Key::Watch(workspace.clone(), person.clone(), of.clone()),
            Self::AddWebhook(new) => Key::Webhook(new.workspace.clone(), new.id),
            Self::RemoveWebhook { workspace, id }
            | Self::ChangeWebhook { workspace, id, .. }
            | Self::WatchRunEnds { workspace, id }
            | Self::RecordCall { workspace, id, .. } => Key::Webhook(workspace.clone(), *id),
            Self::DeleteExpired { .. } => Key::Expired,
            Self::Users(_) => Key::Users,
        }
    }
}
