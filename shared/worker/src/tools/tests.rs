use std::sync::{Arc, Mutex};

use holdpoint_contracts::executor::PatchContact;
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{HTTP_QUEUE, StepDispatch};
use holdpoint_contracts::tool::{BUILT_IN, built_in_risk};
use holdpoint_ids::Workspace;
use serde_json::{Value, json};

use super::{
    ChangeTags, HttpRequest, Log, MailTransport, SendCommand, SendEmail, SetValues, UpdateContact,
    builtin,
};
use crate::{
    targets::EgressPolicy,
    tool::{CallCost, Risk, Tool, ToolCall, ToolFailure, ToolSuccess, tool_fn},
};

mod create_task;
mod http;
mod http_tool;
mod search_contacts;

/// A call of step `step-01` of run `run_01920000000070008000000000000001` at a fixed time.
pub(super) fn call(args: Value) -> ToolCall {
    ToolCall {
        dispatch: StepDispatch {
            workspace: "default".parse().unwrap(),
            run: "run_01920000000070008000000000000001".parse().unwrap(),
            agent: "outreach".parse().unwrap(),
            step: "step-01".to_owned(),
            dispatch: 7,
            attempt: 2,
            tool: "payments.refund".parse().unwrap(),
            args,
            contact: Some("ann".parse().unwrap()),
            idempotent: false,
            claim_timeout_ms: 30_000,
            timeout_ms: None,
            token: Some("st_secret".to_owned()),
            http: None,
            answers: holdpoint_contracts::asking::Answers::new(),
            feedback: None,
            resumed: false,
            user: holdpoint_contracts::Actor("owner".to_owned()),
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            at: "2026-03-01T09:00:00Z".parse().unwrap(),
        },
        bus: None,
        run_changes: crate::run_changes::RunChanges::default(),
        now: "2026-03-01T09:00:00Z".parse().unwrap(),
        stop: tokio_util::sync::CancellationToken::new(),
        suspension: crate::suspension::CallSuspension::default(),
        cost: CallCost::default(),
    }
}

pub(super) async fn failure(tool: &dyn Tool, args: Value) -> ToolFailure {
    tool.call(&call(args)).await.unwrap_err()
}

/// Commands that tools have sent.
type Sent<C> = Arc<Mutex<Vec<(Workspace, Envelope<C>)>>>;

/// A service that keeps each command and gives the same reply.
fn service<C: Command + 'static>(reply: Result<Value, Problem>) -> (SendCommand<C>, Sent<C>) {
    let sent = Sent::<C>::default();
    let kept = Arc::clone(&sent);
    let send: SendCommand<C> = Arc::new(move |workspace, envelope| {
        kept.lock().unwrap().push((workspace, envelope));
        let reply = reply.clone();
        Box::pin(async move { reply.map(|reply| serde_json::from_value(reply).unwrap()) })
    });
    (send, sent)
}

fn update_contact(reply: Result<Value, Problem>) -> (UpdateContact, Sent<PatchContact>) {
    let (patch_contact, sent) = service(reply);
    (UpdateContact { patch_contact }, sent)
}

fn patched() -> Result<Value, Problem> {
    Ok(json!({ "id": "ann" }))
}

/// S0-R5
#[tokio::test]
async fn a_logged_message_is_the_result() {
    let done = Log
        .call(&call(json!({ "message": "hello", "level": "warn" })))
        .await;
    assert_eq!(
        done,
        Ok(ToolSuccess {
            description: "Logged \"hello\"".to_owned(),
            data: json!({ "message": "hello" }),
        })
    );
    assert!(Log.call(&call(json!({ "message": "" }))).await.is_ok());
}

/// Words 5: later steps name what was set.
#[tokio::test]
async fn values_that_are_set_are_the_result() {
    let values = json!({ "total": 5, "idempotent": "no", "list": [1, { "a": null }] });
    let done = SetValues.call(&call(values.clone())).await;
    assert_eq!(
        done,
        Ok(ToolSuccess {
            description: "Set total, idempotent, list".to_owned(),
            data: values,
        })
    );
    for args in [json!({}), json!(null), json!([1])] {
        assert_eq!(failure(&SetValues, args).await.code, "invalid_args");
    }
}

