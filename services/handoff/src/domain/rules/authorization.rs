//! Who asks, and whether they may.

use holdpoint_auth::{AuthError, Claims, Right, authorize};
use holdpoint_contracts::message::Actor;
use holdpoint_ids::{UserName, Workspace};

use super::refusal::Refusal;
use super::user::User;
use super::{Fact, Lookup, LookupFn, Need, Undecided};

/// Who sent a command, and how well that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// By their own word.
    pub actor: Actor,
    pub proof: Proof,
}

/// What a command's assertion is worth, as it was when the command came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// There is none: the command has the rights that its subject has.
    Absent,
    /// The gateway vouches for this.
    Good(Claims),
    /// It is not to be believed: the command is refused, never taken as unsigned.
    Bad(AuthError),
}

impl Caller {
    /// The name that is written down.
    pub(crate) fn name(&self) -> String {
        match &self.proof {
            Proof::Good(claims) => claims.user.to_string(),
            Proof::Absent | Proof::Bad(_) => self.actor.to_string(),
        }
    }

    /// Whether it is a service of Holdpoint that acts by itself.
    pub(crate) fn is_service(&self) -> bool {
        self.proof == Proof::Absent && self.actor.0.starts_with("service:")
    }
}

/// Lets through who may do something: by what was signed, and by what our own rows say now. Returns
/// the user; none for an unsigned command.
pub(crate) fn allow(
    caller: &Caller,
    workspace: &Workspace,
    right: Right,
    lookup: LookupFn<'_>,
) -> Result<Option<User>, Undecided> {
    let claims = match &caller.proof {
        Proof::Bad(error) => return Err(Refusal::Unproven(*error).into()),
        Proof::Absent => None,
        Proof::Good(claims) => Some(claims),
    };
    authorize(claims, right).map_err(not_allowed)?;
    let Some(claims) = claims else {
        return Ok(None);
    };
    let user = active_user(workspace, &claims.user, lookup)?
        .ok_or_else(|| Refusal::NoActiveUser(claims.user.clone()))?;
    authorize(Some(&row_claims(claims, &user)), right).map_err(not_allowed)?;
    Ok(Some(user))
}

/// Whether both what was signed (a token may have fewer roles than its user) and our rows (a role may
/// have been taken since) grant a right.
pub(crate) fn has(claims: &Claims, user: &User, right: Right) -> bool {
    authorize(Some(claims), right).is_ok()
        && authorize(Some(&row_claims(claims, user)), right).is_ok()
}

fn row_claims(claims: &Claims, user: &User) -> Claims {
    Claims {
        roles: user.roles.iter().cloned().collect(),
        ..claims.clone()
    }
}

fn not_allowed(problem: holdpoint_contracts::Problem) -> Undecided {
    Refusal::NotAllowed(Box::new(problem)).into()
}

/// A user of the workspace who is there and not disabled.
pub(crate) fn active_user(
    workspace: &Workspace,
    name: &UserName,
    lookup: LookupFn<'_>,
) -> Result<Option<User>, Undecided> {
    let need = Need::User(workspace.clone(), name.clone());
    match lookup(&need) {
        Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
        Lookup::Found(Fact::User(user)) => Ok(Some(user).filter(|user| user.active)),
        Lookup::Found(
            Fact::Owners(_)
            | Fact::Members(_)
            | Fact::Role(_)
            | Fact::Loads(_)
            | Fact::Policy(_)
            | Fact::Policies(_)
            | Fact::Request(_),
        )
        | Lookup::Missing => Ok(None),
    }
}
