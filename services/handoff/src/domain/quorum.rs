//! Whether as many people may decide a request as must agree. What nobody can decide is not opened; where
//! a run asks it, the owners are told.

use std::collections::BTreeSet;

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::audience::{self, Barred};
use super::{Scene, Stop};

/// Fewer people may decide it than must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few {
    need: u32,
    have: u32,
    /// Who is not counted.
    barred: Barred,
}

/// The rule: whoever may decide it, but whoever never may, are fewer than must agree.
fn few(need: u32, crowd: &BTreeSet<UserName>, barred: &Barred) -> Option<Few> {
    let may = crowd.iter().filter(|name| !barred.bars(name));
    let have = u32::try_from(may.count()).unwrap_or(u32::MAX);
    (have < need).then(|| Few {
        need,
        have,
        barred: barred.clone(),
    })
}

/// Looks up who may decide what is asked so, and by whom never. Where one is enough and nobody is
/// barred, an owner always can.
pub(crate) fn look(
    spec: &HoldSpec,
    barred: &Barred,
    scene: &Scene<'_>,
) -> Result<Option<Few>, Stop> {
    let need = match spec.kind {
        HoldKind::Timer => return Ok(None),
        HoldKind::Approval => spec.policy.need.max(1),
        HoldKind::Input | HoldKind::Handoff => 1,
    };
    if need == 1 && barred.is_empty() {
        return Ok(None);
    }
    let crowd = audience::crowd(&spec.to, scene)?;
    Ok(crowd.and_then(|crowd| few(need, &crowd, barred)))
}

impl Few {
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
