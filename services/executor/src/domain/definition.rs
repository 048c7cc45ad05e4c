//! An agent as its author writes it, and everything that can be wrong with it.
//!
//! Owns the fields and step kinds this release knows, the ones that are documented and still to
//! come, and the faults that are answered (422 `invalid_agent`). It must never stop at the first
//! fault: an author mends a file in one go. It must never guess what was meant either.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON and CEL values are not ours: what is not named here is refused or kept as it is"
)]

mod diagnostics;
mod fields;
mod graph;
mod lines;
pub(in crate::domain) mod people;
mod read;
mod step;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::domain::expression::{self, Diagnostic, Names};
use crate::domain::model::plan::{Action, Inputs, OnPause, Plan, PlannedStep};
use lines::Lines;
use step::Draft;

use diagnostics::{AgentChecker, Place, is_name, plain, shown};

pub(crate) use crate::domain::nearest_names::nearest;
pub use diagnostics::{AgentDiagnostic, MAX_NAME, MAX_STEPS, MAX_TEXT};

impl Plan {
    /// Reads an agent, YAML or JSON, and compiles it.
    ///
    /// # Errors
    /// Every [`AgentDiagnostic`] that was found (422 `invalid_agent`).
    pub fn compile(text: &str) -> Result<Self, Vec<AgentDiagnostic>> {
        compile(text)
    }
}

/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 2_000;
/// Most placeholders of an agent: each is compiled when the agent is applied, which all others wait for.
const MAX_AGENT_PLACEHOLDERS: usize = 5_000;

/// Reads an agent, YAML or JSON, and compiles it.
///
/// # Errors
/// Every [`AgentDiagnostic`] that was found, in the order of the text; at most 100 and one that counts the
/// rest.
pub(super) fn compile(text: &str) -> Result<Plan, Vec<AgentDiagnostic>> {
    let fields = read::agent(text).map_err(|fault| vec![fault])?;
    let mut review = AgentChecker {
        lines: Lines::of(text),
        faults: Vec::new(),
        has_more: false,
        placeholders: 0,
    };
    let plan = review.agent(&fields);
    match plan {
        Some(plan) if review.faults.is_empty() => Ok(plan),
        Some(_) | None => Err(review.answer()),
    }
}

