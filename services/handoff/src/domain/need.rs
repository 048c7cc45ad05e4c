//! What decisions may lack, and how they look at it.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_ids::{HoldId, PolicyName, RoleName, UserName, Workspace};

use super::{Policy, Request, User};

/// Something that a decision may lack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// One user of a workspace.
    User(Workspace, UserName),
    /// The active owners of a workspace.
    Owners(Workspace),
    /// Whether a workspace has any user.
    Members(Workspace),
    /// The active members of a role.
    Role(Workspace, RoleName),
    /// How many open requests each of a workspace's users has.
    Loads(Workspace),
    /// One policy of a workspace.
    Policy(Workspace, PolicyName),
    /// The names of a workspace's own policies.
    Policies(Workspace),
    /// Another request.
    Request(Workspace, HoldId),
}

/// What is found for a need.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// To [`Need::User`].
    User(User),
    /// To [`Need::Owners`].
    Owners(BTreeSet<UserName>),
    /// To [`Need::Members`].
    Members(bool),
    /// To [`Need::Role`].
    Role(BTreeSet<UserName>),
    /// To [`Need::Loads`]; who is missing has none.
    Loads(BTreeMap<UserName, u64>),
    /// To [`Need::Policy`].
    Policy(Box<Policy>),
    /// To [`Need::Policies`].
    Policies(BTreeSet<PolicyName>),
    /// To [`Need::Request`].
    Request(Box<Request>),
}
