//! Loads the policies that a request names, and resolves them when the request is opened.

use holdpoint_contracts::handoff::PolicyRules;
use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_holds::resolved_policies::{self, ResolvedPolicies, RunPolicies, StoredPolicies};
use holdpoint_ids::PolicyName;

use super::built_in_policies::built_in_policies;
use crate::domain::decision::Undecided;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::limits::NAMES_SHOWN_MAX;

/// Resolves the policies of a run's request.
pub(crate) fn resolve_run_policies(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<RunPolicies, Undecided> {
    load_policies(spec, context)?;
    resolved_policies::resolve_run_policies(spec, context)
}

/// Resolves the policies that a standalone request names, and returns all errors.
pub(crate) fn resolve_policies(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<(ResolvedPolicies, Vec<FieldError>), Undecided> {
    load_policies(spec, context)?;
    resolved_policies::resolve_policies(spec, context)
}

/// Loads all policies together, so that one decision needs few lookups.
fn load_policies(spec: &HoldSpec, context: &DecisionContext<'_>) -> Result<(), Undecided> {
    load_together(resolved_policies::stored_names(spec).map(|name| {
        match context.rules(name)? {
            Some(_) => Ok(()),
            // The error for an unknown name lists the known ones.
            None => context.unknown_policy(name).map(drop),
        }
    }))
}

impl StoredPolicies for DecisionContext<'_> {
    type Error = Undecided;

    fn rules(&self, name: &PolicyName) -> Result<Option<PolicyRules>, Undecided> {
        let policy = self.facts.policy(name)?;
        Ok(policy.map(|policy| policy.rules))
    }

    fn unknown_policy(&self, name: &PolicyName) -> Result<FieldError, Undecided> {
        let own = self.facts.policy_names()?.into_iter();
        let built_in = built_in_policies().into_iter().map(|view| view.name);
        let mut names: Vec<_> = own.chain(built_in).map(String::from).collect();
        let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
        names.truncate(NAMES_SHOWN_MAX);
        let shown: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let rest = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let known = shown.join(", ");
        let message = format!("unknown policy `{name}`; expected one of {known}{rest}");
        Ok(FieldError {
            text: name.to_string(),
            nearest: names,
            ..FieldError::at("", message)
        })
    }
}
