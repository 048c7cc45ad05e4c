//! Whether as many people may decide a request as must agree. What nobody can decide is not opened; where
//! a run asks it, the owners are told.

use std::collections::BTreeSet;

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::audience::{self, Barred};
use super::{DecisionContext, Undecided};

/// Fewer people may decide it than must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuorumShortfall {
    need: u32,
    have: u32,
    /// Who is not counted.
    barred: Barred,
}

/// The rule: whoever may decide it, but whoever never may, are fewer than must agree.
fn shortfall(need: u32, eligible: &BTreeSet<UserName>, barred: &Barred) -> Option<QuorumShortfall> {
    let may = eligible.iter().filter(|name| !barred.bars(name));
    let have = u32::try_from(may.count()).unwrap_or(u32::MAX);
    (have < need).then(|| QuorumShortfall {
        need,
        have,
        barred: barred.clone(),
    })
}

/// Looks up who may decide what is asked so, and by whom never. Where one is enough and nobody is
/// barred, an owner always can.
pub(crate) fn lookup(
    spec: &HoldSpec,
    barred: &Barred,
    context: &DecisionContext<'_>,
) -> Result<Option<QuorumShortfall>, Undecided> {
    let need = match spec.kind {
        HoldKind::Timer => return Ok(None),
        HoldKind::Approval => spec.policy.need.max(1),
        HoldKind::Input | HoldKind::Handoff => 1,
    };
    if need == 1 && barred.is_empty() {
        return Ok(None);
    }
    let eligible = audience::eligible(&spec.to, context)?;
    Ok(eligible.and_then(|eligible| shortfall(need, &eligible, barred)))
}

impl QuorumShortfall {
    /// What is wrong.
    pub(crate) fn what(&self) -> String {
        let but = if self.barred.is_empty() {
            String::new()
        } else {
            let names = self.barred.names();
            format!(" but `{names}`, who wants it and is barred by `not_requester`")
        };
        match (self.need, self.have) {
            (1, _) => format!("nobody may decide it{but}"),
            (need, 0) => format!("it needs {need} approvals, and nobody may give one{but}"),
            (need, have) => format!(
                "it needs {need} approvals, and only {have} may give one, owners and operators \
                 among them{but}"
            ),
        }
    }

    /// What is wrong, where, and how to mend it.
    pub(crate) fn fault(&self, is_by_policy: bool) -> FieldError {
        let (pointer, mend) = match self.need {
            1 => ("/spec/policy/not_requester", "leave it out"),
            _ => ("/spec/policy/need", "need fewer"),
        };
        let (pointer, mend) = match is_by_policy {
            true => ("/spec/policies", "name another policy"),
            false => (pointer, mend),
        };
        let what = self.what();
        FieldError::at(pointer, format!("{what}: put it to more people, or {mend}"))
    }
}
