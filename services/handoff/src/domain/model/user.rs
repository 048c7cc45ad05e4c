//! Users: names, mail addresses and roles in a workspace.

use std::collections::BTreeSet;

use holdpoint_auth::Role;
use holdpoint_contracts::handoff::UserView;
use holdpoint_ids::{RoleName, UserName, Workspace};
use serde::{Deserialize, Serialize};

/// A person, or a program with rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub workspace: Workspace,
    pub name: UserName,
    pub email: Option<String>,
    /// Built-in roles grant rights; others only group recipients.
    pub roles: BTreeSet<RoleName>,
    /// False: disabled.
    pub active: bool,
    /// Rises with every change.
    pub version: u64,
    /// The user is disabled, and the sweep still reassigns their requests.
    #[serde(default)]
    pub is_leaving: bool,
    /// Roles that the user had. The sweep checks whether a request of such a role has lost its last member.
    #[serde(default)]
    pub left_roles: BTreeSet<RoleName>,
}

impl User {
    /// Whether the user is active and an owner of the workspace.
    #[must_use]
    pub fn is_active_owner(&self) -> bool {
        self.active && self.has_owner_role()
    }

    pub(crate) fn has_owner_role(&self) -> bool {
        let is_owner = |role: &RoleName| role.as_str() == Role::Owner.as_str();
        self.roles.iter().any(is_owner)
    }

    /// Whether the sweep has to check requests of the user or of their former roles.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.is_leaving || !self.left_roles.is_empty()
    }

    /// All former roles once the user has these roles.
    pub(crate) fn former_roles_with(&self, roles: &BTreeSet<RoleName>) -> BTreeSet<RoleName> {
        let had = self.roles.iter().filter(|_| self.active);
        let left = self.left_roles.iter().chain(had);
        left.filter(|role| !roles.contains(*role))
            .cloned()
            .collect()
    }

    /// The user as the API shows it.
    #[must_use]
    pub fn view(&self) -> UserView {
        UserView {
            name: self.name.clone(),
            email: self.email.clone(),
            roles: self.roles.iter().cloned().collect(),
            active: self.active,
            version: self.version,
        }
    }
}
