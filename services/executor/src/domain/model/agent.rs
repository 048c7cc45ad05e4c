//! An agent: a name whose newest version applies to new runs.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use holdpoint_contracts::agent::{AgentView, PlannedApproval, PlannedStepView};
use holdpoint_ids::{AgentName, PolicyName, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::model::is_default;
use crate::domain::model::plan::person_steps::ApprovalRule;
use crate::domain::model::plan::{Action, OnError, Plan, PlannedStep};
use crate::domain::model::scope::{EndsWatch, Scope};

/// An agent's control state; its versions are rows of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    pub workspace: Workspace,
    pub name: AgentName,
    /// Rises with every decision.
    pub version: u64,
    /// The newest version of its plan, from 1.
    pub newest: u32,
    /// Digest of that plan. An unchanged text makes no new version.
    pub digest: String,
    pub description: Option<String>,
    /// When the newest version came.
    pub updated_at: DateTime<Utc>,
    /// The commands for all its runs.
    #[serde(default)]
    pub scope: Scope,
    /// Whether the notification service wants the ends of its runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch: EndsWatch,
}

impl Agent {
    /// Whether all its versions are deleted: as if it were not there.
    #[must_use]
    pub const fn is_deleted(&self) -> bool {
        self.newest <= self.scope.dead_up_to
    }

    /// `active`, `paused` or `deleted`.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        if self.is_deleted() {
            "deleted"
        } else if self.scope.paused.is_some() {
            "paused"
        } else {
            "active"
        }
    }

    #[must_use]
    pub fn view(&self) -> AgentView {
        AgentView {
            agent: self.name.clone(),
            version: self.newest,
            status: self.status().to_owned(),
            description: self.description.clone(),
            steps: Vec::new(),
            warnings: Vec::new(),
            inputs: None,
            limits: None,
            on_pause: None,
            versions: Vec::new(),
            updated_at: self.updated_at,
        }
    }
}

/// The steps of a plan as the API shows them.
#[must_use]
pub fn planned_steps(plan: &Plan) -> Vec<PlannedStepView> {
    let id_of = |index: &usize| plan.steps.get(*index).map(|step| step.id.clone());
    let words = plan.words.iter().map(Some).chain(std::iter::repeat(None));
    plan.steps
        .iter()
        .zip(words)
        .map(|(step, words)| {
            let (tool, duration_ms) = match &step.action {
                Action::Tool { tool, .. } => (Some(tool.clone()), None),
                Action::Wait { duration_ms } => (None, Some(*duration_ms)),
                Action::WaitUntil(_)
                | Action::WaitFor(_)
                | Action::Ask(_)
                | Action::Handoff(_)
                | Action::Run(_)
                | Action::Finish(_) => (None, None),
            };
            PlannedStepView {
                id: step.id.clone(),
                kind: step.action.kind().to_owned(),
                action: step.describe(),
                words: words.filter(|words| !words.is_empty()).cloned(),
                needs: step.needs.iter().filter_map(id_of).collect(),
                when: step.when.clone(),
                tool,
                args: step.action.template().map(Cow::into_owned),
                approval: step.approval.as_deref().map(planned_approval),
                policies: policies_of(step).to_vec(),
                claim_timeout_ms: step.claim_timeout_ms,
                timeout_ms: step.timeout_ms,
                on_error: (step.on_error != OnError::default())
                    .then(|| step.on_error.into_str().to_owned()),
                retry: serde_json::to_value(&step.retry)
                    .ok()
                    .filter(|retry| !retry.is_null()),
                duration_ms,
                for_each: step.for_each.as_ref().map(|it| it.items.clone()),
                parallel: step.for_each.as_ref().map(|it| it.parallel),
            }
        })
        .collect()
}

fn planned_approval(rule: &ApprovalRule) -> PlannedApproval {
    PlannedApproval {
        from: rule.from.clone(),
        need: rule.votes.need,
        not_requester: rule.votes.not_requester,
        decide_within_ms: (!rule.time_by_policy).then_some(rule.decide_within_ms),
        valid_for_ms: (!rule.valid_by_policy).then_some(rule.valid_ms),
    }
}

/// A plan's limits as the API shows them; none: it has no limits.
#[must_use]
pub fn planned_limits(plan: &Plan) -> Option<Value> {
    let limits = serde_json::to_value(&plan.limits).ok();
    limits.filter(|limits| limits.as_object().is_some_and(|it| !it.is_empty()))
}

fn policies_of(step: &PlannedStep) -> &[PolicyName] {
    match &step.action {
        Action::Ask(ask) => &ask.policies,
        Action::Handoff(handoff) => &handoff.policies,
        Action::Tool { .. } => step.approval.as_ref().map_or(&[], |rule| &rule.policies),
        Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Run(_)
        | Action::Finish(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gate 2, 5: the API shows what the author wrote about approvals, leases and limits.
    #[test]
    fn a_plan_shows_its_approvals_leases_and_limits() {
        let text = r#"
agent: refund
limits: { budget: { steps: 5, wall_time: 2 days }, concurrency: { runs: 3 } }
steps:
  - id: pay
    tool: orders.pay
    approval: { from: "@role.manager", need: 2, not_requester: true, decide_within: 2d, valid_for: 1h }
    claim_timeout: 1m
  - id: check
    tool: orders.find
    approval: { policy: managers }
  - wait: 1 day
"#;
        let plan = Plan::compile(text).unwrap();
        let steps = serde_json::to_value(planned_steps(&plan)).unwrap();
        assert_eq!(
            steps[0]["approval"],
            json!({
                "from": ["@role.manager"], "need": 2, "not_requester": true,
                "decide_within_ms": 172_800_000, "valid_for_ms": 3_600_000,
            })
        );
        assert_eq!(steps[0]["claim_timeout_ms"], 60_000);
        assert_eq!(
            steps[1]["approval"],
            json!({ "from": [], "need": 1, "not_requester": false }),
            "the times are those of the policy"
        );
        assert!(steps[2].get("approval").is_none() && steps[2].get("claim_timeout_ms").is_none());
        assert_eq!(
            planned_limits(&plan),
            Some(json!({
                "budget": { "steps": 5, "wall_time_ms": 172_800_000 },
                "concurrency": { "runs": 3 },
            }))
        );
        assert_eq!(plan.on_pause.into_str(), "hold");
        let bare = Plan::compile("agent: a\nsteps:\n  - wait: 1 day\n").unwrap();
        assert_eq!(planned_limits(&bare), None);
    }
}
