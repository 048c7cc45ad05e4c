//! By which ways a person is told, from which priority on, and when not.

use holdpoint_ids::UserName;
use serde::{Deserialize, Serialize};

use super::SERVICE;
use crate::hold::Priority;
use crate::message::{Command, Query};

/// How one person is told. In the application they always are, and at once; this is about what leaves
/// it. What is left out is as for somebody who never said anything.
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
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            channels: Channels::default(),
            time_zone: utc(),
            quiet_hours: None,
        }
    }
}

/// The ways out of the application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channels {
    /// Mails, to the address that the workspace knows of the person.
    #[serde(default)]
    pub email: ChannelRule,
}

/// What goes by one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelRule {
    /// False: nothing does.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// From which priority on.
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

const fn any() -> Priority {
    Priority::Low
}

/// Says how the caller is to be told, from now on, and of what waits to be sent. Needs a signed
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

/// How one person is told. Only that person may see it: who asks has checked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetPreferences {
    /// Whose.
    pub person: UserName,
}
query!(GetPreferences, "preferences", Preferences);
