//! The script of a rehearsal: what people, tools and contacts do (docs/rehearsal.md).
//!
//! The first rule of a kind that fits counts. The defaults count where no rule fits.

use chrono::{DateTime, Utc};
use holdpoint_contracts::duration;
use holdpoint_contracts::rehearsal::SCRIPT_BYTES_MAX;
use holdpoint_contracts::run::HoldKind;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::{ContactId, NAME_CHARS_MAX, nearest};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::child_plans::ChildPlans;
use crate::domain::definition::{is_name, read};
use crate::domain::model::plan::{Action, Plan};
use crate::domain::model::run::fan_out::item_of;
use crate::domain::model::time::after;
use crate::domain::text::cut;

/// Most rules of one kind.
const RULES_MAX: usize = 1_000;

/// Longest error, in characters.
const ERROR_CHARS_MAX: usize = 400;

/// Largest result of a rule, in bytes of JSON.
const RESULT_BYTES_MAX: usize = 64 * 1024;

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
    /// Reads a script. Its steps, tools, agents and signals are those of the plan and of the agents that it runs.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what is allowed.
    pub fn parse(text: &str, plan: &Plan, children: &ChildPlans) -> Result<Self, String> {
        if text.len() > SCRIPT_BYTES_MAX {
            let bytes = text.len();
            return Err(format!(
                "a script has at most {SCRIPT_BYTES_MAX} bytes; this one has {bytes}"
            ));
        }
        let script = Self::read(text)?;
        let below: Vec<&Plan> = children.values().flatten().collect();
        script.check(plan, &below)?;
        Ok(script)
    }

    fn read(text: &str) -> Result<Self, String> {
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
        serde_path_to_error::deserialize(value).map_err(|error| {
            let (path, error) = (error.path().to_string(), error.inner().to_string());
            cut(&format!("`{path}`: {error}"), ERROR_CHARS_MAX)
        })
    }

    /// A planner has no default plan.
    fn check_planner(&self, plan: &Plan) -> Result<(), String> {
        let planner = plan.steps.first().filter(|_| plan.planner.is_some());
        let Some(step) = planner else { return Ok(()) };
        let is_of_planner = |rule: &ToolRule| {
            let tool = rule.tool.as_deref();
            rule.step.as_deref() == Some(&step.id) || (tool.is_some() && tool == step.action.tool())
        };
        if self.tools.iter().any(is_of_planner) {
            return Ok(());
        }
        let id = &step.id;
        Err(format!(
            "the agent has a planner, so the script needs its plan: `tools: [{{ step: {id}, result: {{ steps: [...] }} }}]`"
        ))
    }

    fn check(&self, plan: &Plan, below: &[&Plan]) -> Result<(), String> {
        self.check_planner(plan)?;
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
        // A planner chooses the names of its steps.
        let is_fixed = plan.planner.is_none();
        for step in people.chain(tools).flatten().filter(|_| is_fixed) {
            let ids = || plan.steps.iter().map(|step| step.id.as_str());
            let is_known = match step.split_once('/') {
                Some((starter, path)) => is_starter(starter, plan) && is_step_below(path, below),
                None => ids().any(|id| id == step || item_of(step, id).is_some()),
            };
            if !is_known {
                return Err(unknown_name("step", step, ids()));
            }
        }
        let mut names = Names::of(plan);
        below.iter().for_each(|plan| names.add(Names::of(plan)));
        let tools = self.tools.iter();
        let signals = self.signals.iter().map(|rule| Some(&rule.signal));
        let named = tools.clone().map(|rule| rule.tool.as_ref());
        check_names("tool", &names.tools, named)?;
        let named = tools.map(|rule| rule.agent.as_ref());
        check_names("run of agent", &names.agents, named)?;
        if is_fixed {
            check_names("wait for signal", &names.signals, signals)?;
        }
        self.people.iter().try_for_each(PersonRule::check)?;
        self.tools.iter().try_for_each(ToolRule::check)
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
                // A rule for all calls is not for runs, which are rehearsed.
                && (call.agent.is_none() || rule.agent.is_some() || rule.step.is_some())
                && rule.times.is_none_or(|times| call.number <= times)
                && fits(rule.contact.as_ref(), contact)
        })
    }
}

