//! What a node registers before it takes steps (S2-R2).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::{Worker, WorkerOptions};
use super::fixture::{Executor, Fixture, Manner, RunningWorker, step, until};
use crate::tool::{Risk, ToolCall, ToolDefinition, ToolFailure, ToolRetry, tool_fn};

/// S2-R3: until then the executor does not know the risk of this definition.
#[tokio::test]
async fn a_node_takes_no_step_before_its_tools_are_registered() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        ignored_registrations: 1,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let working = RunningWorker::start(&fixture, 8, 8);
    fixture.publish(&[step(true)]).await;
    until(15, "it is registered", async || {
        executor.received().registered.len() == 2
    })
    .await;
    assert_eq!(
        executor.received().registered[1].1,
        0,
        "no heartbeat before"
    );
    working.called(1).await;
    fixture.end().await;
}

/// S2-R3: a node whose registration gets no reply can be stopped.
#[tokio::test]
async fn a_node_that_waits_for_its_registration_can_be_stopped() {
    let fixture = Fixture::new().await;
    let working = RunningWorker::start(&fixture, 8, 8);
    working.stop.cancel();
    working.ended().await;
    fixture.end().await;
}

/// S2-R3: a definition that is refused or not stored at once leaves no doubt about the risk.
#[tokio::test]
async fn the_risk_of_a_refused_definition_is_registered_all_the_same() {
    let fixture = Fixture::new().await;
    let manner = Manner {
        refuses_schemas: true,
        unavailable_registrations: 1,
        ..Manner::default()
    };
    let executor = Executor::start(&fixture, manner).await;
    let definition = ToolDefinition {
        version: Some("2".to_owned()),
        args_schema: Some(json!({ "$ref": "#" })),
        ..ToolDefinition::default()
    };
    let tool = tool_fn("work", Risk::High, |_: ToolCall| async {
        Err(ToolFailure::new("no", "no"))
    });
    let tool = tool.with_definition(definition);
    let options = WorkerOptions::new("local-7f3a".parse().unwrap());
    let worker = Worker::new(fixture.bus.clone(), options).tool(Arc::new(tool));
    let _running = AbortOnDropHandle::new(tokio::spawn(worker.run(CancellationToken::new())));
    executor.wait_for_heartbeat("a first beat", |_| true).await;
    let registered = executor.received().registered;
    let sent = registered.iter().map(|(tools, _)| {
        let tool = &tools[0];
        assert_eq!(
            (tool.risk, tool.version.as_deref()),
            (Risk::High, Some("2"))
        );
        tool.args_schema.is_some()
    });
    assert_eq!(sent.collect::<Vec<_>>(), [true, true, false]);
    fixture.end().await;
}

/// S2-R2: an invalid limit leaves the schemas of its tool registered.
#[tokio::test]
async fn an_invalid_limit_is_left_out() {
    let fixture = Fixture::new().await;
    let executor = Executor::start(&fixture, Manner::default()).await;
    let definition = ToolDefinition {
        args_schema: Some(json!({ "type": "object" })),
        timeout: Some(Duration::from_millis(1)),
        retry: Some(ToolRetry {
            attempts: 0,
            backoff: 1_000,
            max_backoff: None,
            on: Vec::new(),
        }),
        secrets: ["a key".to_owned(), "CRM_KEY".to_owned()].into(),
        redaction: ["args.key".to_owned(), "arguments.pin".to_owned()].into(),
        ..ToolDefinition::default()
    };
    let tool = tool_fn("work", Risk::Low, |_: ToolCall| async {
        Err(ToolFailure::new("no", "no"))
    });
    let options = WorkerOptions::new("local-7f3a".parse().unwrap());
    let tool = tool.with_definition(definition);
    let worker = Worker::new(fixture.bus.clone(), options).tool(Arc::new(tool));
    let _running = AbortOnDropHandle::new(tokio::spawn(worker.run(CancellationToken::new())));
    executor.wait_for_heartbeat("a first beat", |_| true).await;
    let registered = executor.received().registered;
    let tool = &registered[0].0[0];
    assert!(tool.args_schema.is_some());
    assert_eq!((tool.timeout, &tool.retry), (None, &None));
    assert_eq!(tool.secrets, ["CRM_KEY"]);
    // It is not known which part the author means.
    let hidden = ["args", "result"].map(str::to_owned).to_vec();
    assert_eq!(tool.redaction, Some(hidden));
    fixture.end().await;
}