/// S0-R5
#[tokio::test]
async fn wrong_arguments_are_named_and_their_values_are_not_quoted() {
    let email = {
        let mail = MailTransport::Maildir("nowhere".into());
        SendEmail::new(mail, None).unwrap()
    };
    let (contacts, _sent) = update_contact(patched());
    let cases: [(&dyn Tool, Value, &str); 8] = [
        (
            &Log,
            json!(null),
            "they must be an object with a name for every argument",
        ),
        (&Log, json!({}), "missing field `message`; add it"),
        (&Log, json!({ "message": 5 }), "`message` must be a string"),
        (
            &Log,
            json!({ "message": "m", "level": "loud" }),
            "`level` must be one of `debug`, `info`, `warn`, `error`",
        ),
        (
            &Log,
            json!({ "message": "m", "text": "hunter2" }),
            "unknown field `text`, expected one of `message`, `level`, `idempotent`; rename or remove it",
        ),
        (
            &email,
            json!({ "to": ["hunter2, expected hunter2"], "subject": "s", "body": "b" }),
            "`to` must be a string",
        ),
        (
            &contacts,
            json!({ "set": "hunter2" }),
            "`set` must be an object",
        ),
        (
            &contacts,
            json!({ "set": {} }),
            "`set` is empty; name at least one field to set, or null to remove it",
        ),
    ];
    for (tool, args, error) in cases {
        let failure = failure(tool, args).await;
        assert_eq!(failure.code, "invalid_args");
        assert_eq!(
            failure.message,
            format!("Arguments of {} are wrong: {error}.", tool.name())
        );
        assert!(!failure.message.contains("hunter2"), "{failure:?}");
    }
}

/// S2-R10
#[tokio::test]
async fn a_closure_is_a_tool_that_sees_the_whole_call() {
    let tool = tool_fn("greet", Risk::Low, |call: ToolCall| async move {
        Ok(ToolSuccess {
            description: {
                let StepDispatch {
                    workspace,
                    run,
                    attempt,
                    ..
                } = &call.dispatch;
                format!("{workspace} {run} {attempt}")
            },
            data: call.dispatch.args,
        })
    });
    let done = tool.call(&call(json!({ "a": 1 }))).await.unwrap();
    assert_eq!(tool.name(), "greet");
    assert_eq!(
        done.description,
        "default run_01920000000070008000000000000001 2"
    );
    assert_eq!(done.data, json!({ "a": 1 }));
}

/// S0-R5
#[test]
fn a_call_in_the_log_shows_neither_token_nor_arguments() {
    let shown = format!("{:?}", call(json!({ "password": "hunter2" })));
    assert!(shown.contains("run_01920000000070008000000000000001"));
    assert!(
        !shown.contains("st_secret") && !shown.contains("hunter2"),
        "{shown}"
    );
}

/// S0-R5
#[tokio::test]
async fn a_contact_is_patched_once_for_one_step() {
    let (tool, sent) = update_contact(patched());
    let args = json!({ "set": { "stage": "won", "note": null } });
    let done = tool.call(&call(args)).await.unwrap();
    assert_eq!(done.description, "Contact ann updated: stage, note");
    assert_eq!(
        done.data,
        json!({ "contact": "ann", "set": { "stage": "won", "note": null } })
    );
    let other = json!({ "set": { "stage": "won" }, "contact": "bob" });
    tool.call(&call(other)).await.unwrap();
    let sent = sent.lock().unwrap();
    let (workspace, envelope) = &sent[0];
    let PatchContact { contact, patch, .. } = &envelope.command;
    assert_eq!((workspace.as_str(), contact.as_str()), ("default", "ann"));
    assert_eq!(json!(patch), json!({ "stage": "won", "note": null }));
    let key = envelope.key.as_ref().unwrap();
    assert_eq!(
        key.key,
        "run_01920000000070008000000000000001/step-01:contact"
    );
    assert_eq!(sent[1].1.command.contact.as_str(), "bob");
}

