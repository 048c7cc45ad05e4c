//! Users: who there is, and the numbered facts by which other services keep copies.

use holdpoint_ids::{RoleName, UserName};
use serde::{Deserialize, Serialize};

/// Makes a user, or changes name, mail and roles of one (owner and admin only).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutUser {
    /// `@user.<name>`.
    pub name: UserName,
    pub email: Option<String>,
    /// Built-in ones grant rights (`owner admin operator member viewer agent`), any other is for
    /// `@role.` only.
    #[serde(default)]
    pub roles: Vec<RoleName>,
}

/// Disables a user, who then neither decides nor receives requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisableUser {
    pub name: UserName,
}

/// One user as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserView {
    /// `@user.<name>`.
    pub name: UserName,
    pub email: Option<String>,
    /// In alphabetical order.
    pub roles: Vec<RoleName>,
    /// False: disabled.
    pub active: bool,
    /// Rises with every change; readers of copies keep the highest.
    pub version: u64,
}

/// One user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetUser {
    pub name: UserName,
}

/// Users by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListUsers {
    /// 1 to 500.
    pub limit: u64,
    pub cursor: Option<String>,
}

/// Changes of users of all workspaces after a number: how readers keep their copies. Asked under
/// the workspace [`crate::subject::SYSTEM_WORKSPACE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListUserChanges {
    /// Facts with a greater number; 0 is the beginning.
    pub after: u64,
    /// 1 to 500.
    pub limit: u64,
}

/// One change of a user, numbered by the publisher without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserChange {
    /// From 1.
    pub seq: u64,
    pub workspace: holdpoint_ids::Workspace,
    pub user: UserView,
}
