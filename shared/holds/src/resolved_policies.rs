//! What the policies that a request names resolve to, when the request is opened (S2-R4).

use holdpoint_contracts::handoff::{ApprovalRules, Calendar, EscalationRules, PolicyRules, StopOn};
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes, Rung};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::PolicyName;
use serde::{Deserialize, Serialize};

use crate::ladder::{expand_rung, kind_of_built_in};
use crate::limits::POLICIES_MAX;

/// The stored policies of a workspace. A failed lookup ends the resolution.
pub trait StoredPolicies {
    type Error;

    /// The rules of a policy; none: it is unknown or deleted.
    ///
    /// # Errors
    /// The policy cannot be read now.
    fn rules(&self, name: &PolicyName) -> Result<Option<PolicyRules>, Self::Error>;

    /// The error for an unknown name.
    ///
    /// # Errors
    /// The known names cannot be read now.
    fn unknown_policy(&self, name: &PolicyName) -> Result<FieldError, Self::Error>;
}

/// What the policies of a request stated when the request was opened. Later changes of a policy do not
/// change open requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResolvedPolicies {
    /// Recipients, instead of those of the request.
    pub to: Option<Vec<String>>,
    /// How many users must agree, and who is excluded.
    pub votes: Option<Votes>,
    /// Timeout in milliseconds where the request states none.
    pub decide_within_ms: Option<u64>,
    /// Longest time in which an approval permits its call, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
    pub ladder: Vec<Rung>,
    /// The default ladder of this kind counts instead of that of the request's kind.
    pub default_of: Option<HoldKind>,
    /// Working time in which rungs count and fire. None: all time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// Time without reminders after an acknowledgement, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_for_ms: Option<u64>,
    /// Accepting the request stops the ladder.
    pub stops_on_accept: bool,
    /// Texts for the request's history.
    pub notes: Vec<String>,
}

impl ResolvedPolicies {
    /// The spec with the statements of the policies.
    #[must_use]
    pub fn apply(&self, spec: HoldSpec) -> HoldSpec {
        HoldSpec {
            to: self.to.clone().unwrap_or(spec.to),
            policy: self.votes.unwrap_or(spec.policy),
            ladder: if self.ladder.is_empty() {
                spec.ladder
            } else {
                self.ladder.clone()
            },
            ..spec
        }
    }
}

/// The policies of a run's request.
#[derive(Debug)]
pub enum RunPolicies {
    Resolved(Box<ResolvedPolicies>),
    /// The request must not be asked, for this reason.
    Unavailable(String),
}

/// Resolves the policies of a run's request. An approval that is asked without its policy could be given by fewer
/// people than the author wanted, so it is not asked (S2-R4). A question or a handoff is opened without the policy, so
/// that the run does not stop, and its history says so.
///
/// # Errors
/// A lookup failed.
pub fn resolve_run_policies<P: StoredPolicies>(
    spec: &HoldSpec,
    policies: &P,
) -> Result<RunPolicies, P::Error> {
    let (mut resolved, errors) = PolicyResolver::new(spec, true).resolve(policies)?;
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

/// Resolves the policies that a standalone request names, and returns all errors. A policy with an error has no effect.
///
/// # Errors
/// A lookup failed.
pub fn resolve_policies<P: StoredPolicies>(
    spec: &HoldSpec,
    policies: &P,
) -> Result<(ResolvedPolicies, Vec<FieldError>), P::Error> {
    PolicyResolver::new(spec, false).resolve(policies)
}

/// The stored policies that a request names. Built-in ones are not stored, and a timer takes no policy.
pub fn stored_names(spec: &HoldSpec) -> impl Iterator<Item = &PolicyName> {
    let names = spec.policies.iter().take(POLICIES_MAX);
    names.filter(|name| spec.kind != HoldKind::Timer && kind_of_built_in(name).is_none())
}

struct PolicyResolver<'a> {
    spec: &'a HoldSpec,
    is_of_run: bool,
    resolved: ResolvedPolicies,
    errors: Vec<FieldError>,
}

impl<'a> PolicyResolver<'a> {
    fn new(spec: &'a HoldSpec, is_of_run: bool) -> Self {
        Self {
            spec,
            is_of_run,
            resolved: ResolvedPolicies::default(),
            errors: Vec::new(),
        }
    }

    fn resolve<P: StoredPolicies>(
        mut self,
        policies: &P,
    ) -> Result<(ResolvedPolicies, Vec<FieldError>), P::Error> {
        for (place, name) in self.spec.policies.iter().enumerate().take(POLICIES_MAX) {
            if let Err(wrong) = self.add_policy(name, policies)? {
                let pointer = format!("/spec/policies/{place}");
                self.errors.push(wrong.under(&pointer));
            }
        }
        Ok((self.resolved, self.errors))
    }

    /// Adds one policy; the inner error is a field error.
    fn add_policy<P: StoredPolicies>(
        &mut self,
        name: &PolicyName,
        policies: &P,
    ) -> Result<Result<(), Box<FieldError>>, P::Error> {
        if self.spec.kind == HoldKind::Timer {
            return Ok(Err(error(
                "a timer has no recipients, so it takes no policy".to_owned(),
            )));
        }
        if let Some(kind) = kind_of_built_in(name) {
            return Ok(self.add_ladder(name, |resolved| resolved.default_of = Some(kind)));
        }
        Ok(match policies.rules(name)? {
            Some(PolicyRules::Approval(rules)) => self.add_approval(name, &rules),
            Some(PolicyRules::Escalation(rules)) => self.add_escalation(name, &rules),
            None => Err(Box::new(policies.unknown_policy(name)?)),
        })
    }

    /// Whether it is the approval of a gated call.
    fn is_run_approval(&self) -> bool {
        self.spec.kind == HoldKind::Approval && self.is_of_run
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
        if !self.is_of_run || self.spec.time_by_policy {
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