impl AgentChecker<'_> {
    fn agent(&mut self, fields: &Map<String, Value>) -> Option<Plan> {
        for name in fields.keys() {
            if self.is_full() {
                break;
            }
            if let Some(complaint) = fields::agent_field(name) {
                self.fault(Place::Agent(Some(name)), complaint);
            }
        }
        let agent = self.name(fields);
        let description = self.description(fields.get("description"));
        let on_pause = self.on_pause(fields.get("on_pause"));
        let inputs = self.inputs(fields);
        let drafts = self.drafts(fields)?;
        let steps = self.steps(drafts);
        Some(Plan {
            agent: agent?,
            description,
            on_pause,
            inputs,
            steps,
        })
    }

    fn name(&mut self, fields: &Map<String, Value>) -> Option<String> {
        let complaint = match fields.get("agent") {
            Some(Value::String(name)) if is_name(name) => return Some(name.clone()),
            Some(other) => plain(
                &shown(other),
                "The name of an agent has 1 to 100 letters, digits, dots, underscores or hyphens and starts with a letter or digit.",
            ),
            None => plain("agent", "An agent needs a name: `agent: NAME`."),
        };
        self.fault(Place::Agent(Some("agent")), complaint);
        None
    }

    fn description(&mut self, value: Option<&Value>) -> Option<String> {
        match value? {
            Value::Null => None,
            Value::String(text) if text.chars().count() <= MAX_DESCRIPTION => Some(text.clone()),
            other => {
                let said =
                    format!("`description` is a text of at most {MAX_DESCRIPTION} characters.");
                self.fault(
                    Place::Agent(Some("description")),
                    plain(&shown(other), &said),
                );
                None
            }
        }
    }

    fn on_pause(&mut self, value: Option<&Value>) -> OnPause {
        match value {
            None => OnPause::default(),
            Some(Value::String(word)) if word == "hold" => OnPause::Hold,
            Some(Value::String(word)) if word == "cancel" => OnPause::Cancel,
            Some(other) => {
                let text = shown(other);
                let near = nearest(&text, ["hold", "cancel"].into_iter());
                let complaint = plain(&text, "`on_pause` is `hold` or `cancel`.");
                self.fault(
                    Place::Agent(Some("on_pause")),
                    Diagnostic {
                        nearest: near,
                        ..complaint
                    },
                );
                OnPause::default()
            }
        }
    }

    /// S2-R12, S2-R16: a flat form, and whether what is missing is asked for.
    fn inputs(&mut self, fields: &Map<String, Value>) -> Option<Inputs> {
        let ask = match fields.get("ask_missing_inputs") {
            None | Some(Value::Null) => true,
            Some(Value::Bool(ask)) => *ask,
            Some(other) => {
                let complaint = plain(&shown(other), "`ask_missing_inputs` is true or false.");
                self.fault(Place::Agent(Some("ask_missing_inputs")), complaint);
                true
            }
        };
        let schema = fields.get("inputs").filter(|schema| !schema.is_null());
        let Some(schema) = schema else {
            if fields.contains_key("ask_missing_inputs") {
                let said = "`ask_missing_inputs` is about `inputs`, and there are none.";
                let complaint = plain("ask_missing_inputs", said);
                self.fault(Place::Agent(Some("ask_missing_inputs")), complaint);
            }
            return None;
        };
        if let Some(said) = people::form_complaint(schema) {
            let complaint = plain(&shown(schema), &format!("`inputs`: {said}"));
            self.fault(Place::Agent(Some("inputs")), complaint);
            return None;
        }
        Some(Inputs {
            schema: schema.clone(),
            ask,
        })
    }

    fn drafts(&mut self, fields: &Map<String, Value>) -> Option<Vec<Draft>> {
        let complaint = match fields.get("steps") {
            Some(Value::Array(steps)) if (1..=MAX_STEPS).contains(&steps.len()) => {
                let drafts = steps
                    .iter()
                    .enumerate()
                    .map(|(at, step)| self.draft(at, step));
                return Some(drafts.collect());
            }
            Some(Value::Array(steps)) if steps.is_empty() => {
                plain("steps", "An agent has at least one step.")
            }
            Some(Value::Array(steps)) => plain(
                "steps",
                &format!(
                    "An agent has at most {MAX_STEPS} steps; this one has {}.",
                    steps.len()
                ),
            ),
            Some(other) => plain(&shown(other), "`steps` is a list of steps."),
            // What is written instead of steps has been refused by name already.
            None if fields.contains_key("instructions") => return None,
            None => plain("steps", "An agent needs `steps`."),
        };
        self.fault(Place::Agent(Some("steps")), complaint);
        None
    }

    /// Puts the steps together: ids to indexes, order, and all that expressions name.
    fn steps(&mut self, drafts: Vec<Draft>) -> Vec<PlannedStep> {
        let ids = self.unique_ids(&drafts);
        let needs = self.needs(&drafts, &ids);
        let before = match graph::before(&needs) {
            Ok(before) => Some(before),
            Err(circle) => {
                self.circle(&circle, &drafts);
                None
            }
        };
        for (at, draft) in drafts.iter().enumerate() {
            if self.is_full() {
                break;
            }
            // Without an order only the names can be checked.
            let before = before
                .as_ref()
                .and_then(|rows| rows.get(at))
                .map(Vec::as_slice);
            self.expressions(
                at,
                draft,
                Names {
                    steps: &ids,
                    before,
                },
            );
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
                    action: draft.action?,
                })
            })
            .collect()
    }

    fn unique_ids(&mut self, drafts: &[Draft]) -> BTreeMap<String, usize> {
        let mut ids = BTreeMap::new();
        for (at, draft) in drafts.iter().enumerate() {
            if ids.contains_key(&draft.id) {
                let said = format!(
                    "The id `{}` is used by another step before; ids are unique.",
                    draft.id
                );
                self.fault(
                    Place::Step(at, &draft.id, Some("id")),
                    plain(&draft.id, &said),
                );
            } else {
                ids.insert(draft.id.clone(), at);
            }
        }
        for (at, draft) in drafts.iter().enumerate() {
            let dots = draft
                .id
                .match_indices('.')
                .filter_map(|(dot, _)| draft.id.get(..dot));
            let shadowed = dots.into_iter().find(|part| ids.contains_key(*part));
            if let Some(part) = shadowed {
                let said = format!(
                    "`${}` could also be a field of the step `{part}`; use another id.",
                    draft.id
                );
                self.fault(
                    Place::Step(at, &draft.id, Some("id")),
                    plain(&draft.id, &said),
                );
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
                        let complaint = plain(name, "A step cannot need itself.");
                        self.fault(Place::Step(at, &draft.id, Some("needs")), complaint);
                    }
                    Some(&index) => needs.push(index),
                    None => {
                        let near = nearest(name, ids.keys().map(String::as_str));
                        let said = format!("There is no step `{name}` in this agent.");
                        let complaint = Diagnostic {
                            nearest: near,
                            ..plain(name, &said)
                        };
                        self.fault(Place::Step(at, &draft.id, Some("needs")), complaint);
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
        let said = format!(
            "These steps need each other in a circle: {}.",
            ids.join(" needs ")
        );
        self.fault(
            Place::Step(at, &first.id, Some("needs")),
            plain(&first.id, &said),
        );
    }

    fn expressions(&mut self, at: usize, draft: &Draft, names: Names<'_>) {
        let refused = draft
            .when
            .as_deref()
            .and_then(|when| expression::check(when, names).err());
        if let Some(complaint) = refused {
            self.fault(Place::Step(at, &draft.id, Some("when")), complaint);
        }
        let Some(action) = &draft.action else { return };
        let field = match action {
            Action::Tool { .. } => "args",
            Action::Wait { .. } | Action::Ask(_) | Action::Handoff(_) => action.kind(),
        };
        let template = action.template().unwrap_or_default();
        let checked = expression::check_args(&template, names);
        for complaint in checked.complaints {
            self.fault(Place::Step(at, &draft.id, Some(field)), complaint);
        }
        self.placeholders += checked.placeholders;
        if self.placeholders > MAX_AGENT_PLACEHOLDERS {
            let said =
                format!("An agent has at most {MAX_AGENT_PLACEHOLDERS} placeholders in all.");
            self.fault(Place::Step(at, &draft.id, Some(field)), plain("", &said));
            self.has_more = true;
        }
    }
}
