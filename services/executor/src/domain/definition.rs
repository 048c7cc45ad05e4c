//! An agent as its author writes it, and everything that can be wrong with it.
//!
//! Owns the fields and step kinds this release knows, the ones that are documented and still to
//! come, and the errors that are answered (422 `invalid_agent`). It must never stop at the first
//! error: an author mends a file in one go. It must never guess what was meant either.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON and CEL values are not ours: what is not named here is refused or kept as it is"
)]

mod approval;
mod calendar;
mod diagnostics;
mod fields;
mod for_each;
mod graph;
mod instructions;
mod library;
mod limits;
mod lines;
mod mails;
pub(in crate::domain) mod people;
mod planner;
pub(crate) mod read;
mod run_steps;
pub(in crate::domain) mod signal_steps;
mod step;
mod templates;
mod tool_failures;
mod wait_steps;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::domain::expression::{self, Names, diagnostic};
use crate::domain::model::library::Library;
use crate::domain::model::plan::{Action, Inputs, OnPause, Plan, PlannedStep};
use crate::domain::model::run::fan_out::{ITEMS_MAX, items_max};
use step::Draft;

pub(crate) use diagnostics::is_name;
use diagnostics::{AgentChecker, Place, shown};
pub(crate) use library::library_entry_errors;

pub use diagnostics::{MAX_NAME, MAX_STEPS, MAX_TEXT};

/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 2_000;
/// Most placeholders of an agent: each is compiled when the agent is applied, which all others wait for.
const MAX_AGENT_PLACEHOLDERS: usize = 5_000;

impl Plan {
    /// Reads an agent, YAML or JSON, and compiles it with the templates and calendars of its workspace.
    ///
    /// # Errors
    /// Every error that was found (422 `invalid_agent`), in the order of the text; at most 100 and one that
    /// counts the rest.
    pub fn compile_with(text: &str, library: Option<&Library>) -> Result<Self, Vec<FieldError>> {
        let fields = read::agent(text).map_err(|error| vec![*error])?;
        let mut checker = AgentChecker {
            library,
            ..AgentChecker::new(text)
        };
        let plan = checker.agent(&fields);
        match plan {
            Some(plan) if checker.errors.is_empty() => Ok(plan),
            Some(_) | None => Err(checker.answer()),
        }
    }
}

#[cfg(test)]
impl Plan {
    pub fn compile(text: &str) -> Result<Self, Vec<FieldError>> {
        Self::compile_with(text, None)
    }
}

