//! The addressee of a request.

use std::fmt;
use std::str::FromStr;

use holdpoint_ids::{RoleName, UserName};

/// Recipient text of the role that gets a request without another recipient.
pub const OWNERS: &str = "@role.owner";

const USER: &str = "@user.";
const ROLE: &str = "@role.";

/// One user, or all users with a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recipient {
    /// `@user.<name>`
    User(UserName),
    /// `@role.<name>`
    Role(RoleName),
}

/// A text is not a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidRecipient;

impl fmt::Display for InvalidRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected `@user.<name>` or `@role.<name>`")
    }
}

impl std::error::Error for InvalidRecipient {}

impl Recipient {
    /// Whether a text has the form of a recipient.
    #[must_use]
    pub fn is_valid(text: &str) -> bool {
        text.parse::<Self>().is_ok()
    }

    /// The text that addresses a user by name.
    #[must_use]
    pub fn user_text(name: &impl fmt::Display) -> String {
        format!("{USER}{name}")
    }

    /// The text that addresses a role by name.
    #[must_use]
    pub fn role_text(name: &impl fmt::Display) -> String {
        format!("{ROLE}{name}")
    }

    /// The name of a user without `@user.`, which callers may write or omit.
    #[must_use]
    pub fn bare_user_name(text: &str) -> &str {
        text.strip_prefix(USER).unwrap_or(text)
    }
}

impl FromStr for Recipient {
    type Err = InvalidRecipient;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let user = text.strip_prefix(USER).and_then(|name| name.parse().ok());
        let role = || text.strip_prefix(ROLE).and_then(|name| name.parse().ok());
        user.map(Self::User)
            .or_else(|| role().map(Self::Role))
            .ok_or(InvalidRecipient)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "{USER}{name}"),
            Self::Role(role) => write!(f, "{ROLE}{role}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_read_as_it_is_written() {
        for text in ["@user.ada", "@role.on-call"] {
            assert_eq!(text.parse::<Recipient>().unwrap().to_string(), text);
        }
        for text in ["ada", "@user.", "@role.a b", "@team.ops", "@user"] {
            assert_eq!(text.parse::<Recipient>(), Err(InvalidRecipient), "{text}");
        }
    }
}