/// The names that the steps of a plan use.
struct Names<'p> {
    tools: Vec<&'p str>,
    agents: Vec<&'p str>,
    signals: Vec<&'p str>,
}

/// Whether a step of the plan starts runs. `check.2` is its second run.
fn is_starter(name: &str, plan: &Plan) -> bool {
    let mut starters = plan.steps.iter();
    starters.any(|step| {
        let rest = name.strip_prefix(step.id.as_str());
        matches!(step.action, Action::Run(_))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Whether a run below may have this step. A planner chooses the names of its steps.
fn is_step_below(path: &str, below: &[&Plan]) -> bool {
    let step = path.rsplit('/').next().unwrap_or(path);
    below.iter().any(|plan| {
        let mut ids = plan.steps.iter().map(|step| step.id.as_str());
        plan.planner.is_some() || ids.any(|id| id == step || item_of(step, id).is_some())
    })
}

impl<'p> Names<'p> {
    fn add(&mut self, other: Self) {
        self.tools.extend(other.tools);
        self.agents.extend(other.agents);
        self.signals.extend(other.signals);
    }

    fn of(plan: &'p Plan) -> Self {
        let mut names = Self {
            tools: Vec::new(),
            agents: Vec::new(),
            signals: Vec::new(),
        };
        let of_planner = plan.planner.iter().flat_map(|planner| &planner.tools);
        names.tools.extend(of_planner.map(String::as_str));
        for step in &plan.steps {
            match &step.action {
                Action::Tool { tool, .. } => names.tools.push(tool),
                Action::WaitFor(wait) => names.signals.push(&wait.signal),
                Action::Run(run) => {
                    names
                        .agents
                        .extend(run.runs.iter().map(|run| run.agent.as_str()));
                }
                Action::Wait { .. }
                | Action::WaitUntil(_)
                | Action::Ask(_)
                | Action::Handoff(_)
                | Action::Finish(_) => {}
            }
        }
        names
    }
}

fn check_names<'n>(
    what: &str,
    known: &[&str],
    mut named: impl Iterator<Item = Option<&'n String>>,
) -> Result<(), String> {
    let unknown = named.find_map(|name| name.filter(|name| !known.contains(&name.as_str())));
    match unknown {
        None => Ok(()),
        Some(name) => Err(unknown_name(what, name, known.iter().copied())),
    }
}

fn unknown_name<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let hint = nearest(name, known);
    let hint = hint.first().map(|hint| format!("; did you mean `{hint}`?"));
    let (name, hint) = (cut(name, NAME_CHARS_MAX), hint.unwrap_or_default());
    format!("the agent has no {what} `{name}`{hint}")
}

impl PersonRule {
    /// When people answer a request of now; none: never.
    pub(super) fn answer_at(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let is_silent = self.act == Some(PersonAct::Nothing);
        (!is_silent).then(|| after(now, self.after))
    }

    fn check(&self) -> Result<(), String> {
        match self.kind {
            None | Some(HoldKind::Approval | HoldKind::Input | HoldKind::Handoff) => Ok(()),
            Some(kind @ (HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun)) => Err(format!(
                "`people`: `kind` is `approval`, `input` or `handoff`, not `{kind}`"
            )),
        }
    }
}

impl ToolRule {
    fn check(&self) -> Result<(), String> {
        if self.result.is_some() && self.fail.is_some() {
            return Err("`tools`: a rule has a `result` or `fail`, not both".to_owned());
        }
        if self.code.is_some() && self.fail.is_none() {
            return Err("`tools`: `code` needs `fail`".to_owned());
        }
        if self.code.as_deref().is_some_and(|code| !is_name(code)) {
            let message =
                "`tools`: `code` has 1 to 100 letters, digits, dots, underscores or hyphens";
            return Err(message.to_owned());
        }
        let bytes = self.result.as_ref().map_or(0, json_bytes);
        if bytes > RESULT_BYTES_MAX {
            return Err(format!(
                "`tools`: a `result` has at most {RESULT_BYTES_MAX} bytes; this one has {bytes}"
            ));
        }
        Ok(())
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

/// Whether a rule is for this contact.
pub(super) fn fits(wanted: Option<&ContactId>, contact: &ContactId) -> bool {
    wanted.is_none_or(|wanted| wanted == contact)
}
