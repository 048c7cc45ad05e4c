//! A compiled agent, which its runs execute.
//!
//! Owns the stored form of a plan: once made it never changes, and its JSON is stable, so that a
//! run goes on with the plan that it started with. It must never hold anything that is not
//! decided when the plan is made (S0-AC8: what is wrong is refused here and not at wake).

pub mod for_each;
pub mod inputs;
pub mod limits;
pub mod on_error;
pub mod person_steps;
pub mod planner;
pub mod retry;
pub mod run_steps;
pub mod signal_steps;
pub mod wait_until;

pub use for_each::ForEach;
pub use inputs::Inputs;
pub use limits::Limits;
pub use on_error::OnError;
pub use planner::Planner;
pub use retry::Retry;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdpoint_calendar::WorkingDays;
use holdpoint_contracts::duration;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::domain::expression;
use crate::domain::expression::{NamedPaths, Names, Reference, StepPaths};
use crate::domain::model::plan::person_steps::{ApprovalRule, Ask, Handoff, whom, written};
use crate::domain::model::plan::run_steps::RunStep;
use crate::domain::model::plan::signal_steps::{Finish, WaitFor, signal_text};
use crate::domain::model::plan::wait_until::WaitUntil;
use crate::domain::text::cut;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub agent: String,
    /// What it is for, in its author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What a pause does to runs that wait.
    #[serde(default)]
    pub on_pause: OnPause,
    /// The inputs that a run needs at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub limits: Limits,
    /// The days that count in waits of business days.
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub working_days: WorkingDays,
    /// A tool makes the steps of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<Box<Planner>>,
    /// Each step in plain words, for people; empty where the grammar has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// The steps in the order they were written; at least one.
    pub steps: Vec<PlannedStep>,
}

/// What a pause of the agent does to its runs in a wait.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OnPause {
    /// The wait is kept, and goes on at resume.
    #[default]
    Hold,
    /// The runs that wait are cancelled.
    Cancel,
}

/// One step of a plan. Its id is the same in plan, log, event and row (S2-R1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// `step-01`, or the name its author gave it; unique in the plan.
    pub id: String,
    /// Indexes of the steps that must be final before, ascending; empty: nothing.
    pub needs: Vec<usize>,
    /// CEL; without it the step is always done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How long a claim may be silent, in milliseconds; without it the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_timeout_ms: Option<u64>,
    /// The author wants an approval, whatever the risk of the tool (S2-R3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<ApprovalRule>>,
    /// Longest time of one attempt of a tool, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When a failed tool is called again; without it the default of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What its failure does to the run.
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub on_error: OnError,
    /// The step is done once for each item (S2-R9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Box<ForEach>>,
    pub action: Action,
}

#[cfg_attr(test, derive(strum::IntoStaticStr, strum::VariantNames))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    Tool {
        tool: String,
        /// Its arguments with placeholders as they were written; always an object.
        args: Value,
    },
    Wait {
        /// From 1 s to 90 days, in milliseconds.
        duration_ms: u64,
    },
    /// Waits until an instant that is known when it starts.
    WaitUntil(Box<WaitUntil>),
    /// Waits for a signal.
    WaitFor(WaitFor),
    /// Asks people a question (S3-R1).
    Ask(Box<Ask>),
    /// Hands the run to people for a while (S0-AC6).
    Handoff(Box<Handoff>),
    /// Starts runs of other agents.
    Run(Box<RunStep>),
    /// Ends the run.
    Finish(Finish),
}

