//! By which ways a person is notified, from which priority on, and when not.

use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use super::{Channel, SERVICE, WebhookFormat};
use crate::hold::Priority;
use crate::message::{Command, Query};

/// How one person is notified. In the application they always are, and at once; this is about what leaves
/// it. What is left out is as for a user who never said anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preferences {
    /// The ways out of the application.
    #[serde(default)]
    pub channels: Channels,
    /// Name of the zone in which the person lives, as the IANA database has it: `Europe/Berlin`.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// When nothing is to reach them from outside; none: never.
    #[serde(default)]
    pub quiet_hours: Option<QuietHours>,
    /// When they are mailed of what is open and was not notified by any other way; none: never.
    #[serde(default)]
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
            time_zone: utc(),
            quiet_hours: None,
            digest: None,
        }
    }
}

/// The ways out of the application. What is to reach the person goes by the first one in `order` that
/// takes it; the next one takes over when that has failed for good. What is `urgent` or `critical` waits
/// no longer than ten minutes for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// Which is tried first, and which after it; what is not named is not used. Each once.
    #[serde(default = "by_mail")]
    pub order: Vec<PersonalChannel>,
    /// Mails, to the address that the workspace knows of the person.
    #[serde(default)]
    pub email: ChannelRule,
    /// Messages to a chat of the person's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            order: by_mail(),
            email: ChannelRule::default(),
            chat: None,
        }
    }
}

/// A way out of the application to one person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonalChannel {
    /// By mail.
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
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// False: nothing goes there.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The lowest priority that is sent.
    #[serde(default = "any")]
    pub from: Priority,
    /// Where it is: http or https, at most 2,048 bytes. It is never shown again whole: left out, or as
    /// it is shown, it stays.
    #[serde(default)]
    pub url: Option<String>,
    /// The format.
    #[serde(default = "slack")]
    pub format: WebhookFormat,
    /// What its calls are signed with, as Standard Webhooks says: shown once, in the answer that made it.
    /// What is sent here is not taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
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

/// What goes by one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelRule {
    /// False: nothing does.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The lowest priority that is sent.
    #[serde(default = "any")]
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
    pub days: Vec<Day>,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Day {
    /// Every day, from Monday.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn yes() -> bool {
    true
}

fn by_mail() -> Vec<PersonalChannel> {
    vec![PersonalChannel::Email]
}

const fn slack() -> WebhookFormat {
    WebhookFormat::Slack
}

const fn any() -> Priority {
    Priority::Low
}

/// Says how the caller is to be notified, from now on, and of what waits to be sent. Needs a signed
/// assertion; 422 `invalid_body` says what is wrong where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutPreferences {
    /// Whose; the caller's own.
    pub person: UserName,
    /// All of them: what is left out is not kept.
    pub preferences: Preferences,
}
command!(PutPreferences, "put_preferences", Preferences, |it| it
    .person
    .to_string());

/// How one person is notified. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetPreferences {
    /// The user.
    pub person: UserName,
}
query!(GetPreferences, "preferences", Preferences);
