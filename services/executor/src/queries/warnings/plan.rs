//! Warns of unknown users and empty roles in a plan, and of results that may be missing.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::Recipient;
use holdpoint_ids::{UserName, Workspace};
use holdpoint_store::StoreError;
use holdpoint_user_directory::table as directory;
use serde_json::Value;

use super::super::ExecutorQueries;
use crate::domain::definition::nearest;
use crate::domain::plan::{Action, Plan, PlannedStep, StepPart};

/// Recipients of one agent that are looked for; further ones get no warning.
const RECIPIENTS_MAX: usize = 100;

/// Names of users and roles that an unknown one is compared with, in their order.
const COMPARED_MAX: u64 = 500;

impl ExecutorQueries {
    /// One warning for each unknown user and each role without a user, at the first step that names it.
    pub(in super::super) async fn people_warnings(
        &self,
        workspace: &Workspace,
        plan: &Plan,
    ) -> Result<Vec<FieldError>, StoreError> {
        let mut named: BTreeMap<Recipient, &str> = BTreeMap::new();
        for step in &plan.steps {
            for recipient in recipients(step) {
                named.entry(recipient).or_insert(&step.id);
            }
        }
        // A workspace without users gets them later.
        if named.is_empty() || !directory::any_in(&self.db, workspace).await? {
            return Ok(Vec::new());
        }
        let users = named
            .keys()
            .take(RECIPIENTS_MAX)
            .filter_map(|one| match one {
                Recipient::User(name) => Some(name.clone()),
                Recipient::Role(_) => None,
            });
        let users: Vec<UserName> = users.collect();
        let found = directory::find_all(&self.db, workspace, &users).await?;
        let active = found.into_iter().filter(|user| user.active);
        let active: BTreeSet<UserName> = active.map(|user| user.name).collect();
        let mut warnings = Vec::new();
        for (recipient, step) in named.into_iter().take(RECIPIENTS_MAX) {
            let message = match &recipient {
                Recipient::User(name) if active.contains(name) => continue,
                Recipient::User(name) => format!("No active user has the name `{name}`."),
                Recipient::Role(role) => {
                    let members = directory::members(&self.db, workspace, role, None, 1).await?;
                    if !members.is_empty() {
                        continue;
                    }
                    format!("No active user has the role `{role}`. Such a request escalates.")
                }
            };
            warnings.push((recipient, warning(step, message)));
        }
        if warnings.is_empty() {
            return Ok(Vec::new());
        }
        let known = directory::recipients(&self.db, workspace, COMPARED_MAX).await?;
        let warnings = warnings.into_iter().map(|(recipient, warning)| FieldError {
            nearest: nearest(&recipient.to_string(), known.iter().map(String::as_str)),
            text: recipient.to_string(),
            ..warning
        });
        Ok(warnings.collect())
    }
}

/// One warning for each step whose arguments use the result of a step that may be skipped. The result is then `null`.
pub(in super::super) fn skipped_references(plan: &Plan) -> Vec<FieldError> {
    let steps: BTreeMap<&str, &PlannedStep> = plan
        .steps
        .iter()
        .map(|step| (step.id.as_str(), step))
        .collect();
    let mut warnings = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let parts = [StepPart::Step(index), StepPart::Child(index)];
        let used: BTreeSet<_> = parts
            .into_iter()
            .flat_map(|part| plan.results_used(part))
            .collect();
        for name in used {
            let source = steps.get(name.as_str());
            let is_guarded = step.when.as_deref().is_some_and(|when| {
                when.contains(&name) || source.is_some_and(|it| it.when.as_deref() == Some(when))
            });
            if source.is_some_and(|source| may_be_skipped(source)) && !is_guarded {
                let message = format!("`{name}` may be skipped. Its result is then `null` here.");
                let text = format!("${name}");
                warnings.push(FieldError {
                    text,
                    ..warning(&step.id, message)
                });
            }
        }
    }
    warnings
}

fn may_be_skipped(step: &PlannedStep) -> bool {
    let on_timeout = match &step.action {
        Action::Ask(ask) => Some(ask.on_timeout),
        Action::Handoff(handoff) => Some(handoff.on_timeout),
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Finish(_) => None,
    };
    step.when.is_some() || on_timeout == Some(OnTimeout::Skip)
}

/// The recipients that a step names without a placeholder.
fn recipients(step: &PlannedStep) -> Vec<Recipient> {
    let to = match &step.action {
        Action::Ask(ask) => ask.to.as_array(),
        Action::Handoff(handoff) => handoff.to.as_array(),
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Finish(_) => None,
    };
    let to = to.into_iter().flatten().filter_map(Value::as_str);
    let from = step.approval.iter().flat_map(|rule| rule.from.iter());
    to.chain(from.map(String::as_str))
        .filter_map(|text| text.parse().ok())
        .collect()
}

fn warning(step: &str, message: String) -> FieldError {
    FieldError {
        step: Some(step.to_owned()),
        message,
        ..FieldError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gate: a plan warns of a result that may be missing.
    #[test]
    fn a_result_of_a_step_that_may_be_skipped_is_a_warning() {
        let plan = |when: &str| {
            let text = format!(
                "agent: a\nsteps:\n  - id: find\n    tool: log\n    when: contact.replied == true\n    args: {{ message: hi }}\n  - id: tell\n    tool: log\n{when}    args: {{ message: \"{{{{ $find.message }}}}\" }}\n"
            );
            Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"))
        };
        let warnings = skipped_references(&plan(""));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].step.as_deref(), Some("tell"));
        assert_eq!(warnings[0].text, "$find");
        for guard in [
            "    when: $find != null\n",
            "    when: contact.replied == true\n",
        ] {
            assert_eq!(skipped_references(&plan(guard)), []);
        }
    }
}
