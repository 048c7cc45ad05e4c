//! Which standing approvals vote for a new request (S2-R4).
//!
//! A use is a vote of the person who created the standing approval. The rules of the request therefore apply to it: the
//! person may decide it, is not excluded, and votes once. Every doubt means that people are asked as usual.

use holdpoint_contracts::hold::{ApprovalItem, HoldOutcome, HoldSpec};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use serde_json::json;

use super::authorization::right_to_decide;
use crate::domain::decision::{Fact, Need, Undecided};
use crate::domain::effect::Effect;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::progress::Vote;
use crate::domain::model::request::{Owner, Phase};
use crate::domain::model::standing_approval::{CallKind, CountedStandingApproval};
use crate::domain::transition::RequestTransition;

/// The gated call of a new request, and the standing approvals of such calls.
pub(crate) struct StandingVotes<'s> {
    /// The kind of the call, and the call itself.
    kinds: [CallKind; 2],
    item: &'s ApprovalItem,
    /// Those that do not cover the call are among them.
    approvals: Vec<CountedStandingApproval>,
}

/// Reads the standing approvals for a request of a run with one gated call. Other requests have none.
pub(crate) fn read_standing_approvals<'s>(
    transition: &RequestTransition,
    spec: &'s HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<Option<StandingVotes<'s>>, Undecided> {
    let is_runs = transition.request.owner == Some(Owner::Executor);
    // People look at a call that is asked again: its approval became void, or a person has sent it back.
    let is_first = spec.asks_again.is_none();
    let is_approval = is_runs && is_first && spec.kind == HoldKind::Approval;
    let ([item], Some(agent), true) = (spec.items.as_slice(), &spec.agent, is_approval) else {
        return Ok(None);
    };
    let kind = CallKind {
        agent: agent.clone(),
        tool: item.tool.clone(),
        planned: None,
    };
    let planned = kind.of_planned(transition.request.id.run, &item.id);
    let kinds = [kind, planned];
    let find = |kind| context.facts.standing_approvals(kind, context.now);
    load_together(kinds.iter().map(|kind| find(kind).map(drop)))?;
    let mut approvals = Vec::new();
    for kind in &kinds {
        let of_kind = find(kind)?;
        // An early approval is for the first request about its call. A surplus one never decides a later request.
        let is_spent = kind.planned.is_some() && of_kind.iter().any(|one| one.used > 0);
        approvals.extend(of_kind.into_iter().filter(|_| !is_spent));
    }
    // Approvals of this call come first, and then the one that expires first.
    approvals.sort_by_key(|one| {
        let approval = &one.approval;
        (
            approval.terms.call.is_none(),
            approval.expires_at(),
            approval.id,
        )
    });
    let creators = approvals.iter().map(|one| &one.approval.created_by);
    load_together(creators.map(|name| context.facts.active_user(name).map(drop)))?;
    Ok(Some(StandingVotes {
        kinds,
        item,
        approvals,
    }))
}

impl StandingVotes<'_> {
    /// Adds votes until the request is decided. Returns whether it is.
    pub(crate) fn cast(
        mut self,
        transition: &mut RequestTransition,
        need: u32,
        context: &DecisionContext<'_>,
    ) -> Result<bool, Undecided> {
        let run = transition.request.id.run;
        let need = usize::try_from(need.max(1)).unwrap_or(usize::MAX);
        let mut is_used = false;
        for one in &mut self.approvals {
            let votes = &transition.request.progress.votes;
            if votes.len() >= need {
                break;
            }
            let creator = &one.approval.created_by;
            let has_voted = votes.iter().any(|vote| vote.by == creator.as_str());
            if has_voted {
                continue;
            }
            let right = right_to_decide(&transition.request, creator, context)?;
            // The schema comes last, because it costs most.
            let Some(addressed_by) = right.filter(|_| one.covers(run, self.item, context.now))
            else {
                continue;
            };
            add_vote(transition, one, addressed_by);
            is_used = true;
        }
        if is_used {
            // Later requests of the same batch must count these uses.
            for kind in self.kinds {
                let is_of_kind = |one: &&CountedStandingApproval| one.approval.call_kind() == kind;
                let of_kind = self.approvals.iter().filter(is_of_kind).cloned().collect();
                let workspace = context.facts.workspace.clone();
                let need = Need::StandingApprovals(workspace, kind, context.now);
                transition
                    .facts
                    .push((need, Fact::StandingApprovals(of_kind)));
            }
        }
        let is_decided = is_used && transition.request.progress.votes.len() >= need;
        if is_decided {
            approve(transition);
        }
        Ok(is_decided)
    }
}

fn add_vote(
    transition: &mut RequestTransition,
    one: &mut CountedStandingApproval,
    addressed_by: Vec<String>,
) {
    one.used += 1;
    let approval = &one.approval;
    let by = approval.created_by.as_str();
    let note = match approval.terms.call {
        Some(_) => format!("early approval {}", approval.id),
        None => format!(
            "standing approval {}, use {} of {}",
            approval.id, one.used, approval.terms.max_uses
        ),
    };
    transition.add_history("approved", by, Some(note));
    let vote = Vote {
        by: by.to_owned(),
        at: transition.at,
        addressed_by: Some(addressed_by),
    };
    transition.request.progress.votes.push(vote);
    transition.effects.push(Effect::StandingApprovalUsed {
        workspace: approval.workspace.clone(),
        id: approval.id,
        number: one.used,
        request: transition.request.id,
    });
}

/// Decides the request in the name of the last voter. Its recipients were not asked, so none is notified of the end.
fn approve(transition: &mut RequestTransition) {
    let Some(last) = transition.request.progress.history.last().cloned() else {
        return;
    };
    transition.notify(RequestEventKind::Decided, Some(&last.by), Vec::new());
    transition.request.phase = Phase::Decided {
        outcome: HoldOutcome::Approved,
        data: json!(last.note),
        by: last.by,
        at: transition.at,
    };
    transition.close();
}
