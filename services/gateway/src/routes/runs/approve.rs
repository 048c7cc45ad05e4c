//! `POST /runs/{run}/approve`: decides several gated steps of a run (S2-R4).

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{Decision, Effect, Votes};
use holdpoint_ids::{HoldId, RunId, StandingApprovalId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::auth::may::Decide;
use crate::body::{invalid_field, rewrite_pointers};
use crate::call::{Call, JsonBody};
use crate::problem::{JsonResult, ProblemBody};
use crate::redaction::runs::parent_of;
use crate::routes::requests::decisions::check_length;
use crate::use_cases::decide_steps::{DecidedStep, StepDecision, decide_steps};

/// Most steps of one call: the limit of the steps of an agent.
const STEPS_MAX: usize = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproveStepsBody {
    #[serde(default, alias = "approvedSteps")]
    approved_steps: Vec<String>,
    #[serde(default, alias = "rejectedSteps")]
    rejected_steps: Vec<String>,
    /// By approved step: arguments instead of the requested ones.
    #[serde(default, alias = "editedArgs")]
    edited_args: BTreeMap<String, Value>,
    /// The comment of approvals and the reason of rejections.
    #[serde(default)]
    comment: Option<String>,
    /// By approved step: the digest of the arguments that the person has seen. For a step with `for_each`, by call.
    #[serde(default)]
    digests: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
pub(super) struct StepResults {
    items: Vec<StepResult>,
}

#[derive(Debug, Serialize)]
struct StepResult {
    step: String,
    #[serde(flatten)]
    outcome: StepOutcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StepOutcome {
    Decided {
        recorded: bool,
        effect: Effect,
        #[serde(skip_serializing_if = "Option::is_none")]
        request: Option<HoldId>,
        /// The early approval of a step that has not been reached.
        #[serde(skip_serializing_if = "Option::is_none")]
        standing_approval: Option<StandingApprovalId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        votes: Option<Votes>,
    },
    Refused {
        problem: ProblemBody,
    },
}

pub(super) async fn approve(
    call: Call<Decide, RunId, JsonBody<ApproveStepsBody>>,
) -> JsonResult<StepResults> {
    let (caller, key, run) = (call.caller, call.key, call.id);
    let decisions = call.body.decisions()?;
    let results = decide_steps(&caller.app, &caller, key, run, decisions).await?;
    let items = results.into_iter().map(|(step, result)| StepResult {
        outcome: StepOutcome::of(&step, result),
        step,
    });
    Ok(Json(StepResults {
        items: items.collect(),
    }))
}

impl ApproveStepsBody {
    /// The decision for each step: first the approvals, then the rejections.
    fn decisions(mut self) -> Result<Vec<StepDecision>, Problem> {
        self.check()?;
        let comment = self.comment;
        let named: HashSet<_> = self
            .approved_steps
            .iter()
            .chain(&self.rejected_steps)
            .collect();
        let (mut digests, seen): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.digests)
                .into_iter()
                .partition(|(id, _)| named.contains(id));
        let seen_of = |step: &str| {
            let calls = seen.iter().filter(|(id, _)| parent_of(id) == Some(step));
            calls
                .map(|(id, digest)| (id.clone(), digest.clone()))
                .collect()
        };
        let approved = self.approved_steps.iter().map(|step| StepDecision {
            decision: Decision::Approve {
                comment: comment.clone(),
                edited_args: self.edited_args.remove(step),
                digest: digests.remove(step),
            },
            seen: seen_of(step),
            step: step.clone(),
        });
        let mut decisions: Vec<_> = approved.collect();
        let reason = comment.unwrap_or_default();
        decisions.extend(self.rejected_steps.iter().map(|step| StepDecision {
            decision: Decision::Reject {
                reason: reason.clone(),
            },
            seen: seen_of(step),
            step: step.clone(),
        }));
        Ok(decisions)
    }

    fn check(&self) -> Result<(), Problem> {
        let named = self.approved_steps.len() + self.rejected_steps.len();
        if named == 0 || named > STEPS_MAX {
            let message = format!(
                "must name 1 to {STEPS_MAX} steps together with `rejected_steps`; it names {named}"
            );
            return Err(invalid_field("/approved_steps", &message));
        }
        self.check_unique()?;
        let approved: HashSet<_> = self.approved_steps.iter().map(String::as_str).collect();
        let rejected: HashSet<_> = self.rejected_steps.iter().map(String::as_str).collect();
        let is_approved = |step: &str| approved.contains(step);
        if let Some(step) = self.edited_args.keys().find(|step| !is_approved(step)) {
            let pointer = format!("/edited_args/{step}");
            return Err(invalid_field(&pointer, "must be one of `approved_steps`"));
        }
        let is_call = |step: &str| {
            let parent = parent_of(step).filter(|_| !rejected.contains(step));
            parent.is_some_and(|parent| is_approved(parent) || rejected.contains(parent))
        };
        let is_digest_of = |step: &str| is_approved(step) || is_call(step);
        if let Some(step) = self.digests.keys().find(|step| !is_digest_of(step)) {
            let pointer = format!("/digests/{step}");
            let message = "must be one of `approved_steps`, or a call of a named step";
            return Err(invalid_field(&pointer, message));
        }
        if self.digests.len() > STEPS_MAX {
            let message = format!("must name at most {STEPS_MAX} calls");
            return Err(invalid_field("/digests", &message));
        }
        let comment = self.comment.as_deref().unwrap_or_default();
        if !self.rejected_steps.is_empty() && comment.trim().is_empty() {
            let message =
                "must not be empty to reject steps; it is recorded and shown as the reason";
            return Err(invalid_field("/comment", message));
        }
        check_length("/comment", comment)
    }

    fn check_unique(&self) -> Result<(), Problem> {
        let mut seen = HashSet::new();
        let approved = self.approved_steps.iter().enumerate();
        let rejected = self.rejected_steps.iter().enumerate();
        let named = approved
            .map(|(n, step)| ("approved_steps", n, step))
            .chain(rejected.map(|(n, step)| ("rejected_steps", n, step)));
        for (member, n, step) in named {
            if !seen.insert(step) {
                let pointer = format!("/{member}/{n}");
                return Err(invalid_field(&pointer, "must not name a step again"));
            }
        }
        Ok(())
    }
}

impl StepOutcome {
    fn of(step: &str, result: Result<DecidedStep, Problem>) -> Self {
        match result {
            Ok(decided) => Self::Decided {
                recorded: decided.recorded,
                effect: decided.effect,
                request: decided.request,
                standing_approval: decided.early,
                votes: decided.votes,
            },
            Err(problem) => Self::Refused {
                problem: rewrite_pointers(problem, |pointer| body_pointer(step, pointer)).into(),
            },
        }
    }
}

/// Where the body has a member of the command for one step.
fn body_pointer(step: &str, pointer: &str) -> String {
    if let Some(rest) = pointer.strip_prefix("/decision/approve/edited_args") {
        return format!("/edited_args/{step}{rest}");
    }
    match pointer {
        "/decision/approve/comment" | "/decision/reject/reason" => "/comment".to_owned(),
        other => other.to_owned(),
    }
}
