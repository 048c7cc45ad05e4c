//! A worker with one tool, `echo`, which returns its arguments.
//!
//! `HOLDPOINT_NATS_URL=nats://127.0.0.1:4222 cargo run -p holdpoint-worker --example echo`

use std::sync::Arc;

use anyhow::Context as _;
use holdpoint_bus::Bus;
use holdpoint_worker::tool::{ToolCall, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter("info")
        .with_writer(std::io::stderr)
        .init();
    let url = std::env::var("HOLDPOINT_NATS_URL")
        .context("set HOLDPOINT_NATS_URL to the server that `holdpoint up` says it uses")?;
    let bus = Bus::connect(&url, "echo").await?;

    // New at every start: a process id may come again, together with a run's id it does not.
    let node = format!("echo-{}", holdpoint_ids::RunId::fresh()).parse()?;
    let echo = tool_fn("echo", |call: ToolCall| async move {
        Ok(ToolSuccess {
            description: "Echoed the arguments".to_owned(),
            data: call.args,
        })
    });

    let stop = CancellationToken::new();
    let ended = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            ended.cancel();
        }
    });
    Worker::new(bus, WorkerOptions::new(node))
        .tool(Arc::new(echo))
        .run(stop)
        .await?;
    Ok(())
}
