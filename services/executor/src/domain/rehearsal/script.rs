//! The script of a rehearsal: what people, tools and contacts do (docs/rehearsal.md).
//!
//! Of the rules of one kind, the first that fits counts. What no rule says has a default.

use holdpoint_contracts::duration;
use holdpoint_contracts::rehearsal::SCRIPT_BYTES_MAX;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::ContactId;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::definition::read;
use crate::domain::model::plan::Plan;
use crate::domain::model::run::fan_out::item_of;
use crate::domain::nearest_names::nearest;

/// Most rules of one kind.
const RULES_MAX: usize = 1_000;

/// When people answer, if no rule says so.
const ANSWER_AFTER_MS: u64 = 3_600_000;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Script {
    /// The input of every run.
    pub input: Map<String, Value>,
    pub people: Vec<PersonRule>,
    pub tools: Vec<ToolRule>,
    pub contacts: Vec<ContactRule>,
    pub signals: Vec<SignalRule>,
}

/// What people do with a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonRule {
    pub step: Option<String>,
    pub kind: Option<HoldKind>,
    pub contact: Option<ContactId>,
    #[serde(default = "answer_after", with = "duration::text")]
    pub after: u64,
    /// None: approve, answer or complete.
    #[serde(rename = "do")]
    pub act: Option<PersonAct>,
    /// The answer to a question.
    pub answer: Option<Value>,
    /// The comment of a decision, or the notes of a completion.
    #[serde(default)]
    pub comment: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersonAct {
    Approve,
    Reject,
    Answer,
    /// Hand the run back to the agent.
    Complete,
    /// End the run.
    Finish,
    /// Let the deadline pass.
    Nothing,
}

/// What a call of a tool returns.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    pub tool: Option<String>,
    pub step: Option<String>,
    /// The agent that a step starts.
    pub agent: Option<String>,
    pub contact: Option<ContactId>,
    /// The first calls of a run only; none: all.
    pub times: Option<u32>,
    /// The data of a success.
    pub result: Option<Value>,
    /// The error of a failure.
    pub fail: Option<String>,
    /// The code of a failure.
    pub code: Option<String>,
}

/// A change of a contact, such as a reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContactRule {
    pub contact: Option<ContactId>,
    /// Since the start of the run.
    #[serde(with = "duration::text")]
    pub after: u64,
    /// Fields to set; `null` removes one.
    pub set: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalRule {
    pub contact: Option<ContactId>,
    /// Since the start of the run.
    #[serde(with = "duration::text")]
    pub after: u64,
    pub signal: String,
    #[serde(default)]
    pub data: Value,
}

const fn answer_after() -> u64 {
    ANSWER_AFTER_MS
}

impl Default for PersonRule {
    fn default() -> Self {
        Self {
            step: None,
            kind: None,
            contact: None,
            after: ANSWER_AFTER_MS,
            act: None,
            answer: None,
            comment: String::new(),
        }
    }
}

impl Script {
    /// Reads a script. It names only steps of the plan.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what is allowed.
    pub fn parse(text: &str, plan: &Plan) -> Result<Self, String> {
        if text.len() > SCRIPT_BYTES_MAX {
            let bytes = text.len();
            return Err(format!(
                "a script has at most {SCRIPT_BYTES_MAX} bytes; this one has {bytes}"
            ));
        }
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value = read::value(text).map_err(|error| {
            let line = error.line.map(|line| format!("line {line}: "));
            format!("{}{}", line.unwrap_or_default(), error.message)
        })?;
        if !value.is_object() {
            let lists = "`people`, `tools`, `contacts`, `signals` and `input`";
            return Err(format!("a script is an object; its fields are {lists}"));
        }
        let script: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let (path, error) = (error.path().to_string(), error.inner());
            format!("`{path}`: {error}")
        })?;
        script.check(plan)?;
        Ok(script)
    }

    fn check(&self, plan: &Plan) -> Result<(), String> {
        let lists = [
            ("people", self.people.len()),
            ("tools", self.tools.len()),
            ("contacts", self.contacts.len()),
            ("signals", self.signals.len()),
        ];
        if let Some((name, rules)) = lists.into_iter().find(|(_, rules)| *rules > RULES_MAX) {
            return Err(format!(
                "`{name}` has at most {RULES_MAX} rules; this one has {rules}"
            ));
        }
        let people = self.people.iter().map(|rule| rule.step.as_deref());
        let tools = self.tools.iter().map(|rule| rule.step.as_deref());
        for step in people.chain(tools).flatten() {
            let ids = || plan.steps.iter().map(|step| step.id.as_str());
            if !ids().any(|id| id == step || item_of(step, id).is_some()) {
                let hint = nearest(step, ids());
                let hint = hint.first().map(|hint| format!("; did you mean `{hint}`?"));
                let hint = hint.unwrap_or_default();
                return Err(format!("the agent has no step `{step}`{hint}"));
            }
        }
        Ok(())
    }

    pub(super) fn person(&self, step: &str, kind: HoldKind, contact: &ContactId) -> PersonRule {
        let mut rules = self.people.iter();
        let found = rules.find(|rule| {
            fits_step(rule.step.as_deref(), step)
                && rule.kind.is_none_or(|it| it == kind)
                && fits(rule.contact.as_ref(), contact)
        });
        found.cloned().unwrap_or_default()
    }

    /// What the call `number` (from 1) returns.
    pub(super) fn tool(&self, call: &Called<'_>, contact: &ContactId) -> Option<&ToolRule> {
        let mut rules = self.tools.iter();
        rules.find(|rule| {
            fits_step(rule.step.as_deref(), call.step)
                && rule.tool.as_deref().is_none_or(|it| Some(it) == call.tool)
                && rule
                    .agent
                    .as_deref()
                    .is_none_or(|it| Some(it) == call.agent)
                && rule.times.is_none_or(|times| call.number <= times)
                && fits(rule.contact.as_ref(), contact)
        })
    }
}

/// A call of a tool or agent, as rules see it.
pub(super) struct Called<'a> {
    pub(super) step: &'a str,
    pub(super) tool: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    /// Of this step in this run, from 1.
    pub(super) number: u32,
}

/// Whether a step, or the step of which it is a child, has the wanted id.
fn fits_step(wanted: Option<&str>, step: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == step || item_of(step, wanted).is_some())
}

fn fits(wanted: Option<&ContactId>, contact: &ContactId) -> bool {
    wanted.is_none_or(|wanted| wanted == contact)
}
