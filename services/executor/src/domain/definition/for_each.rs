//! What a step says about its items: `for_each` and `parallel`.
//!
//! Owns these fields, and that no step has the id of a child. It must never look at values: an array that comes from
//! a placeholder is checked when the step starts.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::problem::FieldError;
use serde_json::{Map, Value};

use super::diagnostics::{AgentChecker, MAX_NAME, shown};
use super::step::{Draft, StepReader};
use crate::domain::expression::{diagnostic, is_placeholder};
use crate::domain::model::plan::ForEach;
use crate::domain::model::run::fan_out::{PARALLEL_DEFAULT, PARALLEL_MAX, child_id, item_of};

/// Longest id of a step with `for_each`: the ids of its children have the number of an item.
const ID_CHARS_MAX: usize = MAX_NAME - 5;

/// Most steps with `for_each` of an agent: the first decision of a run may store the items of all of them.
const STEPS_MAX: usize = 50;

impl StepReader<'_, '_> {
    /// Reads `for_each` and `parallel`; none: it is not written, or it was refused.
    pub(super) fn for_each(&mut self, step: &Map<String, Value>) -> Option<ForEach> {
        let Some(items) = step.get("for_each") else {
            if let Some(parallel) = step.get("parallel") {
                let message = "`parallel` belongs to a step with `for_each`.";
                return self.refuse("parallel", parallel, message);
            }
            return None;
        };
        let kind = Self::other_kind(step);
        if let Some(kind) = kind.filter(|kind| !["ask", "handoff"].contains(kind)) {
            let message = format!(
                "`for_each` belongs to a `tool`, an `ask` or a `handoff`; a `{kind}` has none."
            );
            self.report("for_each", diagnostic("for_each", message));
            return None;
        }
        let parallel = match step.get("parallel") {
            None => PARALLEL_DEFAULT,
            Some(value) => {
                let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
                match number.filter(|number| (1..=PARALLEL_MAX).contains(number)) {
                    Some(number) => number,
                    None => {
                        let message =
                            format!("`parallel` is a whole number from 1 to {PARALLEL_MAX}.");
                        return self.refuse("parallel", value, message);
                    }
                }
            }
        };
        Some(ForEach {
            items: items.clone(),
            parallel,
        })
    }
}

/// What is wrong with the items as they are written, if anything is.
pub(super) fn items_error(
    items: &Value,
    most: usize,
    steps: &BTreeMap<String, usize>,
) -> Option<FieldError> {
    let message = match items {
        Value::String(text) if is_placeholder(text, steps) => return None,
        Value::Array(items) if items.len() <= most => return None,
        Value::Array(items) => {
            let count = items.len();
            format!("`for_each` has at most {most} items here; this list has {count}.")
        }
        _ => "`for_each` is one placeholder, such as `$step-01.orders` or `{{ input.names }}`, or a list.".to_owned(),
    };
    Some(diagnostic(&shown(items), message))
}

impl AgentChecker<'_> {
    /// A child is named after its step and item, and no other step may have that name.
    pub(super) fn child_ids(&mut self, drafts: &[Draft]) {
        let parents = drafts.iter().enumerate();
        let parents: Vec<_> = parents
            .filter(|(_, draft)| draft.for_each.is_some())
            .collect();
        if let Some((at, parent)) = parents.get(STEPS_MAX) {
            let message = format!("An agent has at most {STEPS_MAX} steps with `for_each`.");
            self.report_step((*at, &parent.id), "for_each", diagnostic("", message));
        }
        for (at, parent) in &parents {
            if parent.id.len() > ID_CHARS_MAX {
                let message = format!(
                    "The id of a step with `for_each` has at most {ID_CHARS_MAX} characters."
                );
                self.report_step((*at, &parent.id), "id", diagnostic(&parent.id, message));
            }
        }
        let ids: BTreeSet<&str> = parents
            .iter()
            .map(|(_, parent)| parent.id.as_str())
            .collect();
        for (at, draft) in drafts.iter().enumerate() {
            let id = &draft.id;
            let parent = id.rsplit_once('-').map(|(parent, _)| parent);
            let Some(parent) = parent.filter(|parent| ids.contains(parent)) else {
                continue;
            };
            if item_of(id, parent).is_some() {
                let first = child_id(parent, 0);
                let message = format!(
                    "The children of `{parent}` have ids such as `{first}`; use another id than `{id}`."
                );
                self.report_step((at, id), "id", diagnostic(id, message));
            }
        }
    }
}
