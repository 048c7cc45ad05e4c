//! Commands and queries of the notification service: who is notified what, and by which way.

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, NotificationId, RunId, UserName, WebhookId};
use serde::{Deserialize, Serialize};

use crate::handoff::RequestView;
use crate::hold::{HoldOutcome, Priority};
use crate::message::{Command, Query, Reply};
use crate::run::Page;

mod ends;
mod preferences;
mod reading;
mod watches;
mod webhooks;

pub use ends::{RecordRunEnds, RunEnd, RunEndRecorded, RunEnded};

pub use preferences::{
    ChannelRule, Channels, Chat, Day, Digest, GetPreferences, PersonalChannel, Preferences,
    PutPreferences, QuietHours,
};

pub use reading::{
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

/// What became of requests; one message a batch of the handoff service, sent again until it is
/// confirmed (M-5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordRequestEvents {
    /// At least one.
    pub facts: Vec<RequestEvent>,
}
command!(
    RecordRequestEvents,
    "record_request_events",
    Vec<Reply<EventRecorded>>,
    |it| it
        .facts
        .first()
        .map(|first| first.id.to_string())
        .unwrap_or_default()
);

/// One thing that happened to one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestEvent {
    /// The request.
    pub id: HoldId,
    /// The request's version after it: with the id, what this fact is known by. At most one fact a
    /// version; the same one again tells no user twice.
    pub rev: u64,
    /// What happened.
    pub kind: RequestEventKind,
    /// Who did it; none: time.
    pub by: Option<String>,
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// Whom it concerns: `@user.<name>`, `@role.<name>`; empty: the workspace's owners. The reader
    /// knows who that is.
    pub to: Vec<String>,
    /// The request after it.
    pub request: Box<RequestView>,
}

/// What can happen to a request that a user is notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEventKind {
    /// It is asked: those it is addressed to are notified.
    Opened,
    /// A user has it now: that person is notified.
    Assigned,
    /// A rung has fired, or its deadline passed: the rung's people are notified.
    Escalated,
    /// A user took the run over: what was sent of it says so.
    TakenOver,
    /// It has ended by a person: what was sent of it says so; a callback is called.
    Decided,
    /// The deadline passed: as for decided.
    Expired,
    /// It is not wanted any more: as for decided.
    Withdrawn,
}

/// Reply of the notification service to one [`RequestEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventRecorded {
    /// It is stored, and those it concerns are notified.
    Stored,
    /// It was known.
    Known,
}

impl RequestEventKind {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Assigned => "assigned",
            Self::Escalated => "escalated",
            Self::TakenOver => "taken_over",
            Self::Decided => "decided",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Whether no user has to do anything with the request any more.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::Opened | Self::Assigned | Self::Escalated | Self::TakenOver => false,
            Self::Decided | Self::Expired | Self::Withdrawn => true,
        }
    }
}

/// What a notification is about (S0-T4). Not all of them are sent yet: a reader knows them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationType {
    /// Something is due.
    TaskDue,
    /// A user became the assignee.
    TaskAssigned,
    /// A deal was won.
    DealWon,
    /// A deal was lost.
    DealLost,
    /// A new lead.
    NewLead,
    /// A run has ended that a user watches.
    WorkflowComplete,
    /// A user was named.
    Mention,
    /// Of the installation itself: a webhook was disabled.
    System,
    /// Anything else.
    Custom,
    /// An agent hands over.
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
    /// The id.
    pub id: NotificationId,
}
command!(
    ReadNotification,
    "read_notification",
    NotificationView,
    |it| it.id.to_string()
);

/// What callbacks of the workspace are signed with; made when it is first asked for. Needs
/// the signed assertion of a user who may administer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowWebhookSecret {}
command!(
    ShowWebhookSecret,
    "show_webhook_secret",
    WebhookSecretView,
    |_it| SERVICE.to_owned()
);

/// What callbacks of a workspace are signed with, as Standard Webhooks says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSecretView {
    /// `whsec_` and base64.
    pub secret: String,
}

/// What left, or is to leave, the application because of a request, in the order in which it came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListDeliveries {
    /// The request.
    pub request: HoldId,
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListDeliveries, "deliveries", Page<DeliveryView>);

/// A way out of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Channel {
    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Callback => "callback",
            Self::Webhook => "webhook",
            Self::Chat => "chat",
            Self::Digest => "digest",
        }
    }
}

/// What a delivery that is pending waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingReason {
    /// Its turn: it goes as soon as there is room.
    Turn,
    /// The end of its person's quiet hours.
    QuietHours,
    /// Another try, after one that went wrong.
    Retry,
    /// What comes of a try: it is on its way.
    Answer,
}

impl PendingReason {
    /// Everything that one can wait for.
    pub const ALL: [Self; 4] = [Self::Turn, Self::QuietHours, Self::Retry, Self::Answer];

    /// The word in bodies and rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::QuietHours => "quiet_hours",
            Self::Retry => "retry",
            Self::Answer => "answer",
        }
    }
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
    /// No user wants it any more: what it is of is over, or whom it was for does not want to be notified
    /// this way; `last_error` says which.
    Dropped,
}

/// One delivery as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryView {
    /// The same for every try: `webhook-id` of a callback, webhook or chat, in the `Message-ID` of a mail.
    pub id: String,
    /// The notification.
    pub notification: NotificationId,
    /// The channel.
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
    /// What it waits for until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<PendingReason>,
    /// Ways by which its person could not be notified of the same, in order; the deliveries by them say why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Channel>,
    /// The last error.
    pub last_error: Option<String>,
    /// What the other side said when it took it: its status, or the mail's `Message-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Since when it is to leave.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// When it was taken, given up or dropped.
    #[serde(
        default,
        with = "crate::instant::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ended_at: Option<DateTime<Utc>>,
}

/// One person's copy of a notification as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationView {
    /// The same for all people who are notified.
    pub id: NotificationId,
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: NotificationType,
    /// The title.
    pub title: String,
    /// In sentences.
    pub message: String,
    /// The priority.
    pub priority: Priority,
    /// Where to act: `/tasks/{task}?action=…`, below the address of the installation.
    pub action_url: String,
    /// Where to look, below the address of the installation.
    pub link: String,
    /// Whose run asks, if one does; or which has ended.
    pub run: Option<RunId>,
    /// The request that it is of; none: it is of the end of a run, or of the installation itself.
    pub request: Option<HoldId>,
    /// When it happened.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
    /// When this person has read it, or no user had to any more.
    #[serde(default, with = "crate::instant::option")]
    pub read_at: Option<DateTime<Utc>>,
    /// How the request ended, once it has, and is not asked again; or who took its run over.
    pub decided: Option<RequestEnd>,
    /// How the run ended, where it tells of that.
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
    /// The instant.
    #[serde(with = "crate::instant")]
    pub at: DateTime<Utc>,
}

/// One person's copy of a notification. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetNotification {
    /// The user.
    pub person: UserName,
    /// The id.
    pub id: NotificationId,
}
query!(GetNotification, "notification", NotificationView);

/// One person's notifications, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNotifications {
    /// The user.
    pub person: UserName,
    /// Only those that were not read.
    #[serde(default)]
    pub unread: bool,
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListNotifications, "notifications", Page<NotificationView>);

/// One core message a batch: whose notifications have changed. May be lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationNudge {
    /// Names of the users; empty: many.
    pub people: Vec<UserName>,
}

impl NotificationNudge {
    /// Whether a user's notifications may have changed.
    #[must_use]
    pub fn concerns(&self, person: &UserName) -> bool {
        self.people.is_empty() || self.people.contains(person)
    }
}
