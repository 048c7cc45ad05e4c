//! What the policies that a request names resolve to, when the request is opened.

use holdpoint_contracts::handoff::{ApprovalRules, EscalationRules, PolicyRules, StopOn};
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::ladder::{expand_rung, kind_of_built_in};
use holdpoint_holds::limits::POLICIES_MAX;
use holdpoint_ids::PolicyName;

use super::built_in_policies::built_in_policies;
use crate::domain::decision::Undecided;
use crate::domain::lookup::{DecisionContext, load_together};
use crate::domain::model::limits::NAMES_SHOWN_MAX;
use crate::domain::model::policy::ResolvedPolicies;

/// The policies of a run's request.
pub(crate) enum RunPolicies {
    Resolved(Box<ResolvedPolicies>),
    /// The request must not be asked, for this reason.
    Unavailable(String),
}

/// Resolves the policies of a run's request. An approval that is asked without its policy could be given by fewer
/// people than the author wanted, so it is not asked (S2-R4). A question or a handoff is opened without the policy, so
/// that the run does not stop, and its history says so.
pub(crate) fn resolve_run_policies(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<RunPolicies, Undecided> {
    let (mut resolved, errors) = resolve_policies(spec, context)?;
    let messages = errors.into_iter().map(|error| error.message);
    if spec.kind == HoldKind::Approval {
        let messages: Vec<_> = messages.collect();
        if !messages.is_empty() {
            return Ok(RunPolicies::Unavailable(messages.join("; ")));
        }
    } else {
        resolved.notes.extend(messages);
    }
    Ok(RunPolicies::Resolved(Box::new(resolved)))
}

/// Resolves the policies that a request names, and returns all errors. A policy with an error has no effect.
pub(crate) fn resolve_policies(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<(ResolvedPolicies, Vec<FieldError>), Undecided> {
    let mut resolver = PolicyResolver {
        spec,
        context,
        resolved: ResolvedPolicies::default(),
        errors: Vec::new(),
    };
    load_together(spec.policies.iter().take(POLICIES_MAX).map(|name| {
        let rules = resolver.rules(name)?;
        // The error for an unknown name lists the known ones.
        let is_unknown = rules.is_none() && resolver.is_stored(name);
        if is_unknown {
            resolver.unknown_policy(name).map(drop)
        } else {
            Ok(())
        }
    }))?;
    for (place, name) in spec.policies.iter().enumerate().take(POLICIES_MAX) {
        if let Err(wrong) = resolver.add_policy(name)? {
            let pointer = format!("/spec/policies/{place}");
            resolver.errors.push(wrong.under(&pointer));
        }
    }
    Ok((resolver.resolved, resolver.errors))
}

struct PolicyResolver<'a> {
    spec: &'a HoldSpec,
    context: &'a DecisionContext<'a>,
    resolved: ResolvedPolicies,
    errors: Vec<FieldError>,
}

impl PolicyResolver<'_> {
    /// Adds one policy; the inner error is a field error.
    fn add_policy(&mut self, name: &PolicyName) -> Result<Result<(), Box<FieldError>>, Undecided> {
        if self.spec.kind == HoldKind::Timer {
            return Ok(Err(error(
                "a timer has no recipients, so it takes no policy".to_owned(),
            )));
        }
        if let Some(kind) = kind_of_built_in(name) {
            return Ok(self.add_ladder(name, |resolved| resolved.default_of = Some(kind)));
        }
        Ok(match self.rules(name)? {
            Some(PolicyRules::Approval(rules)) => self.add_approval(name, &rules),
            Some(PolicyRules::Escalation(rules)) => self.add_escalation(name, &rules),
            None => Err(self.unknown_policy(name)?),
        })
    }

    /// Whether the policy is a row: timers take no policy, and some policies are built in.
    fn is_stored(&self, name: &PolicyName) -> bool {
        self.spec.kind != HoldKind::Timer && kind_of_built_in(name).is_none()
    }

    /// Whether it is the approval of a gated call.
    fn is_run_approval(&self) -> bool {
        self.spec.kind == HoldKind::Approval && !self.context.id.is_standalone()
    }

    /// The rules of a stored policy.
    fn rules(&self, name: &PolicyName) -> Result<Option<PolicyRules>, Undecided> {
        if !self.is_stored(name) {
            return Ok(None);
        }
        let policy = self.context.facts.policy(name)?;
        Ok(policy.map(|policy| policy.rules))
    }

    /// The error for an unknown name, which lists the known names.
    fn unknown_policy(&self, name: &PolicyName) -> Result<Box<FieldError>, Undecided> {
        let own = self.context.facts.policy_names()?.into_iter();
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
        Ok(Box::new(FieldError {
            text: name.to_string(),
            nearest: names,
            ..*error(format!(
                "unknown policy `{name}`; expected one of {known}{rest}"
            ))
        }))
    }

    fn add_approval(
        &mut self,
        name: &PolicyName,
        rules: &ApprovalRules,
    ) -> Result<(), Box<FieldError>> {
        let is_run_approval = self.is_run_approval();
        let own = self.spec.policy;
        let has_other = self.resolved.votes.is_some();
        if has_other || (own != Votes::default() && !is_run_approval) {
            return Err(error(format!(
                "`{name}` states who decides, and so does another policy or the request"
            )));
        }
        // Only the approval of a run may state votes beside its policy. The stricter rule counts.
        let votes = Votes {
            need: rules.need.max(own.need),
            not_requester: rules.not_requester || own.not_requester,
        };
        if votes.need > 1 && self.spec.kind != HoldKind::Approval {
            let (need, kind) = (votes.need, self.spec.kind);
            let message =
                format!("`{name}` needs {need} approvals, which kind `{kind}` does not have");
            return Err(error(message));
        }
        self.resolved.votes = Some(votes);
        self.resolved.valid_ms = rules.valid_for;
        if !rules.from.is_empty() {
            if !self.spec.to.is_empty() && !is_run_approval {
                let message = format!("`{name}` states the recipients, so `to` must be omitted");
                self.errors.push(FieldError::at("/spec/to", message));
            }
            self.resolved.to = Some(rules.from.clone());
        }
        let mut note = format!("by policy `{name}`");
        if self.context.id.is_standalone() || self.spec.time_by_policy {
            self.resolved.decide_within_ms = rules.decide_within;
        } else if rules.decide_within.is_some() {
            note.push_str("; the step's `timeout` counts instead of `decide_within`");
        }
        self.resolved.notes.push(note);
        Ok(())
    }

    fn add_escalation(
        &mut self,
        name: &PolicyName,
        rules: &EscalationRules,
    ) -> Result<(), Box<FieldError>> {
        self.add_ladder(name, |resolved| {
            resolved.ladder = rules.rungs.iter().flat_map(expand_rung).collect();
            resolved.calendar = rules.calendar.clone();
            resolved.acknowledged_for_ms = rules.acknowledged_for;
            resolved.stops_on_accept = rules.stop_on.contains(&StopOn::Accept);
        })
    }

    fn add_ladder(
        &mut self,
        name: &PolicyName,
        put: impl FnOnce(&mut ResolvedPolicies),
    ) -> Result<(), Box<FieldError>> {
        let resolved = &mut self.resolved;
        let has_rungs = resolved.default_of.is_some() || !resolved.ladder.is_empty();
        if has_rungs || !self.spec.ladder.is_empty() {
            return Err(error(format!(
                "`{name}` states who is notified, and so does another policy or the request"
            )));
        }
        resolved.notes.push(format!("by policy `{name}`"));
        put(resolved);
        Ok(())
    }
}

fn error(message: String) -> Box<FieldError> {
    Box::new(FieldError::at("", message))
}
