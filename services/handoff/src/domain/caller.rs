//! The sender of a command.

use holdpoint_auth::{AuthError, Claims};
use holdpoint_contracts::message::Actor;

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
    /// The name for histories.
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