/// Words 5: the executor changes the tags, once for one step.
#[tokio::test]
async fn tags_are_changed_once_for_one_step() {
    let reply = json!({ "id": "ann", "tags": ["eu", "vip"] });
    for (is_added, description) in [
        (true, "Tag \"vip\" added to contact ann"),
        (false, "Tag \"vip\" removed from contact ann"),
    ] {
        let (patch_contact, sent) = service(Ok(reply.clone()));
        let tool = ChangeTags {
            is_added,
            patch_contact,
        };
        let done = tool.call(&call(json!({ "tag": "vip" }))).await.unwrap();
        assert_eq!(done.description, description);
        assert_eq!(
            done.data,
            json!({ "contact": "ann", "tags": ["eu", "vip"] })
        );
        let several = json!({ "tags": ["a", "b"], "contact": "bob", "idempotent": true });
        tool.call(&call(several)).await.unwrap();
        let refused = failure(&tool, json!({ "tags": [] })).await;
        assert!(refused.message.contains("names no tag"), "{refused}");
        let (patch_contact, _sent) = service(Err(Problem::new(422, "invalid_body", "No.")));
        let tool = ChangeTags {
            is_added,
            patch_contact,
        };
        let refused = failure(&tool, json!({ "tag": "x" })).await;
        assert_eq!(
            (refused.code.as_str(), refused.message.as_str()),
            ("invalid_args", "No.")
        );
        let sent = sent.lock().unwrap();
        let names = if is_added { "add" } else { "remove" };
        assert_eq!(
            json!(sent[0].1.command),
            json!({ "contact": "ann", "patch": {}, "tags": { names: ["vip"] } })
        );
        assert_eq!(
            json!(sent[1].1.command),
            json!({ "contact": "bob", "patch": {}, "tags": { names: ["a", "b"] } })
        );
        let key = sent[0].1.key.as_ref().unwrap();
        assert_eq!(
            key.key,
            "run_01920000000070008000000000000001/step-01:contact"
        );
    }
}

/// S0-R5
#[tokio::test]
async fn a_contact_that_cannot_be_updated_fails_the_step_with_its_reason() {
    let (tool, _sent) = update_contact(Err(Problem::not_found("Contact ann does not exist.")));
    let args = json!({ "set": { "stage": "won" } });
    let refused = failure(&tool, args.clone()).await;
    assert_eq!(refused.code, "contact_not_updated");
    assert_eq!(refused.message, "Contact ann does not exist.");

    let mut without = call(args);
    without.dispatch.contact = None;
    let none = tool.call(&without).await.unwrap_err();
    assert_eq!(none.code, "no_contact");

    let other = json!({ "set": { "stage": "won" }, "contact": "a b" });
    let invalid = failure(&tool, other).await;
    assert_eq!(invalid.code, "contact_not_updated");
    assert!(invalid.message.contains("invalid contact id"), "{invalid}");

    let renamed = failure(&tool, json!({ "set": { "id": "x" } })).await;
    assert_eq!(renamed.code, "invalid_args");
}

/// S2-R10
#[tokio::test]
async fn every_built_in_tool_has_the_name_that_steps_use() {
    http::install_tls();
    let tools = builtin(
        HttpRequest::new(
            EgressPolicy::AllowPrivate,
            super::http_request::DEFAULT_TIMEOUT,
        )
        .unwrap(),
        SendEmail::new(MailTransport::Maildir("nowhere".into()), None).unwrap(),
        service(patched()).0,
        service(patched()).0,
        search_contacts::directory(Vec::new()).0,
    );
    let built_in = tools.iter().filter(|tool| tool.name() != HTTP_QUEUE);
    for tool in built_in.clone() {
        assert_eq!(tool.risk(), built_in_risk(tool.name()), "{}", tool.name());
    }
    assert!(built_in.map(|tool| tool.name()).eq(BUILT_IN));
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(
        names,
        [
            "log",
            "set",
            "http_request",
            "send_email",
            "add_tag",
            "remove_tag",
            "update_contact",
            "search_contacts",
            "create_task",
            HTTP_QUEUE
        ]
    );
}
