//! The field `planner` of an agent: a tool makes the steps of each run from a free text.
//!
//! The written agent has two steps: one calls the tool, and one starts the plan that it made. A plan is compiled like the
//! steps of an author. It may call only the tools that the author lists, and it decides nothing about approvals.

use holdpoint_contracts::problem::FieldError;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::tool::{START_PLAN, is_built_in};
use holdpoint_contracts::value_limits::{EXACT_INTEGER_MAX, has_inexact_integer};
use holdpoint_ids::nearest;
use serde_json::{Map, Value, json};

use super::diagnostics::{AgentChecker, MAX_STEPS, Place, is_name, shown};
use super::fields;
use super::instructions::{WrittenSteps, words_of};
use super::step::{Draft, default_id};
use crate::domain::expression::diagnostic;
use crate::domain::model::plan::planner::{PLAN_BYTES_MAX, PLANNER_STEPS, Planner};
use crate::domain::model::plan::{Plan, PlannedStep};

const PLANNER: &str = "planner";

/// Most tools that a planner may use.
const TOOLS_MAX: usize = 100;

/// Longest text for a planner, in bytes.
const GOAL_BYTES_MAX: usize = 64 * 1024;

/// Longest time of one call of the planner.
const PLAN_WITHIN: &str = "60 seconds";

/// A plan that is not valid is made again. After this many the run fails.
const PLANS_MAX: u32 = 3;

/// Fields that a step of a plan may not have. They would lower an approval, repeat a call, or leave the list of tools.
const REFUSED_FIELDS: [(&str, &str); 3] = [
    (
        "approval",
        "A plan has no `approval`: the registry of tools and the author decide who approves.",
    ),
    (
        "retry",
        "A plan has no `retry`: the registry of tools decides which calls may be repeated.",
    ),
    (
        "run",
        "A plan starts no run of another agent; use the tools of `planner`.",
    ),
];

impl Plan {
    /// The whole plan of a run whose planner made `{"steps": [...]}`: the two steps of the agent, and after them the new
    /// ones. A person may have edited them.
    ///
    /// # Errors
    /// Every error of the steps, as of an agent.
    pub(crate) fn with_steps_of(&self, made: &Value) -> Result<Self, Vec<FieldError>> {
        let Some(planner) = &self.planner else {
            return Err(plan_error("The agent has no planner."));
        };
        let steps = plan_steps(made.get("steps").unwrap_or(&Value::Null))?;
        let mut checker = AgentChecker {
            planner_steps: PLANNER_STEPS,
            ..AgentChecker::new("")
        };
        let working_days = checker.calendar(planner.calendar.as_ref());
        checker.mails = checker.read_templates(planner.templates.as_ref());
        let of_agent = self.steps.iter().take(PLANNER_STEPS).cloned();
        let mut drafts: Vec<_> = of_agent.map(Draft::of).collect();
        for (at, step) in steps.iter().enumerate() {
            if checker.is_full() {
                return Err(checker.answer());
            }
            checker.refuse_fields(at + PLANNER_STEPS, step, &planner.tools);
            drafts.push(checker.draft(at + PLANNER_STEPS, step));
        }
        let planned = checker.steps(drafts);
        checker.check_business_days(&working_days, &planned);
        if !checker.errors.is_empty() {
            return Err(checker.answer());
        }
        let mut words = vec![String::new(); PLANNER_STEPS];
        words.extend((steps.iter().enumerate()).map(|(at, step)| plan_words(at, step)));
        let tools = planner.tools.clone();
        Ok(Self {
            words,
            steps: planned,
            // The run keeps no copy of the templates: its steps have the mails.
            planner: Some(Box::new(Planner {
                tools,
                calendar: None,
                templates: None,
            })),
            ..self.clone()
        })
    }
}

fn plan_error(message: impl Into<String>) -> Vec<FieldError> {
    vec![diagnostic("steps", message)]
}

