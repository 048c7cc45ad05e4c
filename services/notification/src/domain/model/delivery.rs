//! One delivery that leaves the application, to a person or to the address that a hold names.
//!
//! Delivery is at least once: it is dispatched under a lease, and again when the lease expires without a
//! report. The receiver recognises a repetition by an id that is the same for every attempt.

use chrono::{DateTime, Utc};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    Channel, DeliveryState, DeliveryView, PendingReason, PersonalChannel,
};
use holdpoint_ids::{NotificationId, UserName, WebhookId, Workspace};
use strum::IntoStaticStr;

/// Longest stored sentence about what went wrong, in characters.
pub(crate) const ERROR_CHARS_MAX: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryTarget {
    Mail(UserName),
    /// A POST to the callback address of a standalone hold.
    Callback,
    Webhook(WebhookId),
    Chat(UserName),
    /// A mail to a person that gathers what is open.
    Digest(UserName),
}

impl DeliveryTarget {
    #[must_use]
    pub const fn channel(&self) -> Channel {
        match self {
            Self::Mail(_) => Channel::Email,
            Self::Callback => Channel::Callback,
            Self::Webhook(_) => Channel::Webhook,
            Self::Chat(_) => Channel::Chat,
            Self::Digest(_) => Channel::Digest,
        }
    }

    /// A person, through one of their channels.
    #[must_use]
    pub const fn by(channel: PersonalChannel, person: UserName) -> Self {
        match channel {
            PersonalChannel::Email => Self::Mail(person),
            PersonalChannel::Chat => Self::Chat(person),
        }
    }

    /// The person who receives it, if a person does.
    #[must_use]
    pub const fn name(&self) -> Option<&UserName> {
        match self {
            Self::Mail(person) | Self::Chat(person) | Self::Digest(person) => Some(person),
            Self::Callback | Self::Webhook(_) => None,
        }
    }

    /// The person and channel of one notification. Another channel may take over.
    #[must_use]
    pub const fn person(&self) -> Option<(&UserName, PersonalChannel)> {
        match self {
            Self::Mail(person) => Some((person, PersonalChannel::Email)),
            Self::Chat(person) => Some((person, PersonalChannel::Chat)),
            Self::Callback | Self::Webhook(_) | Self::Digest(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey {
    pub workspace: Workspace,
    pub note: NotificationId,
    pub to: DeliveryTarget,
}

impl DeliveryKey {
    /// The same for every attempt, and unique in the workspace.
    #[must_use]
    pub fn stable_id(&self) -> String {
        match &self.to {
            DeliveryTarget::Mail(person) | DeliveryTarget::Digest(person) => {
                format!("{}.{person}", self.note)
            }
            DeliveryTarget::Callback => format!("msg_{}", self.note),
            DeliveryTarget::Webhook(id) => format!("msg_{}_{id}", self.note),
            DeliveryTarget::Chat(person) => format!("msg_{}_{person}", self.note),
        }
    }
}

#[derive(Debug, Clone, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// The next attempt begins at `next_at`.
    Pending {
        next_at: DateTime<Utc>,
        waits: PendingReason,
    },
    /// The receiver accepted it.
    Sent { receipt: String },
    /// All attempts failed; the last error says why.
    Failed,
    /// No longer wanted, or never attempted; the last error says why.
    Dropped,
}

impl Phase {
    /// When the next attempt begins, and what it waits for.
    #[must_use]
    pub const fn as_pending(&self) -> Option<(DateTime<Utc>, PendingReason)> {
        match self {
            Self::Pending { next_at, waits } => Some((*next_at, *waits)),
            Self::Sent { .. } | Self::Failed | Self::Dropped => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub key: DeliveryKey,
    /// The priority of the event when it happened.
    pub priority: Priority,
    /// Channels that failed for the same person and notification.
    pub after: Vec<Channel>,
    pub at: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
    pub phase: Phase,
    /// Dispatches so far.
    pub attempts: u32,
    /// May be shown to users: it contains no text of the receiver (S0-R5).
    pub last_error: Option<String>,
    /// Rises with every change.
    pub version: u64,
}

impl Delivery {
    #[must_use]
    pub fn view(&self) -> DeliveryView {
        let state = match &self.phase {
            Phase::Pending { .. } => DeliveryState::Pending,
            Phase::Sent { .. } => DeliveryState::Sent,
            Phase::Failed => DeliveryState::Failed,
            Phase::Dropped => DeliveryState::Dropped,
        };
        let pending = self.phase.as_pending();
        let (phase, target) = (&self.phase, &self.key.to);
        let receipt = if let Phase::Sent { receipt } = phase {
            Some(receipt.clone())
        } else {
            None
        };
        let webhook = if let DeliveryTarget::Webhook(id) = target {
            Some(*id)
        } else {
            None
        };
        DeliveryView {
            id: self.key.stable_id(),
            notification: self.key.note,
            channel: self.key.to.channel(),
            person: target.name().cloned(),
            webhook,
            state,
            attempts: self.attempts,
            next_at: pending.map(|(next_at, _)| next_at),
            waits: pending.map(|(_, waits)| waits),
            after: self.after.clone(),
            last_error: self.last_error.clone(),
            receipt,
            at: self.at,
            ended_at: pending.is_none().then_some(self.changed_at),
        }
    }

    /// The delivery after a change, with the reason.
    #[must_use]
    pub fn with_phase(&self, phase: Phase, why: &str) -> Self {
        Self {
            phase,
            last_error: Some(why.chars().take(ERROR_CHARS_MAX).collect()),
            version: self.version + 1,
            ..self.clone()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDelivery {
    pub to: DeliveryTarget,
    pub due_at: DateTime<Utc>,
    /// What it waits for until then.
    pub waits: PendingReason,
    /// Channels that failed for the same person and notification.
    pub after: Vec<Channel>,
    /// Why it is stored as dropped and never attempted.
    pub dropped: Option<String>,
}

impl PlannedDelivery {
    /// It leaves as soon as there is room.
    #[must_use]
    pub const fn at_once(to: DeliveryTarget, now: DateTime<Utc>) -> Self {
        Self {
            to,
            due_at: now,
            waits: PendingReason::Queued,
            after: Vec::new(),
            dropped: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptReport {
    /// The receiver accepted it.
    Sent { receipt: String },
    /// It failed, and may succeed later.
    Later(String),
    /// It failed, and a retry cannot help.
    Never(String),
    /// It is no longer wanted.
    Dropped(String),
}
