//! The types of a decision, and the data that it may lack.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_decision as decision;
use holdpoint_ids::{HoldId, PolicyName, RoleName, UserName, Workspace};
use strum::EnumTryAs;

use super::model::policy::Policy;
use super::model::request::Request;
use super::model::standing_approval::{CallKind, CountedStandingApproval};
use super::model::user::User;
use super::refusal::Refusal;

/// The handoff service's rules; `decide` implements them.
#[derive(Debug, PartialEq)]
pub struct HandoffDomain;

pub type Outcome = decision::Outcome<HandoffDomain>;
/// The next state of an aggregate, with its effects.
pub type Change = decision::Decided<HandoffDomain>;
pub type Undecided = decision::Undecided<HandoffDomain>;
pub type Lookup = decision::Lookup<Fact>;
/// How a decision looks up what it needs.
pub type LookupFn<'a> = &'a dyn Fn(&Need) -> Lookup;

impl From<Refusal> for Undecided {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    User(Workspace, UserName),
    /// The active owners of a workspace.
    Owners(Workspace),
    /// Whether a workspace has any user.
    Members(Workspace),
    Role(Workspace, RoleName),
    /// How many open requests each of a workspace's users has.
    Loads(Workspace),
    Policy(Workspace, PolicyName),
    /// The names of a workspace's own policies.
    Policies(Workspace),
    Request(Workspace, HoldId),
    /// The standing approvals of such calls that are neither revoked nor expired at the instant.
    StandingApprovals(Workspace, CallKind, DateTime<Utc>),
    /// How many standing approvals of a workspace are neither revoked nor expired at the instant: either the early ones,
    /// or all others.
    StandingApprovalCount {
        workspace: Workspace,
        is_early: bool,
        now: DateTime<Utc>,
    },
}

/// The value of the need with the same name.
#[derive(Debug, Clone, PartialEq, EnumTryAs)]
pub enum Fact {
    User(User),
    Owners(BTreeSet<UserName>),
    Members(bool),
    Role(BTreeSet<UserName>),
    /// A user without an open request has no entry.
    Loads(BTreeMap<UserName, u64>),
    Policy(Box<Policy>),
    Policies(BTreeSet<PolicyName>),
    Request(Box<Request>),
    StandingApprovals(Vec<CountedStandingApproval>),
    StandingApprovalCount(u64),
}
