//! Whether as many people may decide a request as must agree. A standalone hold that nobody can decide is
//! refused; a run's request is addressed to the owners too.

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;

use super::audience;
use crate::domain::decision::Undecided;
use crate::domain::lookup::DecisionContext;
use crate::domain::model::request::ExcludedDeciders;

/// Fewer people may decide a request than must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuorumShortfall {
    need: u32,
    have: u32,
    excluded: ExcludedDeciders,
}

/// Whether too few people may decide. If one decision is enough and nobody is excluded, an owner always
/// can.
pub(crate) fn check_quorum(
    spec: &HoldSpec,
    excluded: &ExcludedDeciders,
    context: &DecisionContext<'_>,
) -> Result<Option<QuorumShortfall>, Undecided> {
    let need = match spec.kind {
        HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => return Ok(None),
        HoldKind::Approval => spec.policy.need.max(1),
        HoldKind::Input | HoldKind::Handoff => 1,
    };
    if need == 1 && excluded.is_empty() {
        return Ok(None);
    }
    let Some(eligible) = audience::eligible_deciders(&spec.to, context)? else {
        return Ok(None);
    };
    let may_decide = eligible.iter().filter(|name| !excluded.contains(name));
    let have = u32::try_from(may_decide.count()).unwrap_or(u32::MAX);
    Ok((have < need).then(|| QuorumShortfall {
        need,
        have,
        excluded: excluded.clone(),
    }))
}

impl QuorumShortfall {
    /// The error as a sentence.
    pub(crate) fn describe(&self) -> String {
        let without = if self.excluded.is_empty() {
            String::new()
        } else {
            format!(" (`not_requester` excludes `{}`)", self.excluded.names())
        };
        match (self.need, self.have) {
            (1, _) => format!("no user may decide it{without}"),
            (need, 0) => format!("it needs {need} approvals, and no user may give one{without}"),
            (need, have) => format!(
                "it needs {need} approvals, and only {have} users may give one, including owners and \
                 operators{without}"
            ),
        }
    }

    /// The error at the field that causes it, with the ways to correct it.
    pub(crate) fn error(&self, is_by_policy: bool) -> FieldError {
        let (pointer, remedy) = match self.need {
            _ if is_by_policy => ("/spec/policies", "name another policy"),
            1 => ("/spec/policy/not_requester", "omit it"),
            _ => ("/spec/policy/need", "require fewer approvals"),
        };
        let what = self.describe();
        FieldError::at(pointer, format!("{what}; add recipients or {remedy}"))
    }
}
