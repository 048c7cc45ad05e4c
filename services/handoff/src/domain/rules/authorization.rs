//! Who may do what. Every command of a caller checks its right here.

use holdpoint_auth::{Claims, Right, Role, authorize, may};
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_holds::Recipient;
use holdpoint_ids::{RoleName, UserName};

use crate::domain::decision::Undecided;
use crate::domain::input::{Caller, Proof};
use crate::domain::lookup::{DecisionContext, Facts};
use crate::domain::model::request::Request;
use crate::domain::model::user::User;
use crate::domain::refusal::Refusal;

/// Checks a right by the signed claims and by the current rows. Returns the user, or `None` for an unsigned
/// command.
pub(crate) fn require_right(
    caller: &Caller,
    right: Right,
    facts: Facts<'_>,
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
    let user = facts
        .active_user(&claims.user)?
        .ok_or_else(|| Refusal::NoActiveUser(claims.user.clone()))?;
    authorize(Some(&row_claims(claims, &user)), right).map_err(not_allowed)?;
    Ok(Some(user))
}

/// Whether both the claims and the row grant a right: a token may have fewer roles than its user, and the
/// user may have lost a role since.
fn has_right(claims: &Claims, user: &User, right: Right) -> bool {
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

/// A user with the right to decide, and a request that need not be addressed to the user.
pub(crate) struct PotentialDecider<'a> {
    pub(crate) request: &'a Request,
    pub(crate) spec: &'a HoldSpec,
    user: User,
    is_operator: bool,
}

/// A user who may decide a request, or act on it.
pub(crate) struct AuthorizedDecider<'a> {
    pub(crate) request: &'a Request,
    pub(crate) spec: &'a HoldSpec,
    pub(crate) name: UserName,
    pub(crate) is_operator: bool,
}

/// Requires a signed command of a user with the right to decide.
pub(crate) fn require_potential_decider<'a>(
    request: Option<&'a Request>,
    caller: &Caller,
    context: &DecisionContext<'_>,
) -> Result<PotentialDecider<'a>, Undecided> {
    let user = require_right(caller, Right::Decide, context.facts)?;
    let found = request.and_then(|request| Some((request, request.spec.as_ref()?)));
    let Some((request, spec)) = found else {
        return Err(Refusal::NoRequest(context.id).into());
    };
    // `require_right` refuses an unsigned command, which never has the right to decide.
    let (Proof::Good(claims), Some(user)) = (&caller.proof, user) else {
        return Err(Refusal::NoRequest(context.id).into());
    };
    Ok(PotentialDecider {
        request,
        spec,
        is_operator: has_right(claims, &user, Right::Operate),
        user,
    })
}

impl<'a> PotentialDecider<'a> {
    pub(crate) const fn name(&self) -> &UserName {
        &self.user.name
    }

    /// The recipients of the request that name the user; see [`recipients_naming`].
    pub(crate) fn addressed_by(&self) -> Vec<String> {
        recipients_naming(self.request, &self.user)
    }

    /// Requires a recipient of the request or an operator.
    pub(crate) fn authorize(self) -> Result<AuthorizedDecider<'a>, Refusal> {
        if !is_decider(self.request, &self.user, self.is_operator) {
            return Err(Refusal::NotAddressed(self.user.name));
        }
        Ok(AuthorizedDecider {
            request: self.request,
            spec: self.spec,
            name: self.user.name,
            is_operator: self.is_operator,
        })
    }
}

/// Requires a signed command of a recipient of the request or of an operator.
pub(crate) fn require_decider<'a>(
    request: Option<&'a Request>,
    caller: &Caller,
    context: &DecisionContext<'_>,
) -> Result<AuthorizedDecider<'a>, Undecided> {
    let user = require_potential_decider(request, caller, context)?;
    Ok(user.authorize()?)
}

