//! The aggregates of the handoff service and their keys.

use holdpoint_ids::{HoldId, PolicyName, StandingApprovalId, UserName, Workspace};
use strum::EnumTryAs;

use super::policy::Policy;
use super::request::Request;
use super::standing_approval::StandingApproval;
use super::user::User;

/// Names one aggregate. The workspace is part of the key, so that no aggregate reaches into another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    Request(Workspace, HoldId),
    User(Workspace, UserName),
    Policy(Workspace, PolicyName),
    StandingApproval(Workspace, StandingApprovalId),
    /// Requests that are past their retention. They have no state here.
    Expired,
}

#[derive(Debug, Clone, PartialEq, EnumTryAs)]
pub enum Aggregate {
    Request(Box<Request>),
    User(User),
    Policy(Box<Policy>),
    StandingApproval(Box<StandingApproval>),
    /// Only effects write its rows.
    Expired,
}

impl Aggregate {
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Request(request) => Key::Request(request.workspace.clone(), request.id),
            Self::User(user) => Key::User(user.workspace.clone(), user.name.clone()),
            Self::Policy(policy) => Key::Policy(policy.workspace.clone(), policy.name.clone()),
            Self::StandingApproval(one) => Key::StandingApproval(one.workspace.clone(), one.id),
            Self::Expired => Key::Expired,
        }
    }
}
