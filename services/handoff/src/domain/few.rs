//! Whether as many people may decide a request as must agree. What nobody can decide is not opened; where
//! a run asks it, the owners are told.

use std::collections::BTreeSet;

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::UserName;

use super::{Scene, Stop, audience};

/// Fewer people may decide it than must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few {
    need: u32,
    have: u32,
    /// Who is not counted.
    never: Option<String>,
}

/// The rule: whoever may decide it, but whoever never may, are fewer than must agree.
fn few(need: u32, crowd: &BTreeSet<UserName>, never: Option<&str>) -> Option<Few> {
    let may = crowd.iter().filter(|name| never != Some(name.as_str()));
    let have = u32::try_from(may.count()).unwrap_or(u32::MAX);
    (have < need).then(|| Few {
        need,
        have,
        never: never.map(str::to_owned),
    })
}

/// Looks up who may decide what is asked so, and by whom never. Where one is enough and nobody is
/// barred, an owner always can.
pub(crate) fn look(
    spec: &HoldSpec,
    never: Option<&str>,
    scene: &Scene<'_>,
) -> Result<Option<Few>, Stop> {
    let need = match spec.kind {
        HoldKind::Timer => return Ok(None),
        HoldKind::Approval => spec.policy.need.max(1),
        HoldKind::Input | HoldKind::Handoff => 1,
    };
    if need == 1 && never.is_none() {
        return Ok(None);
    }
    let crowd = audience::crowd(&spec.to, scene)?;
    Ok(crowd.and_then(|crowd| few(need, &crowd, never)))
}

impl Few {
    /// What is wrong.
    pub(crate) fn what(&self) -> String {
        let never = self.never.as_deref();
        let but = never.map_or_else(String::new, |name| {
            format!(" but `{name}`, who wants it and is barred by `not_requester`")
        });
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
