//! The addressee of a request or notice.

use holdpoint_ids::{RoleName, UserName};
use serde::{Deserialize, Serialize};

/// A user, or the active users of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    /// `@user.<name>`
    User(UserName),
    /// `@role.<name>`
    Role(RoleName),
}

impl Recipient {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("@user.") {
            return name.parse().ok().map(Self::User);
        }
        text.strip_prefix("@role.")?.parse().ok().map(Self::Role)
    }

    /// The owners of the workspace. `None` only if `owner` were an invalid role name.
    #[must_use]
    pub fn owners() -> Option<Self> {
        let owner = holdpoint_auth::Role::Owner.as_str();
        owner.parse().ok().map(Self::Role)
    }

    /// The recipients of a request. An unreadable one is left out; without any, the owners are notified.
    #[must_use]
    pub fn parse_all(texts: &[String]) -> Vec<Self> {
        let mut all: Vec<_> = texts.iter().filter_map(|text| Self::parse(text)).collect();
        if all.is_empty() {
            all.extend(Self::owners());
        }
        all
    }
}
