//! The worker: takes steps from their queues, calls tools, and reports what came of it.
//!
//! Owns how many steps run at once, and start and end of a worker. It must never decide about a
//! run: whether a step may start and what follows its result is the executor's word. What this
//! worker holds lives in `held`, the pulls in `pulling`, the way of one step in `job`, what keeps
//! its leases in `heartbeat`.

mod asking;
mod batch;
mod contacts;
mod heartbeat;
mod held;
mod job;
mod outcome;
mod patience;
mod pulling;
mod results;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use holdpoint_bus::{Bus, BusError};
use holdpoint_clock::Clock;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::subject;
use holdpoint_ids::{IdError, NodeName, ToolName, Workspace};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::asking::Asker;
pub use self::contacts::BusContacts;
use self::heartbeat::Heart;
use self::held::LeaseTable;
use self::job::JobContext;
use self::pulling::Queue;
use self::results::Reporter;
pub use self::tasks::BusTasks;
use crate::tool::{Tool, ToolCall};
use crate::tools::MAX_INLINE_RESULT;

/// Steps at once, unless said otherwise.
pub const CONCURRENCY: usize = 64;

/// Most steps at once that can be asked for; more are cut to this.
pub const CONCURRENCY_MAX: usize = 4_096;

/// How long a stopped worker waits for its tools and for their results to be confirmed.
pub const DRAIN: Duration = Duration::from_secs(8);

/// How long the last words of a stopped worker may take to leave.
const FLUSH: Duration = Duration::from_secs(1);

/// Calls a tool for a dispatch outside of a worker, with the limits that a worker has; a panic is a
/// failure of the step. Whoever calls it has the grant, and reports what came of it.
pub async fn call_tool(
    tool: Arc<dyn Tool>,
    step_dispatch: &StepDispatch,
    clock: &Clock,
) -> (ActionResult, Option<String>) {
    let call = ToolCall::of(step_dispatch, clock.now(), CancellationToken::new());
    let done = outcome::call(tool, call, MAX_INLINE_RESULT).await;
    (done.result, done.error_code)
}

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
    TwoTools { name: String },
    /// A tool whose name no step can use.
    #[error("a tool has a name that no step can use")]
    Name(#[from] IdError),
    /// Nobody could ask the node to beat.
    #[error("the worker cannot listen for its name")]
    Listen(#[from] async_nats::SubscribeError),
    /// The stream of steps cannot be had.
    #[error("the worker cannot reach its steps")]
    Bus(#[from] BusError),
}

/// Takes steps and calls tools until it is stopped (S4-R2).
pub struct Worker {
    bus: Bus,
    options: WorkerOptions,
    tools: Vec<Arc<dyn Tool>>,
    busy: Arc<AtomicUsize>,
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
            busy: Arc::default(),
        }
    }

    /// How many steps it holds: delivered, at work, or with a result that is not confirmed.
    #[must_use]
    pub fn busy(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.busy)
    }

    /// The same with one tool more.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Works until `stop` is cancelled, then takes nothing more, waits at most [`DRAIN`] for the
    /// tools that run and for their results to be confirmed, takes its leave of the executor (a
    /// second at most) and returns. What is not finished by then is stopped and dispatched again,
    /// or stands uncertain.
    ///
    /// Dropping the future ends everything at once; leases then end by the executor's clock.
    ///
    /// # Errors
    /// [`WorkerError`] when it cannot start; later troubles are logged and tried again.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let tools = by_name(self.tools)?;
        let (bus, node) = (self.bus, self.options.node);
        let system: Workspace = subject::SYSTEM_WORKSPACE.parse()?;
        let asked_to_beat = bus.client().subscribe(subject::node(&node)).await?;

        let given_up = CancellationToken::new();
        let _end_all = given_up.clone().drop_guard();
        let held = LeaseTable::new(bus.clone(), given_up.clone(), self.busy);
        let progress = AbortOnDropHandle::new(tokio::spawn(held.clone().keep_deliveries()));
        let waiting = Arc::new(AtomicU64::new(0));
        let heart = Heart {
            bus: bus.clone(),
            workspace: system.clone(),
            node: node.clone(),
            tools: tools.keys().cloned().collect(),
            held: held.clone(),
            waiting: Arc::clone(&waiting),
        };
        let heart = AbortOnDropHandle::new(tokio::spawn(heart.heartbeat(asked_to_beat)));
        let (asker, asking) = Asker::start(bus.clone(), node.clone());
        let (reporter, reporting) = Reporter::start(bus.clone(), node.clone(), given_up.clone());
        let bench = Arc::new(JobContext {
            bus: bus.clone(),
            clock: self.options.clock,
            result_max: outcome::result_max(bus.max_payload()),
            held,
            asker,
            reporter,
        });
        let places = self.options.concurrency.clamp(1, CONCURRENCY_MAX);
        let crew = WorkerTasks {
            bus: bus.clone(),
            places: Arc::new(Semaphore::new(places)),
            waiting,
            jobs: TaskTracker::new(),
            given_up: given_up.clone(),
        };
        tracing::info!(%node, queues = tools.len(), "the worker takes steps");
        crew.take_until(&stop, tools, &bench).await;

        crew.jobs.close();
        let drained = tokio::time::timeout(DRAIN, async {
            crew.jobs.wait().await;
            // The last senders go with it: what they sent is still delivered.
            drop(bench);
            let (asked, reported) = (asking.await, reporting.await);
            for error in [asked.err(), reported.err()].into_iter().flatten() {
                tracing::error!(%error, "a part of the worker broke");
            }
        });
        if drained.await.is_err() {
            tracing::warn!(
                left = crew.jobs.len(),
                "stopped with unfinished steps: idempotent ones start again, others will stand uncertain"
            );
        }
        given_up.cancel();
        // A beat after the deregistration would take it back.
        drop((heart, progress));
        heartbeat::deregister(&bus, &system, node).await;
        bus.flush(FLUSH).await;
        Ok(())
    }
}

/// What all queues of a worker share.
struct WorkerTasks {
    bus: Bus,
    places: Arc<Semaphore>,
    waiting: Arc<AtomicU64>,
    jobs: TaskTracker,
    given_up: CancellationToken,
}

impl WorkerTasks {
    async fn take_until(
        &self,
        stop: &CancellationToken,
        tools: BTreeMap<ToolName, Arc<dyn Tool>>,
        bench: &Arc<JobContext>,
    ) {
        let mut queues = JoinSet::new();
        for (name, tool) in tools {
            let queue = Queue {
                name,
                tool,
                bus: self.bus.clone(),
                places: Arc::clone(&self.places),
                waiting: Arc::clone(&self.waiting),
                bench: Arc::clone(bench),
                jobs: self.jobs.clone(),
                given_up: self.given_up.clone(),
            };
            queues.spawn(queue.take_until(stop.clone()));
        }
        while let Some(ended) = queues.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a queue is not read any more");
            }
        }
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
