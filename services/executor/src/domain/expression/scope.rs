//! What an expression can see, and its limits.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Longest condition or `{{ }}`, in characters. Longer is refused when the plan is made.
pub const MAX_LENGTH: usize = 2_048;

/// The result of a step that has none.
static NULL: Value = Value::Null;

/// Deepest nesting of brackets in a condition or `{{ }}`; counted before the parser sees it.
pub const MAX_DEPTH: usize = 16;

/// What an expression needs to be loaded before it can be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::EnumTryAs)]
pub enum Reference {
    /// The result of the step with this index in the plan.
    Step(usize),
    Input,
    /// The contact of the run, as it is now.
    Contact,
    /// The item of a child of a step with `for_each`.
    Item,
    /// The run itself: `id`, `agent`, `started_at`, and what an operator handed back, `intervention`.
    Run,
}

/// What a run knows at the moment an expression is evaluated.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    /// `input`: what the run was started with.
    pub input: &'a Value,
    /// `contact`, if the run has one; looked up when the step starts, never remembered.
    pub contact: Option<&'a Value>,
    /// `run`: `{id, agent, started_at, intervention}`.
    pub run: &'a Value,
    /// `item`, in a child of a step with `for_each`.
    pub item: Option<&'a Value>,
    /// Result data of the steps that have some, by step id.
    pub steps: BTreeMap<String, Value>,
    /// Step ids that exist in the plan, with or without a result: what tells the placeholder
    /// `$find.x` of a skipped step from plain text. Each of them has ended. See `PlanFact::ids_for`.
    pub ids: BTreeSet<String>,
}

impl Scope<'_> {
    pub(super) fn knows(&self, id: &str) -> bool {
        self.ids.contains(id) || self.steps.contains_key(id)
    }

    /// Whether a name is a step that was skipped, or that failed and let the run go on. It reads as null, and so
    /// does every path below it.
    pub(super) fn has_no_result(&self, name: &str) -> bool {
        self.ids.contains(name) && !self.steps.contains_key(name)
    }

    pub(super) fn root(&self, name: &str) -> Option<&Value> {
        match name {
            "input" => Some(self.input),
            "contact" => self.contact,
            "run" => Some(self.run),
            "item" => self.item,
            step => {
                let result = self.steps.get(step);
                result.or_else(|| self.ids.contains(step).then_some(&NULL))
            }
        }
    }
}