impl AgentChecker<'_> {
    fn agent(&mut self, fields: &Map<String, Value>) -> Option<Plan> {
        for name in fields.keys() {
            if self.is_full() {
                break;
            }
            if let Some(diagnostic) = fields::agent_field(name) {
                self.report(Place::Agent(Some(name)), diagnostic);
            }
        }
        let agent = self.name(fields);
        let description = self.description(fields.get("description"));
        let on_pause = self.on_pause(fields.get("on_pause"));
        let inputs = self.inputs(fields);
        let limits = self.limits(fields.get("limits"));
        // Before the steps: its time zone is the default of their waits.
        let calendar = fields.get("calendar").filter(|value| !value.is_null());
        let calendar = self.calendar_value(calendar);
        let working_days = self.calendar(calendar);
        self.mails = self.read_templates(fields.get("templates"));
        let planner = fields.get("planner").filter(|planner| !planner.is_null());
        let (written, planner) = match planner {
            Some(planner) => {
                let (written, planner) = self.planner_steps(fields, planner, calendar)?;
                (written, Some(Box::new(planner)))
            }
            None => {
                let written = self.written_steps(fields)?;
                self.refuse_start_plan(&written.steps);
                (written, None)
            }
        };
        let steps = written.steps.iter().enumerate();
        let drafts: Vec<Draft> = steps.map(|(at, step)| self.draft(at, step)).collect();
        self.refuse_own_runs(agent.as_deref(), &drafts);
        let steps = self.steps(drafts);
        self.check_business_days(&working_days, &steps);
        Some(Plan {
            agent: agent?,
            description,
            on_pause,
            inputs,
            limits,
            working_days,
            planner,
            words: written.words,
            steps,
        })
    }

    fn name(&mut self, fields: &Map<String, Value>) -> Option<String> {
        let (text, message) = match fields.get("agent") {
            Some(Value::String(name)) if is_name(name) => return Some(name.clone()),
            Some(other) => (
                shown(other),
                "The name of an agent has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit.",
            ),
            None => ("agent".to_owned(), "An agent needs a name: `agent: NAME`."),
        };
        self.report_field("agent", &text, message);
        None
    }

    fn description(&mut self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::Null => None,
            Value::String(text) if text.chars().count() <= MAX_DESCRIPTION => Some(text.clone()),
            other => {
                let message =
                    format!("`description` is a text of at most {MAX_DESCRIPTION} characters.");
                self.report_field("description", &shown(other), message);
                None
            }
        }
    }

    fn on_pause(&mut self, value: Option<&Value>) -> OnPause {
        let Some(value) = value else {
            return OnPause::default();
        };
        OnPause::deserialize(value).unwrap_or_else(|_unknown_word| {
            let text = shown(value);
            let error = FieldError {
                nearest: nearest(&text, ["hold", "cancel"].into_iter()),
                ..diagnostic(&text, "`on_pause` is `hold` or `cancel`.")
            };
            self.report(Place::Agent(Some("on_pause")), error);
            OnPause::default()
        })
    }

    /// S2-R12, S2-R16: a flat form, and whether missing inputs are asked for.
    fn inputs(&mut self, fields: &Map<String, Value>) -> Option<Inputs> {
        let ask_field = "ask_missing_inputs";
        let ask = match fields.get(ask_field) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(ask)) => *ask,
            Some(other) => {
                let message = "`ask_missing_inputs` is true or false.";
                self.report_field(ask_field, &shown(other), message);
                true
            }
        };
        let schema = fields.get("inputs").filter(|schema| !schema.is_null());
        let Some(schema) = schema else {
            if fields.contains_key(ask_field) {
                let message = "`ask_missing_inputs` is about `inputs`, and there are none.";
                self.report_field(ask_field, ask_field, message);
            }
            return None;
        };
        if let Some(error) = people::form_error(schema) {
            self.report_field("inputs", &shown(schema), format!("`inputs`: {error}"));
            return None;
        }
        Some(Inputs {
            schema: schema.clone(),
            ask,
        })
    }

    /// Puts the steps together: ids to indexes, order, and all that expressions name.
    fn steps(&mut self, drafts: Vec<Draft>) -> Vec<PlannedStep> {
        let mut ids = self.unique_ids(&drafts);
        self.child_ids(&drafts);
        let needs = self.needs(&drafts, &ids);
        let before = match graph::before(&needs) {
            Ok(before) => Some(before),
            Err(circle) => {
                self.circle(&circle, &drafts);
                None
            }
        };
        // A plan names none of the agent's own steps: they may run again, and then have another result. They are checked
        // already.
        ids.retain(|_, at| *at >= self.planner_steps);
        for (at, draft) in drafts.iter().enumerate().skip(self.planner_steps) {
            if self.is_full() {
                break;
            }
            // Without an order only the names can be checked.
            let before = before.as_ref().and_then(|rows| rows.get(at));
            let names = Names {
                steps: &ids,
                before: before.map(Vec::as_slice),
                has_item: false,
            };
            self.expressions(at, draft, names);
        }
        drafts
            .into_iter()
            .zip(needs)
            .filter_map(|(draft, needs)| {
                Some(PlannedStep {
                    id: draft.id,
                    needs,
                    when: draft.when,
                    claim_timeout_ms: draft.claim_timeout_ms,
                    approval: draft.approval.map(Box::new),
                    timeout_ms: draft.timeout_ms,
                    retry: draft.retry,
                    on_error: draft.on_error,
                    for_each: draft.for_each.map(Box::new),
                    action: draft.action?,
                })
            })
            .collect()
    }

    fn unique_ids(&mut self, drafts: &[Draft]) -> BTreeMap<String, usize> {
        let mut ids = BTreeMap::new();
        for (at, draft) in drafts.iter().enumerate() {
            let id = &draft.id;
            if ids.contains_key(id) {
                let message =
                    format!("The id `{id}` is used by another step before; ids are unique.");
                self.report_step((at, id), "id", diagnostic(id, message));
            } else {
                ids.insert(id.clone(), at);
            }
        }
        for (at, draft) in drafts.iter().enumerate() {
            let id = &draft.id;
            let mut dots = id.match_indices('.').filter_map(|(dot, _)| id.get(..dot));
            if let Some(part) = dots.find(|part| ids.contains_key(*part)) {
                let message =
                    format!("`${id}` could also be a field of the step `{part}`; use another id.");
                self.report_step((at, id), "id", diagnostic(id, message));
            }
        }
        ids
    }

    fn needs(&mut self, drafts: &[Draft], ids: &BTreeMap<String, usize>) -> Vec<Vec<usize>> {
        let mut all = Vec::with_capacity(drafts.len());
        for (at, draft) in drafts.iter().enumerate() {
            let Some(names) = &draft.needs else {
                all.push(at.checked_sub(1).into_iter().collect());
                continue;
            };
            let mut needs = Vec::with_capacity(names.len());
            for name in names {
                if self.is_full() {
                    break;
                }
                match ids.get(name) {
                    Some(&index) if index == at => {
                        let error = diagnostic(name, "A step cannot need itself.");
                        self.report_step((at, &draft.id), "needs", error);
                    }
                    Some(&index) => needs.push(index),
                    None => {
                        let message = format!("This agent has no step `{name}`.");
                        let error = FieldError {
                            nearest: nearest(name, ids.keys().map(String::as_str)),
                            ..diagnostic(name, message)
                        };
                        self.report_step((at, &draft.id), "needs", error);
                    }
                }
            }
            needs.sort_unstable();
            needs.dedup();
            all.push(needs);
        }
        all
    }

    fn circle(&mut self, circle: &[usize], drafts: &[Draft]) {
        let Some((&at, first)) = circle.first().and_then(|at| Some((at, drafts.get(*at)?))) else {
            return;
        };
        let ids = circle.iter().chain([&at]).filter_map(|at| drafts.get(*at));
        let ids: Vec<&str> = ids.map(|draft| draft.id.as_str()).collect();
        let circle = ids.join(" needs ");
        let message = format!("These steps need each other in a circle: {circle}.");
        self.report_step((at, &first.id), "needs", diagnostic(&first.id, message));
    }

    fn expressions(&mut self, at: usize, draft: &Draft, names: Names<'_>) {
        let step = (at, draft.id.as_str());
        let when = draft.when.as_deref();
        if let Some(error) = when.and_then(|when| expression::check(when, names).err()) {
            self.report_step(step, "when", *error);
        }
        if let Some(for_each) = &draft.for_each {
            let most = draft.action.as_ref().map_or(ITEMS_MAX, items_max);
            if let Some(error) = for_each::items_error(&for_each.items, most, names.steps) {
                self.report_step(step, "for_each", error);
            }
            self.placeholders_in(step, "for_each", &for_each.items, names);
        }
        let Some(action) = &draft.action else { return };
        let field = match action {
            Action::Tool { .. } => "args",
            Action::Wait { .. }
            | Action::WaitUntil(_)
            | Action::WaitFor(_)
            | Action::Ask(_)
            | Action::Handoff(_)
            | Action::Run(_)
            | Action::Finish(_) => action.kind(),
        };
        let names = Names {
            has_item: draft.for_each.is_some(),
            ..names
        };
        let template = action.template().unwrap_or_default();
        self.placeholders_in(step, field, &template, names);
    }

    fn placeholders_in(
        &mut self,
        step: (usize, &str),
        field: &str,
        template: &Value,
        names: Names<'_>,
    ) {
        let checked = expression::check_args(template, names);
        for error in checked.diagnostics {
            self.report_step(step, field, error);
        }
        self.placeholders += checked.placeholders;
        if self.placeholders > MAX_AGENT_PLACEHOLDERS {
            let message =
                format!("An agent has at most {MAX_AGENT_PLACEHOLDERS} placeholders in all.");
            self.report_step(step, field, diagnostic("", message));
            self.has_more = true;
        }
    }
}
