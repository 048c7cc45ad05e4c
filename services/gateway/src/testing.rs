//! Fixtures of unit tests.

use chrono::DateTime;
use holdpoint_auth::Claims;

/// The claims of a user in the workspace `acme`.
pub(crate) fn claims(user: &str, roles: &[&str]) -> Claims {
    Claims {
        workspace: "acme".parse().unwrap(),
        user: user.parse().unwrap(),
        roles: roles.iter().map(|role| role.parse().unwrap()).collect(),
        expires_at: DateTime::UNIX_EPOCH,
    }
}
