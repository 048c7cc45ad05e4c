//! Warnings of an agent about policies that do not exist. Only the handoff service has the policies.

use std::collections::BTreeMap;
use std::time::Duration;

use holdpoint_contracts::agent::PlannedStepView;
use holdpoint_contracts::handoff::{ListPolicies, PolicyView};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::Page;
use holdpoint_ids::{PolicyName, Workspace, nearest};

use crate::app::App;

/// Warnings about policies of one agent; further ones are left out.
const WARNINGS_MAX: usize = 50;

/// Warnings that name similar policies. The first ones suffice to see a misspelling.
const NEAREST_MAX: usize = 5;

/// Longest wait for the policies.
const REPLY_WITHIN: Duration = Duration::from_secs(2);

/// One warning for each unknown policy, at the first step that names it. The policies are read only if a step names
/// one. The workspace may get the policy later, so this is a warning and not an error.
pub(crate) async fn policy_warnings(
    app: &App,
    workspace: &Workspace,
    steps: &[PlannedStepView],
) -> Vec<FieldError> {
    let mut named: BTreeMap<&PolicyName, &PlannedStepView> = BTreeMap::new();
    for step in steps {
        for policy in &step.policies {
            named.entry(policy).or_insert(step);
        }
    }
    let Some(first) = named.values().next() else {
        return Vec::new();
    };
    let known = app
        .bus
        .query_within(workspace, &ListPolicies {}, REPLY_WITHIN);
    let known: Page<PolicyView> = match known.await {
        Ok(known) => known,
        Err(problem) => {
            tracing::warn!(%problem, "policies of an agent cannot be checked");
            return vec![FieldError {
                step: Some(first.id.clone()),
                message: "The policies cannot be checked now. Try again later.".to_owned(),
                ..FieldError::default()
            }];
        }
    };
    named.retain(|name, _| known.items.iter().all(|policy| policy.name != **name));
    let unknown = named.into_iter().take(WARNINGS_MAX);
    let warnings = unknown.enumerate().map(|(place, (name, step))| {
        let names = known.items.iter().map(|policy| policy.name.as_str());
        FieldError {
            step: Some(step.id.clone()),
            text: name.to_string(),
            message: message(name, step),
            nearest: if place < NEAREST_MAX {
                nearest(name.as_str(), names)
            } else {
                Vec::new()
            },
            ..FieldError::default()
        }
    });
    warnings.collect()
}

fn message(name: &PolicyName, step: &PlannedStepView) -> String {
    let consequence = if step.kind == "tool" {
        "No approval is asked, and the step fails."
    } else {
        "The request is opened without it."
    };
    format!("No policy has the name `{name}`. {consequence}")
}
