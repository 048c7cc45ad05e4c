//! What tools return in a rehearsal.

use holdpoint_contracts::contact::{CONTACT_BYTES_MAX, TagChange};
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::{Grant, StepDispatch};
use holdpoint_holds::json_schema::{join_errors, value_errors};
use holdpoint_holds::{Recipient, inactive_text};
use holdpoint_ids::NodeName;
use serde_json::{Value, json};

use super::in_memory_run::{ACTOR, InMemoryRun};
use super::sample::sample;
use super::script::{Called, ToolRule};
use crate::domain::effect::Reply;
use crate::domain::input::{DeliveredStep, RunInput, StepReport};
use crate::domain::model::contact::has_replied;
use crate::domain::model::tool::{CREATE_TASK, is_built_in};
use crate::domain::refusal::Refusal;
use crate::domain::rules::contact_patch::merge_patch;
use crate::domain::rules::contact_tags::change_tags;

/// Code of a call whose arguments a built-in tool refuses.
const INVALID_ARGS: &str = "invalid_args";

/// Code of `create_task` for a user who does not exist or is disabled.
const TASK_NOT_CREATED: &str = "task_not_created";

/// Code of a failure that the script gives none.
const SCRIPTED_FAILURE: &str = "scripted_failure";

impl InMemoryRun<'_> {
    /// Does one call, or tells one run of another.
    pub(super) fn work(&mut self) -> Result<(), String> {
        if let Some(dispatch) = self.dispatched.pop_front() {
            return self.call(&dispatch);
        }
        if let Some(child) = self.desired_children.pop_front() {
            self.set_child(child);
        } else if let Some(end) = self.child_ends.pop_front() {
            self.end_child(end);
        }
        Ok(())
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
            self.give(dispatch.run, start),
            Ok(Reply::Grant(Grant::Go | Grant::GoWithoutLease))
        );
        // The gate keeps it, or the run has ended.
        if !is_granted {
            self.withdraw_call(dispatch);
            return Ok(());
        }
        let number = self.count_call(dispatch.run, &dispatch.step);
        let step = self.placed(dispatch.run, Some(&dispatch.step));
        let called = Called {
            step: step.as_deref().unwrap_or_default(),
            tool: Some(dispatch.tool.as_str()),
            agent: None,
            number,
        };
        let rule = self.setup.script.tool(&called, self.contact_id());
        let (result, error_code) = self.result_of(dispatch, rule)?;
        let report = StepReport {
            node,
            step: dispatch.step.clone(),
            dispatch: dispatch.dispatch,
            result,
            error_code,
            cost: None,
        };
        // A run that has ended ignores it.
        drop(self.give(dispatch.run, RunInput::StepResult(report)));
        Ok(())
    }

    /// No worker starts the call.
    pub(super) fn withdraw_call(&mut self, dispatch: &StepDispatch) {
        let step = self.placed(dispatch.run, Some(&dispatch.step));
        self.recorder.withdraw_call(dispatch, step.as_deref());
    }

    /// The result of a call, with the code of a failure.
    fn result_of(
        &mut self,
        dispatch: &StepDispatch,
        rule: Option<&ToolRule>,
    ) -> Result<(ActionResult, Option<String>), String> {
        if let Some(error) = rule.and_then(|rule| rule.fail.as_ref()) {
            return Ok((failure(error), Some(code_of(rule))));
        }
        let tool = dispatch.tool.as_str();
        if tool == CREATE_TASK {
            let to = dispatch.args.get("assignee").and_then(Value::as_str);
            let to = to.map(|to| match to.trim() {
                to if to.starts_with('@') => to.to_owned(),
                to => Recipient::user_text(&to),
            });
            let to = Vec::from_iter(to);
            let audience = self.setup.users.audience(&to);
            if let Some(name) = &audience.inactive {
                let error = format!("`assignee`: {}", inactive_text(name));
                return Ok((failure(&error), Some(TASK_NOT_CREATED.to_owned())));
            }
            self.recorder.count_request(&audience);
        }
        if let Err(refused) = self.change_contact(dispatch) {
            return Ok((failure(&refused.to_string()), Some(INVALID_ARGS.to_owned())));
        }
        let data = match rule.and_then(|rule| rule.result.clone()) {
            Some(data) => data,
            None if is_built_in(tool) => self.built_in_result(dispatch),
            None => self.sample_result(dispatch)?,
        };
        let result = ActionResult {
            success: true,
            description: "Rehearsed.".to_owned(),
            error: None,
            data,
            duration_ms: 0,
        };
        Ok((result, None))
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
        let none = TagChange::default();
        let next = match dispatch.tool.as_str() {
            "update_contact" => {
                let set = args.get("set").and_then(Value::as_object);
                let set = set.cloned().unwrap_or_default();
                merge_patch(&self.contact, &set)
            }
            "add_tag" => change_tags(
                self.contact.clone(),
                &TagChange {
                    add: tags(),
                    ..none
                },
            )?,
            "remove_tag" => {
                let remove = tags();
                change_tags(self.contact.clone(), &TagChange { remove, ..none })?
            }
            _ => return Ok(()),
        };
        let bytes = json_bytes(&next);
        if bytes > CONTACT_BYTES_MAX {
            let id = self.contact_id().clone();
            return Err(Refusal::ContactTooLarge { id, bytes });
        }
        let has_new_reply = has_replied(&next) && !has_replied(&self.contact);
        self.contact = next;
        if has_new_reply {
            // Another step of a run may wait for the reply.
            self.give_all(|| RunInput::ContactReplied);
        }
        Ok(())
    }

    /// The documented fields of the result of a built-in tool (docs/tools.md).
    pub(super) fn built_in_result(&self, dispatch: &StepDispatch) -> Value {
        let args = &dispatch.args;
        let contact = args.get("contact").cloned();
        let contact = contact.unwrap_or_else(|| json!(self.contact_id()));
        let id = format!("{}-{}", dispatch.step, dispatch.dispatch);
        match dispatch.tool.as_str() {
            "log" => json!({ "message": args.get("message") }),
            "http_request" => json!({ "status": 200, "headers": {}, "body": null }),
            "send_email" => json!({
                "message_id": format!("<{id}@rehearsal>"), "to": args.get("to"),
                "subject": args.get("subject"), "text": args.get("body"),
            }),
            "update_contact" => json!({ "contact": contact, "set": args.get("set") }),
            "add_tag" | "remove_tag" => {
                json!({ "contact": contact, "tags": self.contact.get("tags") })
            }
            CREATE_TASK => json!({
                "task_id": id, "assignee": args.get("assignee"), "due": null,
                "action_url": format!("/tasks/{id}?action=handoff"),
            }),
            "search_contacts" => json!({ "contacts": [], "has_more": false }),
            _ => args.clone(),
        }
    }

    /// What the schema of a tool describes; without a schema, the arguments.
    fn sample_result(&self, dispatch: &StepDispatch) -> Result<Value, String> {
        let mut tools = self.setup.tools.iter();
        let schema = tools.find_map(|tool| {
            let is_it = tool.spec.name == dispatch.tool && !tool.deleted;
            tool.spec.result_schema.as_ref().filter(|_| is_it)
        });
        let Some(schema) = schema else {
            return Ok(dispatch.args.clone());
        };
        let sample = sample(schema);
        let errors = value_errors(schema, &sample);
        if errors.is_empty() {
            return Ok(sample);
        }
        let (tool, errors) = (&dispatch.tool, join_errors(&errors));
        Err(format!(
            "`tools` needs a `result` for {tool}: a sample of its schema does not fit it ({errors})"
        ))
    }
}

pub(super) fn code_of(rule: Option<&ToolRule>) -> String {
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