/// The steps of a plan, within its limits.
fn plan_steps(steps: &Value) -> Result<&[Value], Vec<FieldError>> {
    let steps = match steps {
        Value::Array(steps) if (1..=MAX_STEPS).contains(&steps.len()) => steps,
        Value::Array(steps) => {
            let count = steps.len();
            let message = format!("A plan has 1 to {MAX_STEPS} steps; this one has {count}.");
            return Err(plan_error(message));
        }
        Value::Null => {
            let message = "The result has no `steps`; expected `{\"steps\": [...]}`.";
            return Err(plan_error(message));
        }
        other => {
            let text = shown(other);
            return Err(plan_error(format!(
                "`steps` is a list of steps, not {text}."
            )));
        }
    };
    // The gate could not approve it exactly.
    if steps.iter().any(has_inexact_integer) {
        return Err(plan_error(format!(
            "The steps have an integer beyond {EXACT_INTEGER_MAX}; write it as a text."
        )));
    }
    let bytes: usize = steps.iter().map(json_bytes).sum();
    if bytes > PLAN_BYTES_MAX {
        return Err(plan_error(format!(
            "The steps are {bytes} bytes of JSON; at most {PLAN_BYTES_MAX} are allowed."
        )));
    }
    Ok(steps)
}

/// The id that a step has, or that its place gives.
fn written_id(at: usize, step: &Value) -> String {
    let id = step.get("id").and_then(Value::as_str);
    id.map_or_else(|| default_id(at), str::to_owned)
}

/// The words of a step in a plan. Those of a mail would hide the text of its template.
fn plan_words(at: usize, step: &Value) -> String {
    let args = step.get("args");
    let has_template = args.is_some_and(|args| args.get("template").is_some());
    if has_template {
        String::new()
    } else {
        words_of(at, step)
    }
}

