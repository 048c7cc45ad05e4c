//! The fan-out of a step with `for_each`: one child per item.
//!
//! Children in progress are steps of their run, after the steps of the plan. A child that has not begun and one that
//! has ended cost nothing but the numbers here.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::domain::model::is_default;
use crate::domain::model::plan::Action;

/// Most items of a fan-out.
pub const ITEMS_MAX: usize = 10_000;

/// Most items about which people are asked: the state of the run names each item that a person did.
pub const PEOPLE_ITEMS_MAX: usize = 1_000;

/// Most items of `for_each` of a step that does this.
#[must_use]
pub const fn items_max(action: &Action) -> usize {
    match action {
        Action::Ask(_) | Action::Handoff(_) => PEOPLE_ITEMS_MAX,
        Action::Tool { .. }
        | Action::Wait { .. }
        | Action::WaitUntil(_)
        | Action::WaitFor(_)
        | Action::Run(_)
        | Action::Finish(_) => ITEMS_MAX,
    }
}

/// Most items of all fan-outs of one run: all their children may fail in one decision.
pub const RUN_ITEMS_MAX: usize = 50_000;

/// Most children of one run that are in progress at the same time, over all its fan-outs.
pub const PARALLEL_MAX: u32 = 100;

/// Children in progress, if the author names no number.
pub const PARALLEL_DEFAULT: u32 = 10;

/// Items that are stored in one value.
pub const ITEMS_PER_VALUE: u32 = 100;

/// The progress of a fan-out. It outlives the phase of its step, so that a retry of the run continues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOut {
    pub since: DateTime<Utc>,
    pub total: u32,
    /// SHA-256 of the items. What people did for an item counts for the same list only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub digest: String,
    /// The first item whose child has not begun. Children begin in the order of the items.
    pub next: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub completed: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub skipped: u32,
    /// Bytes of JSON of the results so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result_bytes: u64,
    /// Highest dispatch of a child that has ended. Children that begin anew count from here, so that no report of an
    /// earlier dispatch applies to them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fence: u64,
    /// How often a retry of the run has begun it anew. From the first time on, results of earlier items may be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub renewals: u32,
    /// Items that people did by hand: a retry from an earlier step keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_person: Vec<KeptItem>,
    /// A retry of the run has given it up: the step begins again with fresh items.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_given_up: bool,
}

/// An item whose result came from a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptItem {
    pub item: u32,
    pub result_bytes: u64,
}

/// Which item a child is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildOf {
    /// Index of the step with `for_each`, in the plan and in the run.
    pub parent: usize,
    /// From 0.
    pub item: u32,
    /// Bytes of JSON of its result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result_bytes: u64,
    /// The fan-out has counted its end. It is removed at the end of the decision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_counted: bool,
}

impl ChildOf {
    #[must_use]
    pub const fn new(parent: usize, item: u32) -> Self {
        Self {
            parent,
            item,
            result_bytes: 0,
            is_counted: false,
        }
    }
}

impl FanOut {
    #[must_use]
    pub const fn new(since: DateTime<Utc>, total: u32, digest: String) -> Self {
        Self {
            since,
            total,
            digest,
            next: 0,
            completed: 0,
            failed: 0,
            skipped: 0,
            result_bytes: 0,
            fence: 0,
            renewals: 0,
            by_person: Vec::new(),
            is_given_up: false,
        }
    }

    /// Children that have ended and were counted.
    #[must_use]
    pub const fn ended(&self) -> u32 {
        self.completed
            .saturating_add(self.failed)
            .saturating_add(self.skipped)
    }

    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended() >= self.total
    }

    /// A fan-out of new items. It keeps what fences the old ones, and what people did if the items are the same.
    #[must_use]
    pub fn renewed(&self, since: DateTime<Utc>, total: u32, digest: String) -> Self {
        let is_same = self.digest == digest;
        Self {
            fence: self.fence,
            renewals: self.renewals + 1,
            by_person: if is_same {
                self.by_person.clone()
            } else {
                Vec::new()
            },
            ..Self::new(since, total, digest)
        }
    }

    /// Bytes of JSON of all results in one array. A child without a result is `null`.
    #[must_use]
    pub const fn all_result_bytes(&self) -> u64 {
        let without = self.failed as u64 + self.skipped as u64;
        let commas = (self.total as u64).saturating_sub(1);
        self.result_bytes.saturating_add(without * 4 + commas + 2)
    }

    /// Begins the next item; none: all have begun. What people did by hand is not begun again.
    pub fn take_next(&mut self) -> Option<u32> {
        while self.next < self.total {
            let item = self.next;
            self.next += 1;
            let Some(kept) = self.by_person.iter().find(|kept| kept.item == item) else {
                return Some(item);
            };
            self.completed += 1;
            self.result_bytes = self.result_bytes.saturating_add(kept.result_bytes);
        }
        None
    }
}

/// Id of the child of an item.
#[must_use]
pub fn child_id(parent: &str, item: u32) -> String {
    format!("{parent}-{item}")
}

/// Name of the value with some items of a fan-out. No step can have this name.
#[must_use]
pub fn items_name(parent: &str, chunk: u32) -> String {
    format!("?items-{parent}-{chunk}")
}

/// Name of the value with the approval of a child that has ended. No step can have this name.
#[must_use]
pub fn approval_name(child: &str) -> String {
    format!("?approval-{child}")
}

/// The item that an id names, if it is an id of a child of this step.
#[must_use]
pub fn item_of(id: &str, parent: &str) -> Option<u32> {
    let digits = id.strip_prefix(parent)?.strip_prefix('-')?;
    let item = digits.parse().ok()?;
    (child_id(parent, item) == id).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2-R9: only the id that a fan-out would give is the id of a child.
    #[test]
    fn an_id_names_one_item() {
        assert_eq!(item_of("step-02-0", "step-02"), Some(0));
        assert_eq!(item_of("step-02-9999", "step-02"), Some(9_999));
        for other in [
            "step-02",
            "step-02-",
            "step-02-01",
            "step-02-+1",
            "step-03-0",
            "step-02-0-0",
        ] {
            assert_eq!(item_of(other, "step-02"), None, "{other}");
        }
    }
}
