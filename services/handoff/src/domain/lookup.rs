//! How a decision reads the data that it needs.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, PolicyName, RoleName, UserName, Workspace};

use super::decision::{Fact, Lookup, LookupFn, Need, Undecided};
use super::model::policy::Policy;
use super::model::request::Request;
use super::model::standing_approval::{CallKind, CountedStandingApproval};
use super::model::user::User;

#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) lookup: LookupFn<'a>,
}

/// Identity of a request, the time of the decision, and the data of the workspace.
#[derive(Clone, Copy)]
pub(crate) struct DecisionContext<'a> {
    pub(crate) facts: Facts<'a>,
    pub(crate) id: HoldId,
    pub(crate) now: DateTime<Utc>,
}

impl Facts<'_> {
    pub(crate) fn find<T>(
        &self,
        need: Need,
        select: impl FnOnce(Fact) -> Option<T>,
    ) -> Result<Option<T>, Undecided> {
        match (self.lookup)(&need) {
            Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
            Lookup::Missing => Ok(None),
            Lookup::Found(fact) => Ok(select(fact)),
        }
    }

    /// A user who exists and is not disabled.
    pub(crate) fn active_user(&self, name: &UserName) -> Result<Option<User>, Undecided> {
        let need = Need::User(self.workspace.clone(), name.clone());
        let user = self.find(need, Fact::try_as_user)?;
        Ok(user.filter(|user| user.active))
    }

    pub(crate) fn owners(&self) -> Result<BTreeSet<UserName>, Undecided> {
        let need = Need::Owners(self.workspace.clone());
        Ok(self.find(need, Fact::try_as_owners)?.unwrap_or_default())
    }

    pub(crate) fn has_users(&self) -> Result<bool, Undecided> {
        let need = Need::Members(self.workspace.clone());
        Ok(self.find(need, Fact::try_as_members)?.unwrap_or_default())
    }

    pub(crate) fn members(&self, role: &RoleName) -> Result<BTreeSet<UserName>, Undecided> {
        let need = Need::Role(self.workspace.clone(), role.clone());
        Ok(self.find(need, Fact::try_as_role)?.unwrap_or_default())
    }

    /// The number of open requests of each user who has any.
    pub(crate) fn loads(&self) -> Result<BTreeMap<UserName, u64>, Undecided> {
        let need = Need::Loads(self.workspace.clone());
        Ok(self.find(need, Fact::try_as_loads)?.unwrap_or_default())
    }

    /// A policy that is not deleted.
    pub(crate) fn policy(&self, name: &PolicyName) -> Result<Option<Box<Policy>>, Undecided> {
        let need = Need::Policy(self.workspace.clone(), name.clone());
        let policy = self.find(need, Fact::try_as_policy)?;
        Ok(policy.filter(|policy| !policy.deleted))
    }

    /// The names of the workspace's policies, without built-in ones.
    pub(crate) fn policy_names(&self) -> Result<BTreeSet<PolicyName>, Undecided> {
        let need = Need::Policies(self.workspace.clone());
        Ok(self.find(need, Fact::try_as_policies)?.unwrap_or_default())
    }

    /// The standing approvals of such calls that are neither revoked nor expired.
    pub(crate) fn standing_approvals(
        &self,
        kind: &CallKind,
        now: DateTime<Utc>,
    ) -> Result<Vec<CountedStandingApproval>, Undecided> {
        let need = Need::StandingApprovals(self.workspace.clone(), kind.clone(), now);
        let found = self.find(need, Fact::try_as_standing_approvals)?;
        Ok(found.unwrap_or_default())
    }

    pub(crate) fn request(&self, id: HoldId) -> Result<Option<Box<Request>>, Undecided> {
        let need = Need::Request(self.workspace.clone(), id);
        self.find(need, Fact::try_as_request)
    }
}

/// Asks for everything that several lookups lack in one round, because the kernel allows only four
/// rounds. A refusal is dropped here: the caller repeats its lookup and gets the refusal then.
pub(crate) fn load_together(
    lookups: impl IntoIterator<Item = Result<(), Undecided>>,
) -> Result<(), Undecided> {
    let lacks = lookups.into_iter().filter_map(|lookup| match lookup {
        Err(Undecided::NeedsMore(needs)) => Some(needs),
        Ok(()) | Err(Undecided::Refused(_)) => None,
    });
    let needs: Vec<_> = lacks.flatten().collect();
    if needs.is_empty() {
        Ok(())
    } else {
        Err(Undecided::NeedsMore(needs))
    }
}