impl AgentChecker<'_> {
    /// The steps of an agent with `planner`, and what plans may do. `None`: they were refused.
    pub(super) fn planner_steps(
        &mut self,
        agent: &Map<String, Value>,
        planner: &Value,
        calendar: Option<&Value>,
    ) -> Option<(WrittenSteps, Planner)> {
        let Value::Object(written) = planner else {
            let message = "`planner` is an object, such as `planner: { tool: plans.make, tools: [send_email] }`.";
            self.report_field(PLANNER, &shown(planner), message);
            return None;
        };
        for name in written.keys() {
            let known = ["tool", "tools", "auto_start", "approval"];
            if let Some(error) = fields::inner_field(name, PLANNER, &known) {
                self.report(Place::Agent(Some(PLANNER)), error);
            }
        }
        let tool = self.planner_tool(written.get("tool"));
        let tools = self.allowed_tools(written.get("tools"));
        let approval = self.plan_approval(written);
        let text = self.goal(agent);
        let (tool, tools, text) = (tool?, tools?, text?);
        let args = json!({ "instructions": text, "input": "$input", "contact": "$contact", "tools": tools });
        let call = json!({ "id": "plan", "tool": tool, "args": args, "timeout": PLAN_WITHIN,
            "retry": { "attempts": PLANS_MAX } });
        let mut start =
            json!({ "id": "start-plan", "tool": START_PLAN, "args": { "steps": "$plan.steps" } });
        if let (Some(approval), Some(start)) = (approval?, start.as_object_mut()) {
            start.insert("approval".to_owned(), approval);
        }
        let steps = WrittenSteps {
            steps: vec![call, start],
            words: Vec::new(),
        };
        let present = |name: &str| agent.get(name).filter(|value| !value.is_null()).cloned();
        let planner = Planner {
            tools,
            calendar: calendar.cloned(),
            templates: present("templates"),
        };
        Some((steps, planner))
    }

    fn planner_tool(&mut self, value: Option<&Value>) -> Option<String> {
        match value {
            Some(Value::String(name)) if is_name(name) && !is_built_in(name) => Some(name.clone()),
            other => {
                let text = other.map(shown).unwrap_or_default();
                let message =
                    "`planner` needs `tool: NAME`: a tool of your own that makes the steps.";
                self.report_field(PLANNER, &text, message);
                None
            }
        }
    }

    fn allowed_tools(&mut self, value: Option<&Value>) -> Option<Vec<String>> {
        let names = value.and_then(Value::as_array);
        let names = names.filter(|names| (1..=TOOLS_MAX).contains(&names.len()));
        let is_tool = |name: &&str| is_name(name) && *name != START_PLAN;
        let read = |name: &Value| name.as_str().filter(is_tool).map(str::to_owned);
        let names = names.and_then(|names| names.iter().map(read).collect());
        if names.is_none() {
            let text = value.map(shown).unwrap_or_default();
            let message = format!(
                "`planner` needs `tools`: a list of 1 to {TOOLS_MAX} names of tools that a plan may call."
            );
            self.report_field(PLANNER, &text, message);
        }
        names
    }

    /// Who approves a plan before its first step; the inner `None`: it starts at once. The outer one: it was refused.
    fn plan_approval(&mut self, written: &Map<String, Value>) -> Option<Option<Value>> {
        let approval = written.get("approval").filter(|it| !it.is_null());
        match (written.get("auto_start"), approval) {
            (None | Some(Value::Null | Value::Bool(false)), approval) => {
                Some(Some(approval.cloned().unwrap_or_else(|| json!({}))))
            }
            (Some(Value::Bool(true)), None) => Some(None),
            (Some(Value::Bool(true)), Some(_)) => {
                let message = "A plan with `auto_start: true` starts without an approval; remove `approval` or `auto_start`.";
                self.report_field(PLANNER, "approval", message);
                None
            }
            (Some(other), _) => {
                let message = "`auto_start` is true or false.";
                self.report_field(PLANNER, &shown(other), message);
                None
            }
        }
    }

    /// The free text for the planner.
    fn goal(&mut self, agent: &Map<String, Value>) -> Option<String> {
        if agent.get("steps").is_some_and(|steps| !steps.is_null()) {
            let message = "An agent with `planner` has `instructions` and no `steps`; the planner makes the steps.";
            self.report_field("steps", "steps", message);
            return None;
        }
        match agent.get("instructions") {
            Some(Value::String(text)) if text.len() > GOAL_BYTES_MAX => {
                let bytes = text.len();
                let message = format!(
                    "`instructions` for a planner have at most {GOAL_BYTES_MAX} bytes; these have {bytes}."
                );
                self.report_field("instructions", "", message);
                None
            }
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            other => {
                let text = other.map(shown).unwrap_or_default();
                let message =
                    "An agent with `planner` needs `instructions`: a text for the planner.";
                self.report_field("instructions", &text, message);
                None
            }
        }
    }

    /// Only a planner makes the step that starts its plan.
    pub(super) fn refuse_start_plan(&mut self, steps: &[Value]) {
        for (at, step) in steps.iter().enumerate() {
            if step.get("tool").is_some_and(|tool| tool == START_PLAN) {
                let id = written_id(at, step);
                let message = format!(
                    "`{START_PLAN}` starts the plan of a `planner`; a step cannot call it."
                );
                self.report_step((at, &id), "tool", diagnostic(START_PLAN, message));
            }
        }
    }

    fn refuse_fields(&mut self, at: usize, step: &Value, tools: &[String]) {
        let id = &written_id(at - PLANNER_STEPS, step);
        for (field, message) in REFUSED_FIELDS {
            if step.get(field).is_some() {
                self.report_step((at, id), field, diagnostic(field, message));
            }
        }
        if step.get("when").is_some_and(uses_matches) || in_templates(step) {
            let message =
                "A plan has no `matches`, which is slow to check; use `contains` or `startsWith`.";
            self.report_step((at, id), "when", diagnostic("matches", message));
        }
        let args = step.get("args");
        let tool = step.get("tool").and_then(Value::as_str);
        let is_promise =
            tool != Some("set") && args.is_some_and(|it| it.get("idempotent").is_some());
        if is_promise {
            let message = "A plan has no `idempotent`: the registry of tools decides which calls may be repeated.";
            self.report_step((at, id), "args", diagnostic("idempotent", message));
        }
        if let Some(tool) = tool.filter(|tool| !tools.iter().any(|one| one == tool)) {
            let message = format!(
                "A plan may not call `{}`; `planner` allows {}.",
                shown(&tool.into()),
                tools.join(", ")
            );
            let error = FieldError {
                nearest: nearest(tool, tools.iter().map(String::as_str)),
                ..diagnostic(tool, message)
            };
            self.report_step((at, id), "tool", error);
        }
    }
}

/// Whether a text may call the function `matches`. Each pattern is compiled on the thread that decides.
fn uses_matches(text: &Value) -> bool {
    text.as_str().is_some_and(|text| text.contains("matches"))
}

/// Whether an expression inside of a text of the step may call `matches`.
fn in_templates(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{") && uses_matches(value),
        Value::Array(items) => items.iter().any(in_templates),
        Value::Object(fields) => fields.values().any(in_templates),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl Draft {
    /// A step that is compiled already.
    fn of(step: PlannedStep) -> Self {
        Self {
            id: step.id,
            needs: None,
            when: step.when,
            claim_timeout_ms: step.claim_timeout_ms,
            approval: step.approval.map(|approval| *approval),
            timeout_ms: step.timeout_ms,
            retry: step.retry,
            on_error: step.on_error,
            for_each: step.for_each.map(|for_each| *for_each),
            action: Some(step.action),
        }
    }
}
