//! How to write a worker: tools that steps of runs call.
//!
//! A worker is any process that reaches the bus. It brings tools, takes the steps that call them,
//! and reports what came of each. It decides nothing about a run, and may die at any point: a step
//! whose worker is gone is dispatched again, or put before a person where a second call could do
//! harm.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use holdpoint_bus::Bus;
//! use holdpoint_worker::tool::{ToolCall, ToolSuccess, tool_fn};
//! use holdpoint_worker::worker::{Worker, WorkerOptions};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let echo = tool_fn("echo", |call: ToolCall| async move {
//!     Ok(ToolSuccess {
//!         description: format!("Said it for {}", call.idempotency_key),
//!         data: call.args,
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
//! - A tool may be called twice for one step: whatever has an effect carries
//!   [`tool::ToolCall::idempotency_key`] along, which is the same each time.
//! - A failure is [`tool::ToolFailure`] with a stable code and a text for people. A panic fails
//!   the step with `tool_panicked`, a result over [`tools::MAX_INLINE_RESULT`] bytes with
//!   `result_too_large`.
//! - A tool asks people by [`tool::ToolCall::ask`]: it waits for the answer with its lease, or parks and
//!   is called again with it.
//! - A step that the executor stops (cancelled, taken over) is cut: the tool's future is dropped and
//!   [`tool::ToolCall::stop`] is cancelled.
//! - Commands and HTTP calls are tools without Rust: [`tools_file`].
//! - `cargo run -p holdpoint-worker --example echo` is a whole program.

pub mod ask;
pub mod tool;
pub mod tools;
pub mod tools_file;
pub mod worker;

pub use holdpoint_egress as targets;