/// Whether a user with the right to decide may decide this request.
fn is_decider(request: &Request, user: &User, is_operator: bool) -> bool {
    is_operator || is_addressed(request, user)
}

/// Whether a request is addressed to a user by name or by role.
fn is_addressed(request: &Request, user: &User) -> bool {
    let deciders = request.deciders();
    deciders.iter().any(|to| names_user(to, user))
}

fn names_user(to: &str, user: &User) -> bool {
    match to.parse() {
        Ok(Recipient::User(name)) => name == user.name,
        Ok(Recipient::Role(role)) => user.roles.contains(&role),
        Err(_) => false,
    }
}

/// The recipients of a request that name a user. Empty: the user decides with the right to decide any request. Accepting
/// the request makes a user its assignee by name, and this must not outlast the role or the right.
pub(crate) fn recipients_naming(request: &Request, user: &User) -> Vec<String> {
    let asked = request.addressed_to().iter();
    let asked = asked.chain(&request.progress.additional_deciders);
    let named = asked.filter(|to| names_user(to, user));
    named.cloned().collect()
}

/// The recipients that name a user who may decide a request at this moment, without a command of that user. None: the
/// user may not decide it.
pub(crate) fn right_to_decide(
    request: &Request,
    name: &UserName,
    context: &DecisionContext<'_>,
) -> Result<Option<Vec<String>>, Undecided> {
    let Some(user) = context.facts.active_user(name)? else {
        return Ok(None);
    };
    let roles = user.roles.iter().map(RoleName::as_str);
    let roles: Vec<_> = roles.filter_map(Role::named).collect();
    let has = |right| roles.iter().any(|role| may(*role, right));
    let is_decider = is_decider(request, &user, has(Right::Operate));
    let may_decide = has(Right::Decide) && is_decider && !request.excluded().contains(name);
    Ok(may_decide.then(|| recipients_naming(request, &user)))
}

/// Whether a caller has the rights of an operator.
pub(crate) fn is_operator(caller: &Caller, user: &User) -> bool {
    match &caller.proof {
        Proof::Good(claims) => has_right(claims, user, Right::Operate),
        Proof::Absent | Proof::Bad(_) => false,
    }
}

/// Refuses the requester and the openers if the request's policy excludes them.
pub(crate) fn require_not_excluded(request: &Request, name: &UserName) -> Result<(), Refusal> {
    if request.excluded().contains(name) {
        return Err(Refusal::IsRequester(name.clone()));
    }
    Ok(())
}

/// Refuses other people than the owner of a run and operators.
pub(crate) fn require_run_owner(decider: &AuthorizedDecider<'_>) -> Result<(), Refusal> {
    let progress = &decider.request.progress;
    let is_assignee = progress
        .assignee
        .as_ref()
        .is_none_or(|name| *name == decider.name);
    match &progress.taken_over {
        Some(stamp) if !is_assignee && !decider.is_operator => Err(Refusal::HasAssignee {
            id: decider.request.id,
            what: "taken_over",
            stamp: stamp.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Refuses a caller who has seen other content than the current one.
pub(crate) fn require_version(request: &Request, seen: Option<u64>) -> Result<(), Refusal> {
    match seen.filter(|seen| !request.is_unchanged_since(*seen)) {
        None => Ok(()),
        Some(seen) => Err(Refusal::VersionConflict {
            seen,
            version: request.version,
        }),
    }
}

/// Whether a caller may withdraw a standalone hold or ask it again: its opener or an operator.
pub(crate) fn may_manage(request: &Request, caller: &Caller, user: Option<&User>) -> bool {
    let is_operator = match (&caller.proof, user) {
        (Proof::Good(claims), Some(user)) => has_right(claims, user, Right::Operate),
        // An unsigned command has the rights of its subject, which include this one.
        (Proof::Absent, _) => true,
        (Proof::Good(_), None) | (Proof::Bad(_), _) => false,
    };
    is_operator || request.opened_by.as_ref() == Some(&caller.name())
}
