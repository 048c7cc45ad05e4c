//! A worker with one tool, `echo`, which returns its arguments.
//!
//! `cargo run -p holdpoint-worker --example echo`, in the folder of `holdpoint up`, which leaves the address and
//! key of its bus in `holdpoint-data/cli.json`. For another bus set `HOLDPOINT_NATS_URL`.

use std::sync::Arc;

use anyhow::Context as _;
use holdpoint_bus::Bus;
use holdpoint_worker::tool::{Risk, ToolCall, ToolSuccess, tool_fn};
use holdpoint_worker::worker::{Worker, WorkerOptions};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter("info")
        .with_writer(std::io::stderr)
        .init();
    let bus = Bus::connect(&address()?, "echo").await?;

    // New at every start: a process id may come again, together with a run's id it does not.
    let node = format!("echo-{}", holdpoint_ids::RunId::fresh()).parse()?;
    let echo = tool_fn("echo", Risk::Low, |call: ToolCall| async move {
        Ok(ToolSuccess {
            description: "Echoed the arguments".to_owned(),
            data: call.dispatch.args,
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

/// The bus with its key: from the environment, else as `holdpoint up` left it.
fn address() -> anyhow::Result<String> {
    if let Ok(url) = std::env::var("HOLDPOINT_NATS_URL") {
        return Ok(url);
    }
    let folder = std::env::var("HOLDPOINT_DATA").unwrap_or_else(|_| "holdpoint-data".to_owned());
    let path = std::path::Path::new(&folder).join("cli.json");
    let text = std::fs::read(&path)
        .with_context(|| format!("{}; or set HOLDPOINT_NATS_URL", path.display()))?;
    let left: serde_json::Value = serde_json::from_slice(&text)?;
    let url = left.get("nats_url").and_then(serde_json::Value::as_str);
    Ok(url.context("cli.json has no nats_url")?.to_owned())
}