impl Action {
    /// `tool`, `wait`, `wait_for`, `ask`, `handoff`, `run` or `finish`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tool { .. } => "tool",
            Self::Wait { .. } | Self::WaitUntil(_) => "wait",
            Self::WaitFor(_) => "wait_for",
            Self::Ask(_) => "ask",
            Self::Handoff(_) => "handoff",
            Self::Run(_) => "run",
            Self::Finish(_) => "finish",
        }
    }

    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        if let Self::Tool { tool, .. } = self {
            Some(tool)
        } else {
            None
        }
    }

    /// Whether the row of such a step has a request.
    #[must_use]
    pub const fn has_request(&self) -> bool {
        match self {
            Self::Tool { .. } | Self::Ask(_) | Self::Handoff(_) | Self::Run(_) => true,
            Self::Wait { .. } | Self::WaitUntil(_) | Self::WaitFor(_) | Self::Finish(_) => false,
        }
    }

    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Tool { tool, .. } => format!("Call {tool}"),
            Self::Wait { duration_ms } => {
                format!(
                    "Wait {}",
                    duration::describe(Duration::from_millis(*duration_ms))
                )
            }
            Self::WaitUntil(wait) => wait.describe(),
            Self::WaitFor(wait) => {
                let longest = duration::describe(Duration::from_millis(wait.timeout_ms));
                format!("Wait for {}, at most {longest}", signal_text(&wait.signal))
            }
            Self::Ask(ask) => ask.describe(&ask.question),
            Self::Handoff(handoff) => format!("Hand off to {}", written(&handoff.to)),
            Self::Run(run) => run.describe(),
            Self::Finish(finish) => format!("End the run: {}", cut(&finish.summary, 100)),
        }
    }

    /// The same with the values of the step's request: a template says little to a reader.
    #[must_use]
    pub fn describe_resolved(&self, request: Option<&Value>) -> String {
        let question = request.and_then(|request| request.get("question")?.as_str());
        if let (Self::Ask(ask), Some(question)) = (self, question) {
            return ask.describe(question);
        }
        self.describe()
    }

    /// Everything of it that may hold placeholders; none: nothing may.
    #[must_use]
    pub fn template(&self) -> Option<Cow<'_, Value>> {
        match self {
            Self::Tool { args, .. } => Some(Cow::Borrowed(args)),
            Self::Wait { .. } | Self::WaitFor(_) => None,
            Self::WaitUntil(wait) => Some(Cow::Owned(wait.template())),
            Self::Run(run) => Some(Cow::Owned(run.template())),
            Self::Finish(finish) => Some(Cow::Owned(finish.template())),
            Self::Ask(ask) => Some(Cow::Owned(ask.template())),
            Self::Handoff(handoff) => Some(Cow::Owned(handoff.template())),
        }
    }
}

/// A step, or one of its children: a step with `for_each` has other expressions than they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPart {
    /// By index in the plan.
    Step(usize),
    /// A child of the step with this index.
    Child(usize),
}

impl StepPart {
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Step(index) | Self::Child(index) => index,
        }
    }
}

impl PlannedStep {
    /// One line for people, with all that decides whether and how often it is done.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = self.describe_calls();
        if let Action::Handoff(handoff) = &self.action
            && handoff.warm_lead == Some(true)
        {
            text.push_str(" as warm lead");
        }
        if let Some(approval) = &self.approval {
            text = format!("{text}, after approval by {}", whom(&approval.from));
        }
        if let Some(timeout_ms) = self.timeout_ms {
            let timeout = duration::describe(Duration::from_millis(timeout_ms));
            text = format!("{text}, timeout {timeout}");
        }
        if let Some(retry) = &self.retry {
            text = format!("{text}, at most {} attempts", retry.attempts);
        }
        if self.on_error != OnError::default() {
            let on_error = self.on_error.into_str();
            text = format!("{text}, on error {}", on_error.replace('_', " "));
        }
        text
    }

    fn describe_calls(&self) -> String {
        let action = self.action.describe();
        match self.for_each.as_deref() {
            Some(ForEach { items, parallel }) => {
                let items = match items {
                    Value::Array(items) => format!("{} items", items.len()),
                    Value::String(text) => text.clone(),
                    other
                    @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                        other.to_string()
                    }
                };
                format!("{action} for each of {items}, {parallel} at a time")
            }
            None => action,
        }
    }

    /// Whether it is done by children, so that it calls nothing itself.
    #[must_use]
    pub const fn fans_out(&self, part: StepPart) -> bool {
        self.for_each.is_some() && matches!(part, StepPart::Step(_))
    }

    /// Everything that may hold placeholders when the step or a child of it starts; none: nothing.
    #[must_use]
    pub fn template(&self, part: StepPart) -> Option<Cow<'_, Value>> {
        match (&self.for_each, part) {
            (Some(for_each), StepPart::Step(_)) => Some(Cow::Borrowed(&for_each.items)),
            (Some(_), StepPart::Child(_)) | (None, _) => self.action.template(),
        }
    }
}

