//! Users who may not decide a request.

use holdpoint_contracts::hold::HoldSpec;
use holdpoint_ids::UserName;

/// Under `not_requester`, the requester and the openers of a request. With only one of the two
/// excluded, a caller would name another requester and decide their own request (A-H5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExcludedDeciders(Vec<String>);

impl ExcludedDeciders {
    /// The requester and the openers of a hold; empty if its policy does not exclude them.
    pub(crate) fn of<'n>(spec: &'n HoldSpec, openers: impl IntoIterator<Item = &'n str>) -> Self {
        if !spec.policy.not_requester {
            return Self::default();
        }
        let mut names: Vec<String> = Vec::new();
        for name in spec.requester.as_deref().into_iter().chain(openers) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    pub(crate) fn contains(&self, name: &UserName) -> bool {
        self.0.iter().any(|excluded| excluded == name.as_str())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> String {
        self.0.join("` and `")
    }
}
