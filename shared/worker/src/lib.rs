//! How to write a worker: tools that steps of runs call.
//!
//! A worker is any process that can connect to the bus. It has tools, receives the steps that call them, and
//! reports their results. It decides nothing about a run and may die at any point. A step whose worker has died
//! is dispatched again. If a second call could do harm, a person decides.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use holdpoint_bus::Bus;
//! use holdpoint_worker::tool::{Risk, ToolCall, ToolSuccess, tool_fn};
//! use holdpoint_worker::worker::{Worker, WorkerOptions};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let echo = tool_fn("echo", Risk::Low, |call: ToolCall| async move {
//!     Ok(ToolSuccess {
//!         description: format!("Said it for {}", call.dispatch.idempotency_key()),
//!         data: call.dispatch.args,
//!     })
//! });
//! let bus = Bus::connect("nats://KEY@127.0.0.1:4222", "my-worker").await?;
//! let options = WorkerOptions::new("my-worker-7f3a".parse()?);
//! let stop = CancellationToken::new();
//! Worker::new(bus, options).tool(Arc::new(echo)).run(stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - The name of the node must be new at every start of the process.
//! - A tool may be called twice for one step. Pass the `idempotency_key` of [`tool::ToolCall::dispatch`], which is the same each
//!   time, to every system where the tool has an effect.
//! - A failure is a [`tool::ToolFailure`] with a stable code and a text for people. A panic fails the step with
//!   `tool_panicked`, and a result over [`tools::MAX_INLINE_RESULT`] bytes with `result_too_large`.
//! - A tool asks people with [`tool::ToolCall::ask`]. It either waits for the answer and keeps its lease, or
//!   parks and is called again with the answer.
//! - When the executor stops a step (cancelled or taken over), the tool's future is dropped and
//!   [`tool::ToolCall::stop`] is cancelled.
//! - Commands and HTTP calls can be tools without Rust: see [`tools_file`].
//! - `cargo run -p holdpoint-worker --example echo` is a complete program.

pub mod ask;
mod redaction;
mod run_changes;
mod secrets;
pub mod suspension;
pub mod tool;
pub mod tools;
pub mod tools_file;
pub mod worker;

pub use holdpoint_egress as targets;
