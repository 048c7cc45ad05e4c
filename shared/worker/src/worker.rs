//! The worker: takes steps from their queues, calls tools, and reports what came of it.
//!
//! Owns how many steps run at once, and start and end of a worker. It must never decide about a
//! run: whether a step may start and what follows its result is the executor's word. What a
//! delivery holds lives in `held`, the pulls in `pulling`, the way of one step in `job`.

mod asking;
mod batch;
mod contacts;
mod held;
mod job;
mod outcome;
mod pulling;
mod results;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_ids::{IdError, NodeName, ToolName};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::asking::Asker;
pub use self::contacts::BusContacts;
use self::held::Held;
use self::job::Bench;
use self::pulling::Queue;
use self::results::Reporter;
use crate::tool::Tool;

/// Steps at once, unless said otherwise.
pub const CONCURRENCY: usize = 64;

/// Most steps at once that can be asked for; more are cut to this.
pub const CONCURRENCY_MAX: usize = 4_096;

/// How long a stopped worker waits for its tools and for their results to be confirmed.
pub const DRAIN: Duration = Duration::from_secs(8);

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its name, unlike that of any other process and of any earlier start of this one: the
    /// executor takes a second grant under the same name for an answer that was lost.
    pub node: NodeName,
    /// How many steps it works on at once, 1 to [`CONCURRENCY_MAX`].
    pub concurrency: usize,
    /// What tools get as the time of their call.
    pub clock: Clock,
}

impl WorkerOptions {
    /// [`CONCURRENCY`] steps at once, by the machine's clock.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            concurrency: CONCURRENCY,
            clock: Clock::system(),
        }
    }
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Without tools there is nothing to take.
    #[error("a worker without tools has nothing to do: add one with `.tool(…)`")]
    NoTools,
    /// Two tools under one name.
    #[error("two tools are called `{name}`: leave one of them out")]
    TwoTools {
        /// The name.
        name: String,
    },
    /// A tool whose name no step can use.
    #[error("a tool has a name that no step can use")]
    Name(#[from] IdError),
    /// The stream of steps cannot be had.
    #[error("the worker cannot reach its steps")]
    Bus(#[from] BusError),
}

/// Takes steps and calls tools until it is stopped (S4-R2).
pub struct Worker {
    bus: Bus,
    options: WorkerOptions,
    tools: Vec<Arc<dyn Tool>>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker without tools.
    #[must_use]
    pub fn new(bus: Bus, options: WorkerOptions) -> Self {
        Self {
            bus,
            options,
            tools: Vec::new(),
        }
    }

    /// The same with one tool more.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Works until `stop` is cancelled, then takes nothing more, waits at most [`DRAIN`] for the
    /// tools that run and for their results to be confirmed, and returns. What is not finished by
    /// then is delivered again, to this worker's next start or to another.
    ///
    /// Dropping the future ends everything at once, with the same consequence.
    ///
    /// # Errors
    /// [`WorkerError`] when it cannot start; later troubles are logged and tried again.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let tools = by_name(self.tools)?;
        self.bus.provide_stream(StreamUse::Steps).await?;
        let held = Held::new(self.bus.clone());
        let heartbeat = AbortOnDropHandle::new(tokio::spawn(held.clone().beat()));
        let (asker, asking) = Asker::start(self.bus.clone(), self.options.node.clone());
        let (reporter, reporting) = Reporter::start(self.bus.clone(), self.options.node.clone());
        let bench = Arc::new(Bench {
            clock: self.options.clock,
            result_max: outcome::result_max(self.bus.max_payload()),
            held,
            asker,
            reporter,
        });

        let given_up = CancellationToken::new();
        let _end_jobs = given_up.clone().drop_guard();
        let places = Arc::new(Semaphore::new(
            self.options.concurrency.clamp(1, CONCURRENCY_MAX),
        ));
        let jobs = TaskTracker::new();
        let mut queues = JoinSet::new();
        for (name, tool) in tools {
            let queue = Queue {
                name,
                tool,
                bus: self.bus.clone(),
                places: Arc::clone(&places),
                bench: Arc::clone(&bench),
                jobs: jobs.clone(),
                given_up: given_up.clone(),
            };
            queues.spawn(queue.take_until(stop.clone()));
        }
        tracing::info!(node = %self.options.node, queues = queues.len(), "the worker takes steps");
        while let Some(ended) = queues.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a queue is not read any more");
            }
        }

        jobs.close();
        let drained = tokio::time::timeout(DRAIN, async {
            jobs.wait().await;
            // The last senders go with it: what they sent is still delivered.
            drop(bench);
            let (asked, reported) = (asking.await, reporting.await);
            for error in [asked.err(), reported.err()].into_iter().flatten() {
                tracing::error!(%error, "a part of the worker broke");
            }
        });
        if drained.await.is_err() {
            tracing::warn!(
                left = jobs.len(),
                "stopped with unfinished steps: idempotent ones start again, others will stand uncertain"
            );
        }
        drop(heartbeat);
        self.bus.flush(Duration::from_secs(1)).await;
        Ok(())
    }
}

fn by_name(tools: Vec<Arc<dyn Tool>>) -> Result<BTreeMap<ToolName, Arc<dyn Tool>>, WorkerError> {
    let mut named = BTreeMap::new();
    for tool in tools {
        let name: ToolName = tool.name().parse()?;
        if named.insert(name.clone(), tool).is_some() {
            let name = name.to_string();
            return Err(WorkerError::TwoTools { name });
        }
    }
    if named.is_empty() {
        return Err(WorkerError::NoTools);
    }
    Ok(named)
}
