//! The aggregates of the handoff service and their keys.

use holdpoint_ids::{HoldId, PolicyName, UserName, Workspace};

use super::policy::Policy;
use super::request::Request;
use super::user::User;

/// Names one aggregate. The workspace is part of the key, so that no aggregate reaches into another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Request(Workspace, HoldId),
    User(Workspace, UserName),
    Policy(Workspace, PolicyName),
}

/// The state of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    Request(Box<Request>),
    User(User),
    Policy(Box<Policy>),
}

impl Aggregate {
    /// The request, if it is one.
    #[must_use]
    pub fn as_request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::User(_) | Self::Policy(_) => None,
        }
    }

    /// The user, if it is one.
    #[must_use]
    pub const fn as_user(&self) -> Option<&User> {
        match self {
            Self::User(user) => Some(user),
            Self::Request(_) | Self::Policy(_) => None,
        }
    }

    /// The policy, if it is one.
    #[must_use]
    pub fn as_policy(&self) -> Option<&Policy> {
        match self {
            Self::Policy(policy) => Some(policy),
            Self::Request(_) | Self::User(_) => None,
        }
    }
}
