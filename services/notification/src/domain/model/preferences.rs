//! How one person wants to be notified: channels, lowest priorities and quiet hours (S4-R15).

mod chat;
mod quiet_hours;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use holdpoint_calendar::NAME_CHARS_MAX;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    self as contract, Channel, ChannelRule, Digest, PersonalChannel,
};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{UserName, Workspace};

pub use chat::masked_preferences;
pub(crate) use chat::merge_chat;
pub use quiet_hours::QuietHours;
pub(crate) use quiet_hours::{DAY, minutes_of_day};

#[derive(Debug, Clone, PartialEq)]
pub struct Preferences {
    pub workspace: Workspace,
    pub person: UserName,
    pub said: contract::Preferences,
    /// When the next digest is due.
    pub digest_at: Option<DateTime<Utc>>,
    /// Rises with every change.
    pub version: u64,
}

/// The rules that follow from preferences. The default is that of a person without preferences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRules {
    order: Vec<PersonalChannel>,
    email: ChannelRule,
    chat: Option<ChannelRule>,
    pub(in crate::domain) zone: Tz,
    pub(in crate::domain) quiet: Option<QuietHours>,
    /// Minutes since midnight.
    pub(in crate::domain) digest: Option<u32>,
}

impl Default for DeliveryRules {
    fn default() -> Self {
        Self {
            order: vec![PersonalChannel::Email],
            email: ChannelRule::default(),
            chat: None,
            zone: Tz::UTC,
            quiet: None,
            digest: None,
        }
    }
}

impl DeliveryRules {
    /// Parses preferences.
    ///
    /// # Errors
    /// 422 `invalid_body` with every error and its place.
    pub fn read(said: &contract::Preferences) -> Result<Self, Problem> {
        let mut errors = chat::wrong(&said.channels);
        let digest = digest_time(said.digest.as_ref(), &mut errors);
        let zone = zone(&said.time_zone).map_err(|error| errors.push(*error));
        let quiet = said.quiet_hours.as_ref().map(QuietHours::read).transpose();
        let quiet = quiet.map_err(|wrong| errors.extend(wrong));
        match (zone, quiet) {
            (Ok(zone), Ok(quiet)) if errors.is_empty() => Ok(Self {
                order: said.channels.order.clone(),
                email: said.channels.email,
                chat: said.channels.chat.as_ref().map(|chat| ChannelRule {
                    enabled: chat.enabled,
                    from: chat.from,
                }),
                zone,
                quiet,
                digest,
            }),
            (Ok(_), Ok(_)) | (Err(()), _) | (_, Err(())) => {
                let messages: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
                Err(Problem::invalid_body(messages.join("; ")).with_errors(errors))
            }
        }
    }

    /// Whether the person wants this priority through this channel.
    #[must_use]
    pub fn wants(&self, channel: PersonalChannel, priority: Priority) -> bool {
        let rule = match channel {
            PersonalChannel::Email => Some(self.email),
            PersonalChannel::Chat => self.chat,
        };
        let takes = rule.is_some_and(|rule| rule.enabled && priority >= rule.from);
        takes && self.order.contains(&channel)
    }

    /// The first channel for this priority that was not tried.
    #[must_use]
    pub fn next(&self, priority: Priority, tried: &[Channel]) -> Option<PersonalChannel> {
        let mut order = self.order.iter().copied();
        order.find(|one| self.wants(*one, priority) && !tried.contains(&one.channel()))
    }
}

fn zone(name: &str) -> Result<Tz, Box<FieldError>> {
    holdpoint_calendar::read_zone(name).map_err(|nearest| {
        Box::new(FieldError {
            text: name.chars().take(NAME_CHARS_MAX).collect(),
            nearest,
            ..FieldError::at(
                "/time_zone",
                "time_zone is the name of a zone of the IANA database, such as Europe/Berlin",
            )
        })
    })
}

/// Parses the time of day, or adds an error.
fn digest_time(said: Option<&Digest>, errors: &mut Vec<FieldError>) -> Option<u32> {
    let said = said?;
    let read = minutes_of_day(&said.at).filter(|minutes| *minutes < DAY);
    if read.is_none() {
        errors.push(FieldError {
            text: said.at.chars().take(100).collect(),
            ..FieldError::at("/digest/at", "digest.at is a time of day such as 08:00")
        });
    }
    read
}
