//! How one person wants to be told: by which ways, from which priority on, and when not (S4-R15).

mod chat;
mod digest;
mod quiet;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{self as contract, Channel, ChannelRule, PersonalChannel};
use holdpoint_contracts::{FieldError, Problem};
use holdpoint_ids::{UserName, Workspace};

use super::{Aggregate, Change, Effect, Outcome, Reply, Undecided};
use quiet::Quiet;

pub(crate) use chat::shown;
pub(super) use digest::digest;

/// From here on it leaves the application in quiet hours too.
const BREAKS_QUIET: Priority = Priority::Urgent;

/// Names of zones that are offered instead of one that is none.
const NEAREST_MAX: usize = 3;

/// What one person has said.
#[derive(Debug, Clone, PartialEq)]
pub struct Preferences {
    pub workspace: Workspace,
    pub person: UserName,
    pub said: contract::Preferences,
    /// When they are next mailed of what is open; none: never.
    pub digest_at: Option<DateTime<Utc>>,
    /// Rises with every change.
    pub version: u64,
}

/// What follows from it; by default that of somebody who never said anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    order: Vec<PersonalChannel>,
    email: ChannelRule,
    chat: Option<ChannelRule>,
    zone: Tz,
    quiet: Option<Quiet>,
    /// Minutes since midnight.
    digest: Option<u32>,
}

impl Default for Rules {
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

impl Rules {
    /// Reads them.
    ///
    /// # Errors
    /// 422 `invalid_body`, with everything that is wrong and where.
    pub fn read(said: &contract::Preferences) -> Result<Self, Problem> {
        let mut errors = chat::wrong(&said.channels);
        let digest = digest::read(said.digest.as_ref(), &mut errors);
        let zone = zone(&said.time_zone).map_err(|error| errors.push(*error));
        let quiet = said.quiet_hours.as_ref().map(Quiet::read).transpose();
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
                let told: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
                Err(Problem::invalid_body(told.join("; ")).with_errors(errors))
            }
        }
    }

    /// Whether something of this priority is to go by a way.
    #[must_use]
    pub fn wants(&self, way: PersonalChannel, priority: Priority) -> bool {
        let rule = match way {
            PersonalChannel::Email => Some(self.email),
            PersonalChannel::Chat => self.chat,
        };
        let takes = rule.is_some_and(|rule| rule.enabled && priority >= rule.from);
        takes && self.order.contains(&way)
    }

    /// The first way for something of this priority, but for those that were tried.
    #[must_use]
    pub fn next(&self, priority: Priority, tried: &[Channel]) -> Option<PersonalChannel> {
        let mut order = self.order.iter().copied();
        order.find(|way| self.wants(*way, priority) && !tried.contains(&way.channel()))
    }

    /// Until when something of this priority is held back; none: it may leave now. The instant is
    /// outside of quiet hours, and at most some days away.
    #[must_use]
    pub fn held_until(&self, priority: Priority, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        if priority >= BREAKS_QUIET {
            return None;
        }
        self.quiet.as_ref()?.until(self.zone, now)
    }
}

fn zone(name: &str) -> Result<Tz, Box<FieldError>> {
    name.parse().map_err(|_no_zone| {
        let wanted = name.to_lowercase().replace(' ', "_");
        let names = TZ_VARIANTS.into_iter().map(Tz::name);
        let is_near = |one: &&str| !wanted.is_empty() && one.to_lowercase().contains(&wanted);
        Box::new(FieldError {
            text: name.chars().take(100).collect(),
            nearest: names
                .filter(is_near)
                .take(NEAREST_MAX)
                .map(str::to_owned)
                .collect(),
            ..FieldError::at(
                "/time_zone",
                "time_zone is the name of a zone of the IANA database, such as Europe/Berlin",
            )
        })
    })
}

/// From now on; what waits to be sent is looked at again. `fresh` signs the calls of a chat that is new.
pub(super) fn put(
    known: Option<&Preferences>,
    (workspace, person): (&Workspace, &UserName),
    (said, fresh): (&contract::Preferences, &str),
    now: DateTime<Utc>,
) -> Result<Outcome, Undecided> {
    let said = chat::settled(known.map(|known| &known.said), said, fresh)?;
    let mut answer = shown(&said);
    if let (Some(chat), Some(stored)) = (&mut answer.channels.chat, &said.channels.chat) {
        chat.secret = stored.secret.clone().filter(|secret| secret == fresh);
    }
    let answer = Reply::Preferences(answer);
    if known.is_some_and(|known| known.said == said) {
        return Ok(Outcome::Unchanged(answer));
    }
    let next = Preferences {
        workspace: workspace.clone(),
        person: person.clone(),
        digest_at: Rules::read(&said)
            .ok()
            .and_then(|rules| rules.digest_after(now)),
        said,
        version: known.map_or(0, |known| known.version) + 1,
    };
    Ok(Outcome::Decided(Box::new(Change {
        effects: vec![Effect::Reconsider {
            workspace: workspace.clone(),
            person: person.clone(),
        }],
        state: Aggregate::Preferences(Box::new(next)),
        facts: Vec::new(),
        reply: answer,
    })))
}
