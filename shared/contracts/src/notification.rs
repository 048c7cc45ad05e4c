//! Commands and queries of the notification service: who is notified what, and by which way.

use chrono::{DateTime, Utc};
use holdpoint_ids::{ContactId, HoldId, NotificationId, RunId, UserName, WebhookId};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::handoff::RequestView;
use crate::hold::{HoldOutcome, Priority};
use crate::message::Reply;
use crate::run::Page;

mod contact_events;
mod feed;
mod preferences;
mod run_ends;
mod watches;
mod webhooks;

pub use contact_events::{
    ContactEvent, ContactEventKind, EVENT_NAME_CHARS_MAX, RecordContactEvents,
};

pub use run_ends::{RecordRunEnds, RunEnd, RunEndRecorded, RunEnded};

pub use preferences::{
    ChannelRule, Channels, Chat, Digest, GetPreferences, PersonalChannel, Preferences,
    PutPreferences, QuietHours,
};

pub use feed::{
    AllRead, CountUnread, FeedCursor, FeedItem, FeedPage, GetNotificationFeed, InvalidFeedCursor,
    ReadNotifications, Unread,
};

pub use watches::{
    GetWatchStatus, ListWatches, Unwatch, Watch, WatchAdded, WatchStatus, WatchView, Watched,
};

pub use webhooks::{
    AddWebhook, ChangeWebhook, GetWebhook, ListWebhookDeliveries, ListWebhooks, RemoveWebhook,
    WebhookAdded, WebhookFormat, WebhookStatus, WebhookView, event_name, run_event_name,
};

/// Name of the service, as in subjects.
pub const SERVICE: &str = "notification";

words!(RequestEventKind, Channel, PendingReason);
all_variants!(PendingReason, RequestEventKind);

commands! {
    RecordRequestEvents: "record_request_events"(facts[0].id) -> Vec<Reply<EventRecorded>>;
    RecordRunEnds:       "record_run_ends"(ends[0].run)       -> Vec<Reply<RunEndRecorded>>;
    RecordContactEvents: "record_contact_events"(events[0].contact) -> Vec<Reply<EventRecorded>>;
    ReadNotification:    "read_notification"(id)              -> NotificationView;
    ReadNotifications:   "read_notifications"(person)         -> AllRead;
    PutPreferences:      "put_preferences"(person)            -> Preferences;
    Watch:               "watch"(of)                          -> WatchAdded;
    Unwatch:             "unwatch"(of)                        -> WatchView;
    AddWebhook:          "add_webhook"(id)                    -> WebhookAdded;
    ChangeWebhook:       "change_webhook"(id)                 -> WebhookView;
    RemoveWebhook:       "remove_webhook"(id)                 -> WebhookView;
    ShowWebhookSecret:   "show_webhook_secret"(= SERVICE)     -> WebhookSecretView;
}

queries! {
    GetNotification:       "notification"       -> NotificationView;
    ListNotifications:     "notifications"      -> Page<NotificationView>;
    GetNotificationFeed:   "notification_feed"  -> FeedPage;
    CountUnread:           "unread"             -> Unread;
    ListDeliveries:        "deliveries"         -> Page<DeliveryView>;
    GetPreferences:        "preferences"        -> Preferences;
    ListWatches:           "watches"            -> Page<WatchView>;
    GetWatchStatus:        "watch_status"       -> WatchStatus;
    ListWebhooks:          "webhooks"           -> Page<WebhookView>;
    GetWebhook:            "webhook"            -> WebhookView;
    ListWebhookDeliveries: "webhook_deliveries" -> Page<DeliveryView>;
}

/// Request events; one message a batch of the handoff service, sent again until it is acknowledged (M-5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordRequestEvents {
    /// At least one.
    pub facts: Vec<RequestEvent>,
}

/// One thing that happened to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestEvent {
    pub id: HoldId,
    /// The request's version after it, which identifies the event together with the id. At most one event a
    /// version; a repeated event notifies no user twice.
    pub rev: u64,
    pub kind: RequestEventKind,
    /// The user or service that did it; none: time.
    pub by: Option<String>,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// The recipients: `@user.<name>`, `@role.<name>`; empty: the workspace's owners. The reader resolves them.
    pub to: Vec<String>,
    /// The request after it.
    pub request: Box<RequestView>,
}

/// A change of a request that users are notified of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RequestEventKind {
    /// It is asked: those it is addressed to are notified.
    Opened,
    /// A user has it now: that person is notified.
    Assigned,
    /// A rung has fired, or its deadline passed: the rung's people are notified.
    Escalated,
    /// A user took the run over: what was sent of it says so.
    TakenOver,
    /// A person has written the names of users into a comment, a reason or notes: these users are notified.
    Mentioned,
    /// It has ended by a person: what was sent of it says so; a callback is called.
    Decided,
    /// The deadline passed: as for decided.
    Expired,
    /// It is withdrawn: as for decided.
    Withdrawn,
}

/// Reply of the notification service to one [`RequestEvent`] or [`ContactEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventRecorded {
    /// It is stored, and those it concerns are notified.
    Stored,
    Known,
}

