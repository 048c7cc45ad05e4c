//! What tools and other agents return in a rehearsal.

use std::collections::VecDeque;

use holdpoint_contracts::executor::{ChildRunEnd, ChildRunState, DesiredChildRun};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::{ActionResult, RunStatus};
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_ids::NodeName;
use serde_json::{Map, Value, json};

use super::ACTOR;
use super::recorder::Sent;
use super::script::{Called, ToolRule};
use super::world::World;
use crate::domain::effect::Reply;
use crate::domain::input::{DeliveredStep, RunInput, StepReport};

/// Code of a failure that the script gives none.
const SCRIPTED_FAILURE: &str = "scripted_failure";

/// Deepest nesting of a generated result.
const SAMPLE_DEPTH_MAX: usize = 8;

/// Most fields of a generated object.
const SAMPLE_FIELDS_MAX: usize = 100;

impl World<'_> {
    /// Does one call, or ends one child run. Returns whether there was one.
    pub(super) fn work(&mut self) -> Result<bool, String> {
        if let Some(dispatch) = self.dispatched.pop_front() {
            self.call(&dispatch)?;
            return Ok(true);
        }
        if let Some(child) = self.children.pop_front() {
            self.end_child(&child)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn call(&mut self, dispatch: &StepDispatch) -> Result<(), String> {
        let Ok(node) = ACTOR.parse::<NodeName>() else {
            return Ok(());
        };
        let start = RunInput::StartStep(DeliveredStep {
            node: node.clone(),
            step: dispatch.step.clone(),
            dispatch: dispatch.dispatch,
            delivery: 1,
            without_lease: false,
            is_high_risk: false,
            is_idempotent: dispatch.idempotent,
        });
        let is_granted = matches!(
            self.give(start)?,
            Ok(Reply::Grant(Grant::Go | Grant::GoWithoutLease))
        );
        // The gate keeps it, or the run has ended.
        if !is_granted {
            self.recorder.withdraw_call(&dispatch.step);
            return Ok(());
        }
        let number = self.count_call(&dispatch.step);
        let called = Called {
            step: &dispatch.step,
            tool: Some(dispatch.tool.as_str()),
            agent: None,
            number,
        };
        let rule = self.stage.script.tool(&called, self.contact_id());
        let result = match rule.and_then(|rule| rule.fail.as_ref()) {
            Some(error) => failure(error),
            None => self.success(dispatch, rule),
        };
        let error_code = (!result.success).then(|| code_of(rule));
        let report = StepReport {
            node,
            step: dispatch.step.clone(),
            dispatch: dispatch.dispatch,
            result,
            error_code,
            cost: None,
        };
        self.give(RunInput::StepResult(report)).map(drop)
    }

    fn count_call(&mut self, step: &str) -> u32 {
        let calls = self.calls.entry(step.to_owned()).or_default();
        *calls = calls.saturating_add(1);
        *calls
    }

    fn success(&mut self, dispatch: &StepDispatch, rule: Option<&ToolRule>) -> ActionResult {
        let tool = dispatch.tool.as_str();
        let set = dispatch.args.get("set").and_then(Value::as_object);
        let other = dispatch.args.get("contact").and_then(Value::as_str);
        let is_own = other.is_none_or(|other| other == self.contact_id().as_str());
        if let ("update_contact", Some(set), true) = (tool, set, is_own) {
            self.patch_contact(set.clone());
        }
        let given = rule.and_then(|rule| rule.result.clone());
        let data = given.unwrap_or_else(|| self.usual_result(dispatch));
        ActionResult {
            success: true,
            description: "Rehearsed.".to_owned(),
            error: None,
            data,
            duration_ms: 0,
        }
    }

    /// A built-in tool returns its arguments. Another one returns what its schema describes.
    fn usual_result(&self, dispatch: &StepDispatch) -> Value {
        let mut tools = self.stage.tools.iter();
        let schema = tools.find_map(|tool| {
            let is_it = tool.spec.name == dispatch.tool && !tool.deleted;
            tool.spec.result_schema.as_ref().filter(|_| is_it)
        });
        match (dispatch.tool.as_str(), schema) {
            (_, Some(schema)) => sample(schema),
            ("send_email", None) => {
                let mut data = dispatch.args.clone();
                if let Some(fields) = data.as_object_mut() {
                    let text = fields.remove("body").unwrap_or_default();
                    fields.insert("text".to_owned(), text);
                    fields.insert(
                        "message_id".to_owned(),
                        json!(format!("<{}@rehearsal>", dispatch.step)),
                    );
                }
                data
            }
            (_, None) => dispatch.args.clone(),
        }
    }

    /// Starts a child run, or forgets it. Returns what starts.
    pub(super) fn keep_child(&mut self, desired: DesiredChildRun) -> Option<Sent> {
        let is_known = |all: &VecDeque<DesiredChildRun>| all.iter().any(|it| it.run == desired.run);
        match &desired.state {
            ChildRunState::Open { .. } if !is_known(&self.children) => {
                let sent = Sent {
                    step: Some(desired.step.clone()),
                    kind: EventType::StepCalled,
                    outgoing: Outgoing::ChildRun {
                        agent: desired.agent.clone(),
                    },
                };
                self.children.push_back(desired);
                Some(sent)
            }
            ChildRunState::Open { .. } | ChildRunState::Frozen { .. } => None,
            ChildRunState::Cancelled { .. } => {
                self.children.retain(|it| it.run != desired.run);
                None
            }
        }
    }

    fn end_child(&mut self, child: &DesiredChildRun) -> Result<(), String> {
        let number = self.count_call(&child.step);
        let called = Called {
            step: &child.step,
            tool: None,
            agent: Some(child.agent.as_str()),
            number,
        };
        let rule = self.stage.script.tool(&called, self.contact_id());
        let error = rule.and_then(|rule| rule.fail.clone());
        let end = ChildRunEnd {
            id: child.hold,
            child: child.run,
            rev: 1,
            status: match error {
                Some(_) => RunStatus::Failed,
                None => RunStatus::Completed,
            },
            code: error.is_some().then(|| code_of(rule)),
            output: match error {
                Some(_) => Value::Null,
                None => rule
                    .and_then(|rule| rule.result.clone())
                    .unwrap_or_default(),
            },
            message: error.unwrap_or_else(|| "Rehearsed.".to_owned()),
            steps: 0,
            cost: 0.0,
            at: self.now,
        };
        self.give(RunInput::ChildRunEnded(Box::new(end))).map(drop)
    }
}

fn code_of(rule: Option<&ToolRule>) -> String {
    let code = rule.and_then(|rule| rule.code.clone());
    code.unwrap_or_else(|| SCRIPTED_FAILURE.to_owned())
}

fn failure(error: &str) -> ActionResult {
    ActionResult {
        success: false,
        description: error.to_owned(),
        error: Some(error.to_owned()),
        data: Value::Null,
        duration_ms: 0,
    }
}

/// A small value that a JSON Schema describes.
pub(super) fn sample(schema: &Value) -> Value {
    sample_within(schema, SAMPLE_DEPTH_MAX)
}

fn sample_within(schema: &Value, depth: usize) -> Value {
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return value.clone();
        }
    }
    let first = |list: &str| schema.get(list).and_then(|list| list.get(0));
    if let Some(value) = first("examples").or_else(|| first("enum")) {
        return value.clone();
    }
    if let Some(choice) = first("oneOf").or_else(|| first("anyOf")) {
        return depth
            .checked_sub(1)
            .map_or(Value::Null, |depth| sample_within(choice, depth));
    }
    let kind = schema.get("type");
    let kind = kind.and_then(|kind| kind.get(0).unwrap_or(kind).as_str());
    match kind {
        Some("string") => json!("text"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        Some(_) | None => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let Some(depth) = depth.checked_sub(1) else {
                return json!({});
            };
            let fields = properties.into_iter().flatten().take(SAMPLE_FIELDS_MAX);
            let fields: Map<_, _> = fields
                .map(|(name, schema)| (name.clone(), sample_within(schema, depth)))
                .collect();
            Value::Object(fields)
        }
    }
}
