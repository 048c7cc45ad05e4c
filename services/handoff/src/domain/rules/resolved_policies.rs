//! What the policies that a request names come to: looked up once, when it is opened, and kept with it.
//! Whatever becomes of a policy later changes nothing that is open.

use holdpoint_contracts::handoff::{ApprovalRules, Calendar, EscalationRules, PolicyRules, StopOn};
use holdpoint_contracts::hold::{HoldSpec, Policy as Votes, Rung};
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::PolicyName;
use serde::{Deserialize, Serialize};

use super::limits::NAMES_SHOWN_MAX;
use super::policy::{all_built_in, built_in, expand, names};
use super::{DecisionContext, Fact, Lookup, Need, Undecided};

/// Most policies that one request names: one that says who approves, and one that says who is told.
const NAMED_MAX: usize = 2;

/// What policies said when a request was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResolvedPolicies {
    /// Whom it is put to.
    pub to: Option<Vec<String>>,
    /// How many must agree, and who may not.
    pub votes: Option<Votes>,
    /// How long it waits, in milliseconds, where it says nothing itself.
    pub decide_within_ms: Option<u64>,
    pub ladder: Vec<Rung>,
    /// The default ladder of this kind instead of its own kind's.
    pub default_of: Option<HoldKind>,
    /// When they count and fire; none: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// How long it is quiet once somebody has seen it, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_for_ms: Option<u64>,
    /// Whoever accepts it stops them.
    pub stops_on_accept: bool,
    pub notes: Vec<String>,
}

impl ResolvedPolicies {
    /// Whether no policy has a say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is asked, with what the policies say in its place.
    pub(crate) fn applied(&self, spec: HoldSpec) -> HoldSpec {
        HoldSpec {
            to: self.to.clone().unwrap_or(spec.to),
            policy: self.votes.unwrap_or(spec.policy),
            ladder: match self.ladder.is_empty() {
                true => spec.ladder,
                false => self.ladder.clone(),
            },
            ..spec
        }
    }

    /// In a sentence or two; none: there is nothing to say.
    pub(crate) fn note(&self) -> Option<String> {
        (!self.notes.is_empty()).then(|| self.notes.join("; "))
    }
}

/// Looks up what a run's request names. A run does not stand still for a policy that is not there: it
/// is asked without it, and its history says so.
pub(crate) fn resolve_lenient(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<ResolvedPolicies, Undecided> {
    let (mut settled, errors) = settle(spec, context)?;
    let wrong = errors.into_iter().map(|error| error.message);
    settled.notes.extend(wrong);
    Ok(settled)
}

/// Looks up what a request names, and says all that is wrong with it. What is wrong has no effect.
pub(crate) fn settle(
    spec: &HoldSpec,
    context: &DecisionContext<'_>,
) -> Result<(ResolvedPolicies, Vec<FieldError>), Undecided> {
    let mut settling = PolicyResolver {
        spec,
        context,
        settled: ResolvedPolicies::default(),
        errors: Vec::new(),
    };
    if spec.policies.len() > NAMED_MAX {
        let message = "at most one that says who approves, and one that says who is told";
        settling
            .errors
            .push(FieldError::at("/spec/policies", message));
    }
    at_once(spec.policies.iter().take(NAMED_MAX).map(|name| {
        let rules = settling.rules(name)?;
        // Whoever names one that is not there is told which there are.
        let is_lost = rules.is_none() && settling.is_looked_up(name);
        if is_lost {
            settling.unknown(name).map(drop)
        } else {
            Ok(())
        }
    }))?;
    for (place, name) in spec.policies.iter().enumerate().take(NAMED_MAX) {
        if let Err(wrong) = settling.one(name)? {
            let pointer = format!("/spec/policies/{place}");
            settling.errors.push(wrong.under(&pointer));
        }
    }
    Ok((settling.settled, settling.errors))
}

/// What several looks lack, asked for in one question: rounds are few. What one of them refuses is said
/// when its turn comes.
pub(crate) fn at_once(
    looks: impl IntoIterator<Item = Result<(), Undecided>>,
) -> Result<(), Undecided> {
    let lacks = looks.into_iter().filter_map(|lookup| match lookup {
        Err(Undecided::NeedsMore(needs)) => Some(needs),
        Ok(()) | Err(Undecided::Refused(_)) => None,
    });
    let needs: Vec<_> = lacks.flatten().collect();
    match needs.is_empty() {
        true => Ok(()),
        false => Err(Undecided::NeedsMore(needs)),
    }
}

struct PolicyResolver<'a> {
    spec: &'a HoldSpec,
    context: &'a DecisionContext<'a>,
    settled: ResolvedPolicies,
    errors: Vec<FieldError>,
}

