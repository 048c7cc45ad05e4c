//! Approvals of calls in advance, and their uses in a rehearsal. The handoff service has the same rules (S2-R4).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use holdpoint_contracts::handoff::{StandingApprovalStatus, StandingApprovalView};
use holdpoint_contracts::hold::{ApprovalItem, HoldSpec};
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::standing_approval::CoveredCalls;
use holdpoint_ids::{StandingApprovalId, UserName};

use super::audience::ActiveUsers;

/// The standing approvals of a workspace that are active when a rehearsal starts.
#[derive(Debug, Default)]
pub struct StandingApprovals(Vec<StandingApproval>);

#[derive(Debug)]
struct StandingApproval {
    view: StandingApprovalView,
    created_by: UserName,
}

/// The uses of the run that is rehearsed.
pub(super) type Uses = BTreeMap<StandingApprovalId, u32>;

/// Why a request is decided without asking people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApprovedInAdvance {
    pub(super) approval: StandingApprovalId,
    pub(super) by: UserName,
    /// Of this use, from 1.
    pub(super) number: u32,
    pub(super) max_uses: u32,
}

impl StandingApprovals {
    /// Early approvals are for one real run, so they cover no rehearsed one.
    #[must_use]
    pub fn new(views: Vec<StandingApprovalView>) -> Self {
        let usable = views
            .into_iter()
            .filter(|view| view.call.is_none() && view.status == StandingApprovalStatus::Active);
        let named = usable.filter_map(|view| {
            let created_by = view.created_by.parse().ok()?;
            Some(StandingApproval { view, created_by })
        });
        let mut all: Vec<_> = named.collect();
        // The handoff service uses first what expires first.
        all.sort_by_key(|one| (one.view.expires_at, one.view.id));
        Self(all)
    }

    /// Counts the uses of a run, so that the next run has fewer.
    pub(super) fn use_up(&mut self, uses: &Uses) {
        for one in &mut self.0 {
            let more = uses.get(&one.view.id).copied().unwrap_or_default();
            one.view.used = one.view.used.saturating_add(more);
        }
    }

    /// Uses standing approvals as votes for a new request. The last vote decides it; `None`: people are asked.
    pub(super) fn cast(
        &self,
        spec: &HoldSpec,
        users: &ActiveUsers,
        uses: &mut Uses,
        now: DateTime<Utc>,
    ) -> Option<ApprovedInAdvance> {
        // People look at a call that is asked again.
        let is_asked = spec.kind == HoldKind::Approval && spec.asks_again.is_none();
        let ([item], Some(agent), true) = (spec.items.as_slice(), &spec.agent, is_asked) else {
            return None;
        };
        let need = usize::try_from(spec.policy.need.max(1)).unwrap_or(usize::MAX);
        let mut votes: Vec<ApprovedInAdvance> = Vec::new();
        for one in &self.0 {
            if votes.len() >= need {
                break;
            }
            let has_voted = votes.iter().any(|vote| vote.by == one.created_by);
            let used = one.used_with(uses);
            let covers = || used < one.view.max_uses && one.covers(item, now);
            if has_voted
                || one.view.agent != *agent
                || !users.may_decide(&one.created_by, &spec.to)
                || !covers()
            {
                continue;
            }
            *uses.entry(one.view.id).or_default() += 1;
            votes.push(ApprovedInAdvance {
                approval: one.view.id,
                by: one.created_by.clone(),
                number: used + 1,
                max_uses: one.view.max_uses,
            });
        }
        let is_decided = votes.len() >= need;
        votes.pop().filter(|_| is_decided)
    }
}

impl StandingApproval {
    fn used_with(&self, uses: &Uses) -> u32 {
        let more = uses.get(&self.view.id).copied().unwrap_or_default();
        self.view.used.saturating_add(more)
    }

    fn covers(&self, item: &ApprovalItem, now: DateTime<Utc>) -> bool {
        let calls = CoveredCalls {
            tool: &self.view.tool,
            version: self.view.version.as_deref(),
            args_schema: &self.view.args_schema,
        };
        // Limits say nothing of arguments that are hidden.
        let is_visible = item.redaction.is_empty();
        now < self.view.expires_at && is_visible && calls.cover(item)
    }
}

impl ApprovedInAdvance {
    /// The comment of the decision.
    pub(super) fn note(&self) -> String {
        let Self {
            approval,
            number,
            max_uses,
            ..
        } = self;
        format!("standing approval {approval}, use {number} of {max_uses}")
    }

    pub(super) fn outgoing(&self) -> Outgoing {
        Outgoing::ApprovedInAdvance {
            approval: self.approval,
            by: self.by.clone(),
            number: self.number,
            max_uses: self.max_uses,
        }
    }
}
