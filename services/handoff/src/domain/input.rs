//! Everything that can happen to an aggregate, and the sender of a command.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use holdpoint_auth::{AuthError, Claims};
use holdpoint_contracts::handoff::{
    ActOnRequest, AskAgain, CreateStandingApproval, DecideRequest, OpenHold, PolicyRules,
    WithdrawHold,
};
use holdpoint_contracts::hold::{CloseReply, HoldState};
use holdpoint_contracts::message::Actor;
use holdpoint_holds::Recipient;
use holdpoint_ids::{HoldId, PolicyName, RoleName, StandingApprovalId, UserName, Workspace};

use super::model::aggregate::Key;

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Request {
        workspace: Workspace,
        id: HoldId,
        input: RequestInput,
    },
    User {
        workspace: Workspace,
        name: UserName,
        caller: Caller,
        input: UserInput,
    },
    Policy {
        workspace: Workspace,
        name: PolicyName,
        caller: Caller,
        input: PolicyInput,
    },
    StandingApproval {
        workspace: Workspace,
        id: StandingApprovalId,
        caller: Caller,
        input: StandingApprovalInput,
    },
    /// The sweep found requests that asked no person and ended before this instant.
    DeleteExpired { before: DateTime<Utc> },
}

/// Everything that can happen to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestInput {
    /// The executor sends the state that it wants. A `rev` that is not higher changes nothing.
    SetDesired { rev: u64, state: HoldState },
    /// The scheduler reports that the timer was due. Another `rev` means that the timer was moved.
    TimerFired { rev: u64, due: DateTime<Utc> },
    /// The executor acknowledged a close. A reply to an older close changes nothing.
    CloseAcked { rev: u64, reply: CloseReply },
    /// The executor acknowledged the handoff events up to this version.
    HandoffEventsAcked { rev: u64 },
    /// A program or a user opens a standalone hold (M-6).
    Open(Caller, Box<OpenHold>),
    /// A caller asks again what ended without an answer. The input is for the new request
    /// ([`HoldId::asked_again`]).
    AskAgain(Caller, AskAgain),
    /// The opener or an operator withdraws a standalone hold.
    Withdraw(Caller, WithdrawHold),
    /// A person decides.
    Decide(Caller, DecideRequest),
    /// A person decides several requests alike, all or none. This is one of them.
    DecideRequests(Caller, DecideRequest),
    /// A person acts on the request without deciding it.
    Act(Caller, ActOnRequest),
    /// The sweep found a request of a disabled user, or of a role without an active member.
    RecipientLost { recipient: Recipient },
    /// The scheduler acknowledged the timer.
    TimerAcked { rev: u64 },
}

/// Everything that can happen to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput {
    /// An administrator creates, changes or enables the user.
    Put {
        email: Option<String>,
        roles: BTreeSet<RoleName>,
    },
    /// An administrator disables the user, who then neither decides nor receives requests.
    Disable,
    /// The sweep has reassigned all requests of the disabled user and of these former roles.
    RequestsReassigned { roles: BTreeSet<RoleName> },
}

/// Everything that can happen to a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyInput {
    /// An administrator creates or changes the policy.
    Put(PolicyRules),
    /// An administrator deletes the policy, so that requests cannot name it.
    Delete,
}

/// Everything that can happen to a standing approval. Its uses are decisions on requests.
#[derive(Debug, Clone, PartialEq)]
pub enum StandingApprovalInput {
    /// A person creates it.
    Create(Box<CreateStandingApproval>),
    /// Its creator or an operator ends it.
    Revoke,
}

impl Input {
    /// The aggregate that the input is for.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Request { workspace, id, .. } => Key::Request(workspace.clone(), *id),
            Self::User {
                workspace, name, ..
            } => Key::User(workspace.clone(), name.clone()),
            Self::Policy {
                workspace, name, ..
            } => Key::Policy(workspace.clone(), name.clone()),
            Self::StandingApproval { workspace, id, .. } => {
                Key::StandingApproval(workspace.clone(), *id)
            }
            Self::DeleteExpired { .. } => Key::Expired,
        }
    }
}

/// The sender of a command, and the proof of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name that the sender states.
    pub actor: Actor,
    pub proof: Proof,
}

/// The value of a command's assertion at the time when the command came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// There is none: the command has the rights of its subject.
    Absent,
    /// The gateway signed these claims.
    Good(Claims),
    /// The assertion is invalid: the command is refused and never treated as unsigned.
    Bad(AuthError),
}

impl Caller {
    pub(crate) fn name(&self) -> String {
        match &self.proof {
            Proof::Good(claims) => claims.user.to_string(),
            Proof::Absent | Proof::Bad(_) => self.actor.to_string(),
        }
    }

    /// Whether it is a service of Holdpoint that acts without a user.
    pub(crate) fn is_service(&self) -> bool {
        self.proof == Proof::Absent && self.actor.0.starts_with("service:")
    }
}
