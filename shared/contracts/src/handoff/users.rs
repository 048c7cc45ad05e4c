//! Users: who there is, and the numbered facts by which other services keep copies.

use holdpoint_ids::{RoleName, UserName};
use serde::{Deserialize, Serialize};

use super::SERVICE;
use crate::message::{Command, Query};
use crate::run::Page;

/// Makes a user, or changes name, mail and roles of one (owner and admin only).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutUser {
    /// Who; `@user.<name>`.
    pub name: UserName,
    /// The mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// Built-in ones grant rights (`owner admin operator member viewer agent`), any other is for
    /// `@role.` only.
    #[serde(default)]
    pub roles: Vec<RoleName>,
}
command!(PutUser, "put_user", UserView, |it| it.name.to_string());

/// Disables a user: decides nothing any more, and is asked nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisableUser {
    /// Name of the user.
    pub name: UserName,
}
command!(DisableUser, "disable_user", UserView, |it| it
    .name
    .to_string());

/// One user as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserView {
    /// `@user.<name>`.
    pub name: UserName,
    /// The mail address.
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
    /// Name of the user.
    pub name: UserName,
}
query!(GetUser, "user", UserView);

/// Users by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListUsers {
    /// 1 to 500.
    pub limit: u64,
    /// From the page before.
    pub cursor: Option<String>,
}
query!(ListUsers, "users", Page<UserView>);

/// Changes of users of all workspaces after a number: how readers keep their copies. Asked under
/// the workspace [`crate::subject::SYSTEM_WORKSPACE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListUserChanges {
    /// Facts with a greater number; 0 is the beginning.
    pub after: u64,
    /// 1 to 500.
    pub limit: u64,
}
query!(ListUserChanges, "user_changes", Vec<UserChange>);

/// One change of a user, numbered by the publisher without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserChange {
    /// From 1.
    pub seq: u64,
    /// The workspace.
    pub workspace: holdpoint_ids::Workspace,
    /// As it now is.
    pub user: UserView,
}
