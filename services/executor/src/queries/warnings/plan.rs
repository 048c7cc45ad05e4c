//! Warns of unknown users and empty roles in a plan, and of results that may be missing.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use holdpoint_contracts::duration::MAX_WAIT;
use holdpoint_contracts::hold::OnTimeout;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::Recipient;
use holdpoint_ids::{UserName, Workspace, nearest};
use holdpoint_store::StoreError;
use holdpoint_user_directory::table as directory;
use serde_json::Value;

use super::super::ExecutorQueries;
use crate::domain::plan::signal_steps::OnWaitTimeout;
use crate::domain::plan::wait_until::Until;
use crate::domain::plan::{Action, OnError, Plan, PlannedStep};
use crate::domain::tool::CREATE_TASK;

/// Recipients of one agent that are looked for; further ones get no warning.
const RECIPIENTS_MAX: usize = 100;

/// Names of users and roles that an unknown one is compared with, in their order.
const COMPARED_MAX: u64 = 500;

impl ExecutorQueries {
    /// One warning for each unknown user and each role without a user, at the first step that names it. Those of the
    /// budget are named by no step.
    pub(super) async fn people_warnings(
        &self,
        workspace: &Workspace,
        plan: &Plan,
    ) -> Result<Vec<FieldError>, StoreError> {
        let mut named: BTreeMap<Recipient, Option<&str>> = BTreeMap::new();
        for step in &plan.steps {
            for recipient in recipients(step) {
                named.entry(recipient).or_insert(Some(&step.id));
            }
        }
        for recipient in budget_recipients(plan) {
            named.entry(recipient).or_insert(None);
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
        let roles = named.keys().take(RECIPIENTS_MAX);
        let roles = roles.filter_map(|one| match one {
            Recipient::Role(role) => Some(role),
            Recipient::User(_) => None,
        });
        let roles: Vec<_> = roles.collect();
        let staffed = directory::staffed_roles(&self.db, workspace, &roles).await?;
        let mut warnings = Vec::new();
        for (recipient, step) in named.into_iter().take(RECIPIENTS_MAX) {
            let message = match &recipient {
                Recipient::User(name) if active.contains(name) => continue,
                Recipient::User(name) => format!("No active user has the name `{name}`."),
                Recipient::Role(role) if staffed.contains(role) => continue,
                Recipient::Role(role) => {
                    format!("No active user has the role `{role}`. Such a request escalates.")
                }
            };
            let warning = FieldError {
                step: step.map(str::to_owned),
                message,
                ..FieldError::default()
            };
            warnings.push((recipient, warning));
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
/// A condition that tests for a result, or is that of the other step, guards against that. `gated` has the tools of risk
/// `high`, whose calls may be rejected.
pub(super) fn skipped_references(plan: &Plan, gated: &BTreeSet<String>) -> Vec<FieldError> {
    let mut warnings = Vec::new();
    for (step, used) in plan.steps.iter().zip(plan.unguarded_results()) {
        let written = LazyCell::new(|| serde_json::to_string(step).unwrap_or_default());
        for source in used.into_iter().filter_map(|index| plan.steps.get(index)) {
            let is_same = step.when.is_some() && step.when == source.when;
            // As in the last result of a line that repeats its step.
            let is_tested = || written.contains(&format!("${} != null", source.id));
            if let Some(why) = why_without_result(source, gated)
                && !is_same
                && !is_tested()
            {
                let name = &source.id;
                let message = format!("`{name}` {why}");
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

/// One warning for each wait for business days that is too long if it starts on some day of the next year. Such a wait
/// fails when it starts.
pub(super) fn long_waits(plan: &Plan, now: DateTime<Utc>) -> Vec<FieldError> {
    let longest = TimeDelta::from_std(MAX_WAIT).unwrap_or(TimeDelta::MAX);
    let waits = plan.steps.iter().filter_map(|step| match &step.action {
        Action::WaitUntil(wait) => match &wait.until {
            Until::BusinessDays(count) => Some((step, *count, wait.time_zone.parse().ok()?)),
            Until::Text(_) | Until::Weekday { .. } => None,
        },
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitFor(_)
        | Action::Ask(_)
        | Action::Handoff(_)
        | Action::Run(_)
        | Action::Finish(_) => None,
    });
    // Equal waits have equal ends, and a plan may have many.
    let mut checked: HashMap<(u32, Tz), Option<DateTime<Utc>>> = HashMap::new();
    let warnings = waits.filter_map(|(step, count, zone)| {
        let first = checked.entry((count, zone)).or_insert_with(|| {
            let mut starts = (0..=366).map(|days| now + TimeDelta::days(days));
            let is_too_long = |start: &DateTime<Utc>| {
                let end = plan.working_days.later(zone, *start, count);
                end.is_none_or(|end| end - *start > longest)
            };
            starts.find(is_too_long)
        });
        let start = (*first)?.date_naive();
        let message = format!(
            "{count} business days last more than 90 days if they start on {start}, because of the holidays. The step fails then."
        );
        Some(warning(&step.id, message))
    });
    warnings.collect()
}

/// What may happen to a step so that it has no result, and what follows for a step that uses it.
fn why_without_result(step: &PlannedStep, gated: &BTreeSet<String>) -> Option<&'static str> {
    let is_skipped_late = match &step.action {
        Action::Ask(ask) => ask.on_timeout == OnTimeout::Skip,
        Action::Handoff(handoff) => handoff.on_timeout == OnTimeout::Skip,
        Action::Run(run) => run.on_timeout == OnWaitTimeout::Skip,
        Action::WaitFor(wait) => wait.on_timeout == OnWaitTimeout::Skip,
        Action::Tool { .. } | Action::Wait { .. } | Action::WaitUntil(_) | Action::Finish(_) => {
            false
        }
    };
    if step.when.is_some() || is_skipped_late {
        return Some("may be skipped. Its result is then `null` here.");
    }
    let is_risky = step.action.tool().is_some_and(|tool| gated.contains(tool));
    if step.approval.is_some() || is_risky {
        return Some("may be rejected. This step then fails.");
    }
    let continues = step.on_error == OnError::Continue;
    continues.then_some("may fail. Its result is then `null` here.")
}

/// The recipients that a step names without a placeholder.
fn recipients(step: &PlannedStep) -> Vec<Recipient> {
    let mut assignee = None;
    let to = match &step.action {
        Action::Ask(ask) => ask.to.as_array(),
        Action::Handoff(handoff) => handoff.to.as_array(),
        Action::Tool { tool, args } => {
            let is_task = tool == CREATE_TASK;
            assignee = args.get("assignee").filter(|_| is_task);
            None
        }
        Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Run(_)
        | Action::Finish(_) => None,
    };
    let assignee = assignee.and_then(Value::as_str);
    // A task names a user also without `@user.`
    let assignee = assignee.and_then(|text| {
        let user = text.parse().map(Recipient::User).ok();
        text.parse().ok().or(user)
    });
    let to = to.into_iter().flatten().filter_map(Value::as_str);
    let from = step.approval.iter().flat_map(|rule| rule.from.iter());
    to.chain(from.map(String::as_str))
        .filter_map(|text| text.parse().ok())
        .chain(assignee)
        .collect()
}

/// The people who are asked when the budget is used up.
fn budget_recipients(plan: &Plan) -> impl Iterator<Item = Recipient> {
    let budget = plan.limits.budget.iter();
    budget.flat_map(|budget| budget.to.iter().filter_map(|to| to.parse().ok()))
}

pub(super) fn warning(step: &str, message: String) -> FieldError {
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
        let none = BTreeSet::new();
        let warnings = skipped_references(&plan(""), &none);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert_eq!(warnings[0].step.as_deref(), Some("tell"));
        assert_eq!(warnings[0].text, "$find");
        for guard in [
            "    when: $find != null\n",
            "    when: contact.replied == true\n",
        ] {
            assert_eq!(skipped_references(&plan(guard), &none), []);
        }
        // The last result of a repeated line tests each time but the first.
        let text = "agent: a\ninstructions: |\n  Call find as find every 1 hour until $find.ok is true, at most 4 times\n  Log \"{{ $find.n }}\"\n";
        assert_eq!(skipped_references(&Plan::compile(text).unwrap(), &none), []);
        // It names another field `find`.
        let other = plan("    when: contact.find == true\n");
        assert_eq!(skipped_references(&other, &none).len(), 1);
    }

    /// Gate 1: a call of a tool with the risk `high` may be rejected, as one with its own `approval`.
    #[test]
    fn a_result_of_a_risky_call_is_a_warning() {
        let text = "agent: a\nsteps:\n  - id: pay\n    tool: shop.pay\n  - tool: log\n    args: { message: $pay.id }\n";
        let plan = Plan::compile(text).unwrap();
        assert_eq!(skipped_references(&plan, &BTreeSet::new()), []);
        let gated = BTreeSet::from(["shop.pay".to_owned()]);
        let warnings = skipped_references(&plan, &gated);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("may be rejected"));
    }

    /// Gate 1: recipients of the budget and of a task are people whom the plan names.
    #[test]
    fn people_are_named_by_budgets_and_tasks_too() {
        let task = |assignee: &str| {
            let args = format!("{{ title: x, assignee: \"{assignee}\" }}");
            let text = format!("agent: a\nsteps:\n  - tool: create_task\n    args: {args}\n");
            recipients(&Plan::compile(&text).unwrap().steps[0])
        };
        let nina = || "@user.nina".parse().unwrap();
        assert_eq!(task("@user.nina"), [nina()]);
        assert_eq!(task("nina"), [nina()]);
        assert_eq!(task("@role.sales"), ["@role.sales".parse().unwrap()]);
        assert_eq!(task("$contact.owner"), []);
        assert_eq!(task("{{ contact.owner }}"), []);
        let text = "agent: a\nlimits: { budget: { steps: 1, to: [\"@user.nina\"] } }\nsteps:\n  - wait: 1 day\n";
        let plan = Plan::compile(text).unwrap();
        assert_eq!(budget_recipients(&plan).collect::<Vec<_>>(), [nina()]);
    }
}