impl Plan {
    /// SHA-256, as hex, of the plan's JSON with sorted keys, and of the fields of its forms in the
    /// author's order: two plans with the same digest do the same and ask in the same order, so
    /// applying an unchanged agent makes no new version.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        // Other words for the same steps are the same plan.
        if let Value::Object(plan) = &mut json {
            plan.shift_remove("words");
        }
        let mut canonical = String::new();
        write_canonical(&json, &mut canonical);
        for form in self.forms() {
            let properties = form.get("properties").and_then(Value::as_object);
            let names: Vec<_> = properties.into_iter().flat_map(Map::keys).collect();
            canonical.push_str(&json!(names).to_string());
        }
        format!("{:x}", Sha256::digest(canonical.as_bytes()))
    }

    /// The forms that people fill in, as the author wrote them.
    fn forms(&self) -> impl Iterator<Item = &Value> {
        let asked = self.steps.iter().filter_map(|step| {
            if let Action::Ask(ask) = &step.action {
                ask.schema.as_ref()
            } else {
                None
            }
        });
        let inputs = self.inputs.iter().map(|inputs| &inputs.schema);
        inputs.chain(asked)
    }

    /// What must be loaded to do a step: all that its condition and arguments name. Empty for a step that the plan does
    /// not have.
    #[must_use]
    pub fn references(&self, part: StepPart) -> BTreeSet<Reference> {
        let Some(step) = self.steps.get(part.index()) else {
            return BTreeSet::new();
        };
        let steps = self.indexes();
        let names = Names {
            steps: &steps,
            before: None,
            has_item: step.for_each.is_some(),
        };
        let mut found = match step.template(part) {
            Some(template) => expression::check_args(&template, names).references,
            None => BTreeSet::new(),
        };
        // The context of a handoff contains the contact (S0-T2).
        if matches!(step.action, Action::Handoff(_)) {
            found.insert(Reference::Contact);
        }
        if let (StepPart::Step(_), Some(when)) = (part, &step.when) {
            found.extend(expression::check(when, names).unwrap_or_default());
        }
        found
    }

    /// The steps whose results the arguments of a step use.
    #[must_use]
    pub fn results_used(&self, part: StepPart) -> BTreeSet<String> {
        self.ids_of(self.arg_references(part, &self.indexes()))
    }

    /// For each step, the indexes of those whose results its arguments use and its condition does not name.
    #[must_use]
    pub fn unguarded_results(&self) -> Vec<BTreeSet<usize>> {
        let steps = self.indexes();
        let names = all_names(&steps);
        let all = self.steps.iter().enumerate().map(|(index, step)| {
            let mut used = self.arg_references(StepPart::Step(index), &steps);
            if step.for_each.is_some() {
                used.extend(self.arg_references(StepPart::Child(index), &steps));
            }
            let when = step.when.as_deref();
            let guards = when.and_then(|when| expression::check(when, names).ok());
            let guards = guards.unwrap_or_default();
            let unguarded = used.difference(&guards).copied();
            unguarded.filter_map(Reference::try_as_step).collect()
        });
        all.collect()
    }

    /// For each step, the paths that its condition, items and arguments name.
    #[must_use]
    pub fn named_paths(&self) -> Vec<StepPaths> {
        let steps = self.indexes();
        let names = all_names(&steps);
        let all = self.steps.iter().enumerate().map(|(index, step)| {
            let when = step.when.as_deref();
            let mut paths =
                when.map_or_else(NamedPaths::default, |it| expression::named_paths(it, names));
            let child = step.for_each.is_some().then_some(StepPart::Child(index));
            for part in [StepPart::Step(index)].into_iter().chain(child) {
                if let Some(template) = step.template(part) {
                    paths.extend(expression::check_args(&template, names).paths);
                }
            }
            paths.into_step_paths()
        });
        all.collect()
    }

    fn arg_references(
        &self,
        part: StepPart,
        steps: &BTreeMap<String, usize>,
    ) -> BTreeSet<Reference> {
        let step = self.steps.get(part.index());
        let Some(template) = step.and_then(|step| step.template(part)) else {
            return BTreeSet::new();
        };
        expression::check_args(&template, all_names(steps)).references
    }

    fn indexes(&self) -> BTreeMap<String, usize> {
        let ids = self.steps.iter().enumerate();
        ids.map(|(at, step)| (step.id.clone(), at)).collect()
    }

    /// The ids of the steps among references.
    pub(in crate::domain) fn ids_of(
        &self,
        references: impl IntoIterator<Item = Reference>,
    ) -> BTreeSet<String> {
        let indexes = references.into_iter().filter_map(Reference::try_as_step);
        let steps = indexes.filter_map(|at| self.steps.get(at));
        steps.map(|step| step.id.clone()).collect()
    }
}

/// All that an expression of a compiled plan may name.
const fn all_names(steps: &BTreeMap<String, usize>) -> Names<'_> {
    Names {
        steps,
        before: None,
        has_item: true,
    }
}

/// JSON without spaces and with the keys of every object in order.
pub(in crate::domain) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            out.push('{');
            for (at, (key, field)) in sorted.into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(field, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