impl RequestEventKind {
    /// Whether the request needs no user any longer.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::Opened | Self::Assigned | Self::Escalated | Self::TakenOver | Self::Mentioned => {
                false
            }
            Self::Decided | Self::Expired | Self::Withdrawn => true,
        }
    }
}

/// The subject of a notification (S0-T4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationType {
    /// The deadline of a task has passed.
    TaskDue,
    /// A user became the assignee.
    TaskAssigned,
    /// The stage of a contact's deal has become a won one.
    DealWon,
    /// The stage of a contact's deal has become a lost one.
    DealLost,
    /// A contact is created.
    NewLead,
    /// A run has ended that a user watches.
    WorkflowComplete,
    /// A person has written the user's name into a comment, a reason or notes.
    Mention,
    /// From the installation itself: a webhook was disabled.
    System,
    Custom,
    AgentHandoff,
    /// An approval is asked for.
    ApprovalRequested,
    /// An answer is asked for.
    InputRequested,
    /// No user has acted in time.
    Escalation,
}

/// Marks the caller's copy as read. Needs a signed assertion; again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadNotification {
    pub id: NotificationId,
}

/// Shows the secret that signs the workspace's callbacks. It is created by the first request. Needs
/// the signed assertion of a user who may administer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowWebhookSecret {}

/// The secret that signs a workspace's callbacks, as Standard Webhooks defines it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSecretView {
    /// `whsec_` and base64.
    pub secret: String,
}

/// The deliveries of a request, done and pending, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListDeliveries {
    pub request: HoldId,
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// A way out of the application.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Channel {
    /// A mail to a person.
    Email,
    /// A signed POST to the address that a hold was asked with.
    Callback,
    /// A signed POST to a webhook of the workspace.
    Webhook,
    /// A signed POST to a person's own chat.
    Chat,
    /// A mail to a person that gathers what is open.
    Digest,
}

/// Why a delivery is pending.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum PendingReason {
    /// Other deliveries: it is sent as soon as there is room.
    Queued,
    /// The end of its person's quiet hours.
    QuietHours,
    Retry,
    /// The result of an attempt that is running.
    Answer,
}

/// How far a delivery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is tried, or tried again.
    Pending,
    /// The other side has it.
    Sent,
    /// It is given up; `last_error` says why.
    Failed,
    /// It is not needed any longer: its request has ended, or its user does not use this channel; `last_error` says
    /// which.
    Dropped,
}

/// One delivery as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryView {
    /// The same for every try: `webhook-id` of a callback, webhook or chat, in the `Message-ID` of a mail.
    pub id: String,
    pub notification: NotificationId,
    pub channel: Channel,
    /// To whom, if it goes to a user.
    pub person: Option<UserName>,
    /// To which webhook, where it goes to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookId>,
    /// How far it has come.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried, or tried again, or its person's quiet hours end; while one is on its way: when
    /// that one is given up.
    #[serde(default, with = "crate::instant::option")]
    pub next_at: Option<DateTime<Utc>>,
    /// The reason to wait until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<PendingReason>,
    /// Ways by which its person could not be notified of the same, in order; the deliveries by them say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Channel>,
    pub last_error: Option<String>,
    /// The receiver's confirmation: its status, or the mail's `Message-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Since when it is to leave.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// When it was taken, given up or dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::instant::option")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// One person's copy of a notification as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationView {
    /// The same for all people who are notified.
    pub id: NotificationId,
    #[serde(rename = "type")]
    pub kind: NotificationType,
    pub title: String,
    /// In sentences.
    pub message: String,
    pub priority: Priority,
    /// Where to act: `/tasks/{task}?action=…`, below the address of the installation.
    pub action_url: String,
    /// Where to look, below the address of the installation.
    pub link: String,
    /// The run that asks, or that has ended; none for a standalone hold.
    pub run: Option<RunId>,
    /// The request that it is of; none: it is of the end of a run, of a contact, or of the installation itself.
    pub request: Option<HoldId>,
    /// The contact, if it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<ContactId>,
    /// When it happened.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// When this user read it, or when it needed no user any longer.
    #[serde(default, with = "crate::instant::option")]
    pub read_at: Option<DateTime<Utc>>,
    /// How the request ended, once it has, and is not asked again; or who took its run over.
    pub decided: Option<RequestEnd>,
    /// How the run ended, if that is the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
}

/// How the request of a notification ended, or who took its run over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEnd {
    /// `decided`, `expired`, `withdrawn`, `taken_over`.
    pub state: RequestEventKind,
    /// How, where a user or time decided.
    pub outcome: Option<HoldOutcome>,
    /// Name of the user; none: a timeout.
    pub by: Option<String>,
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// One person's copy of a notification. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetNotification {
    pub person: UserName,
    pub id: NotificationId,
}

/// One person's notifications, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNotifications {
    pub person: UserName,
    /// Only those that were not read.
    #[serde(default)]
    pub unread: bool,
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// One core message a batch: whose notifications have changed. May be lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationNudge {
    /// Names of the users; empty: many.
    pub people: Vec<UserName>,
}