impl PolicyResolver<'_> {
    /// Takes one in; the inner error: it cannot be, and why.
    fn one(&mut self, name: &PolicyName) -> Result<Result<(), Box<FieldError>>, Undecided> {
        if self.spec.kind == HoldKind::Timer {
            return Ok(Err(said(
                "a timer asks nobody: it has no policy".to_owned(),
            )));
        }
        if let Some(kind) = built_in(name) {
            return Ok(self.rungs(name, |settled| settled.default_of = Some(kind)));
        }
        Ok(match self.rules(name)? {
            Some(PolicyRules::Approval(rules)) => self.approval(name, &rules),
            Some(PolicyRules::Escalation(rules)) => self.escalation(name, &rules),
            None => Err(self.unknown(name)?),
        })
    }

    /// Whether it is a row, and one counts: timers ask nobody, and some are built in.
    fn is_looked_up(&self, name: &PolicyName) -> bool {
        self.spec.kind != HoldKind::Timer && built_in(name).is_none()
    }

    /// What it says; none: there is no such row.
    fn rules(&self, name: &PolicyName) -> Result<Option<PolicyRules>, Undecided> {
        if !self.is_looked_up(name) {
            return Ok(None);
        }
        let need = Need::Policy(self.context.workspace.clone(), name.clone());
        match (self.context.lookup)(&need) {
            Lookup::NotLoaded => Err(Undecided::NeedsMore(vec![need])),
            Lookup::Found(Fact::Policy(policy)) => Ok((!policy.deleted).then_some(policy.rules)),
            Lookup::Found(
                Fact::Policies(_)
                | Fact::User(_)
                | Fact::Owners(_)
                | Fact::Members(_)
                | Fact::Role(_)
                | Fact::Loads(_)
                | Fact::Request(_),
            )
            | Lookup::Missing => Ok(None),
        }
    }

    /// There is none of this name: which there are.
    fn unknown(&self, name: &PolicyName) -> Result<Box<FieldError>, Undecided> {
        let own = names(self.context.workspace, self.context.lookup)?.into_iter();
        let built_in = all_built_in().into_iter().map(|view| view.name);
        let mut names: Vec<_> = own.chain(built_in).map(String::from).collect();
        let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
        names.truncate(NAMES_SHOWN_MAX);
        let shown: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let rest = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let there = shown.join(", ");
        Ok(Box::new(FieldError {
            text: name.to_string(),
            nearest: names,
            ..*said(format!(
                "there is no policy `{name}`; there are {there}{rest}"
            ))
        }))
    }

    fn approval(
        &mut self,
        name: &PolicyName,
        rules: &ApprovalRules,
    ) -> Result<(), Box<FieldError>> {
        let votes = Votes {
            need: rules.need,
            not_requester: rules.not_requester,
        };
        if self.settled.votes.is_some() || !self.spec.policy.is_default() {
            return Err(said(format!(
                "`{name}` says who decides, and so does another"
            )));
        }
        if votes.need > 1 && self.spec.kind != HoldKind::Approval {
            let (need, kind) = (votes.need, self.spec.kind);
            let message = format!("`{name}` needs {need} approvals, and this is of kind `{kind}`");
            return Err(said(message));
        }
        self.settled.votes = Some(votes);
        if !rules.from.is_empty() {
            if !self.spec.to.is_empty() {
                let message = format!("`{name}` says whom it is put to, and `to` does not");
                self.errors.push(FieldError::at("/spec/to", message));
            }
            self.settled.to = Some(rules.from.clone());
        }
        let mut note = format!("by policy `{name}`");
        if self.context.id.is_standalone() || self.spec.time_by_policy {
            self.settled.decide_within_ms = rules.decide_within;
        } else if rules.decide_within.is_some() {
            note.push_str(": the step's own `timeout` counts, and not `decide_within`");
        }
        self.settled.notes.push(note);
        Ok(())
    }

    fn escalation(
        &mut self,
        name: &PolicyName,
        rules: &EscalationRules,
    ) -> Result<(), Box<FieldError>> {
        self.rungs(name, |settled| {
            settled.ladder = rules.rungs.iter().flat_map(expand).collect();
            settled.calendar = rules.calendar.clone();
            settled.acknowledged_for_ms = rules.acknowledged_for;
            settled.stops_on_accept = rules.stop_on.contains(&StopOn::Accept);
        })
    }

    fn rungs(
        &mut self,
        name: &PolicyName,
        put: impl FnOnce(&mut ResolvedPolicies),
    ) -> Result<(), Box<FieldError>> {
        let settled = &mut self.settled;
        let has_rungs = settled.default_of.is_some() || !settled.ladder.is_empty();
        if has_rungs || !self.spec.ladder.is_empty() {
            return Err(said(format!(
                "`{name}` says who is told, and so does another"
            )));
        }
        settled.notes.push(format!("by policy `{name}`"));
        put(settled);
        Ok(())
    }
}

fn said(message: String) -> Box<FieldError> {
    Box::new(FieldError::at("", message))
}
