//! By which ways a person is notified, from which priority on, and when not.

use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use super::{Channel, WebhookFormat};
use crate::handoff::Weekday;
use crate::hold::Priority;

/// How one person is notified. In the application they always are, and at once; this is about what leaves
/// it. What is left out is as for a user who never said anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preferences {
    /// The ways out of the application.
    pub channels: Channels,
    /// Name of the zone in which the person lives, as the IANA database has it: `Europe/Berlin`.
    pub time_zone: String,
    /// When nothing is to reach them from outside; none: never.
    pub quiet_hours: Option<QuietHours>,
    /// When they are mailed of what is open and was not notified by any other way; none: never.
    pub digest: Option<Digest>,
}

/// One mail a day that gathers requests that are open and left the application by no way, because they
/// are not as urgent as the person wants. None on a day on which there is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digest {
    /// Time of day in the person's zone: `08:00`. In quiet hours it waits for their end.
    pub at: String,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            channels: Channels::default(),
            time_zone: "UTC".to_owned(),
            quiet_hours: None,
            digest: None,
        }
    }
}

/// The ways out of the application. What is to reach the person goes by the first one in `order` that
/// takes it; the next one takes over when that has failed for good. What is `urgent` or `critical` waits
/// no longer than ten minutes for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Channels {
    /// The order in which channels are tried, each once. A channel that is missing is not used.
    pub order: Vec<PersonalChannel>,
    /// Mails, to the address that the workspace knows of the person.
    pub email: ChannelRule,
    /// Messages to a chat of the person's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            order: vec![PersonalChannel::Email],
            email: ChannelRule::default(),
            chat: None,
        }
    }
}

/// A way out of the application to one person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonalChannel {
    #[serde(alias = "mail")]
    Email,
    /// To a chat of their own.
    Chat,
}

impl PersonalChannel {
    /// The channel of its deliveries.
    #[must_use]
    pub const fn channel(self) -> Channel {
        match self {
            Self::Email => Channel::Email,
            Self::Chat => Channel::Chat,
        }
    }
}

/// An incoming webhook of a person's own chat. It hears what its person is asked, with buttons to the
/// page where that is decided, and how it ended.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chat {
    /// False: nothing goes there.
    pub enabled: bool,
    /// The lowest priority that is sent.
    pub from: Priority,
    /// Where it is: http or https, at most 2,048 bytes. It is never shown again whole: left out, or as
    /// it is shown, it stays.
    pub url: Option<String>,
    pub format: WebhookFormat,
    /// The secret that signs its calls, as Standard Webhooks defines it. It is shown once, in the reply that created
    /// it. A value from the caller is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            enabled: true,
            from: Priority::Low,
            url: None,
            format: WebhookFormat::Slack,
            secret: None,
        }
    }
}

impl std::fmt::Debug for Chat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Chat");
        shown
            .field("enabled", &self.enabled)
            .field("from", &self.from);
        shown.field("format", &self.format).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelRule {
    /// False: nothing does.
    pub enabled: bool,
    /// The lowest priority that is sent.
    pub from: Priority,
}

impl Default for ChannelRule {
    fn default() -> Self {
        Self {
            enabled: true,
            from: Priority::Low,
        }
    }
}

/// Hours of the day, in the person's zone, in which nothing leaves the application for them. What is
/// `urgent` or `critical` does; anything else is held back to their end, and does not leave at all if
/// its request is over by then (S4-R15).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// When they begin: `22:00`.
    pub from: String,
    /// When they end: `07:00`, on the next day where that is not later than `from`; `24:00` is the end
    /// of the day.
    pub to: String,
    /// Days on which they begin; empty: every day.
    #[serde(default)]
    pub days: Vec<Weekday>,
}

/// Says how the caller is to be notified, from now on, and of what waits to be sent. Needs a signed
/// assertion; 422 `invalid_body` says what is wrong where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutPreferences {
    /// The caller's own name.
    pub person: UserName,
    /// All of them: what is left out is not kept.
    pub preferences: Preferences,
}

/// How one person is notified. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetPreferences {
    pub person: UserName,
}
