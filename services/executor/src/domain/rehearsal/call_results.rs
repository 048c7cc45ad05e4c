//! What tools and other agents return in a rehearsal.

use std::collections::VecDeque;

use holdpoint_contracts::contact::TagChange;
use holdpoint_contracts::executor::{ChildRunEnd, ChildRunState, DesiredChildRun};
use holdpoint_contracts::history::EventType;
use holdpoint_contracts::rehearsal::Outgoing;
use holdpoint_contracts::run::{ActionResult, RunStatus};
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_ids::NodeName;
use serde_json::{Value, json};

use super::recorder::Sent;
use super::sample::sample;
use super::script::{Called, ToolRule};
use super::world::{ACTOR, World};
use crate::domain::effect::Reply;
use crate::domain::input::{DeliveredStep, RunInput, StepReport};
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_tags::change_tags;

/// Code of a failure that the script gives none.
const SCRIPTED_FAILURE: &str = "scripted_failure";

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
        if let Err(refused) = self.change_contact(dispatch) {
            return failure(&refused.to_string());
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

    /// What a built-in tool does to the contact of the run.
    fn change_contact(&mut self, dispatch: &StepDispatch) -> Result<(), Refusal> {
        let args = &dispatch.args;
        let other = args.get("contact").and_then(Value::as_str);
        if other.is_some_and(|other| other != self.contact_id().as_str()) {
            return Ok(());
        }
        let tags = || {
            let one = args.get("tag").into_iter();
            let all = args.get("tags").and_then(Value::as_array);
            let tags = one.chain(all.into_iter().flatten());
            tags.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let change = match dispatch.tool.as_str() {
            "update_contact" => {
                let set = args.get("set").and_then(Value::as_object);
                self.patch_contact(set.cloned().unwrap_or_default());
                return Ok(());
            }
            "add_tag" => TagChange {
                add: tags(),
                ..TagChange::default()
            },
            "remove_tag" => TagChange {
                remove: tags(),
                ..TagChange::default()
            },
            _ => return Ok(()),
        };
        self.contact = change_tags(self.contact.clone(), &change)?;
        Ok(())
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
            ("search_contacts", None) => json!({ "contacts": [], "has_more": false }),
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
