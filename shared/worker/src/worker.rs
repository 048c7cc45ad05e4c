//! The worker: receives steps from their queues, calls tools, and reports the results.
//!
//! Owns start and end of a worker, and how many steps run at once. It must never decide about a run: the
//! executor decides whether a step may start and what follows its result.
//!
//! `lease_table` contains the held steps, `consumer` the pulls, `job` the execution of one step, and
//! `heartbeat` the renewal of leases.

mod batch;
mod blobs;
mod consumer;
mod continued;
mod heartbeat;
mod job;
mod lease_table;
mod outcome;
mod registration;
mod results;
mod sandbox_removal;
mod slots;
mod start_requests;
mod suspension;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use holdpoint_bus::{Bus, BusError};
use holdpoint_clock::Clock;
use holdpoint_contracts::run::ActionResult;
use holdpoint_contracts::steps::StepDispatch;
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_ids::{IdError, NodeName, RunId, ToolName, Workspace};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::consumer::Queue;
use self::heartbeat::HeartbeatTask;
use self::job::JobContext;
use self::lease_table::LeaseTable;
use self::registration::Registration;
use self::results::Reporter;
use self::slots::Slots;
use self::start_requests::StartRequester;
use self::suspension::{SuspendableStep, Suspender};
use crate::run_changes::RunChanges;
use crate::suspension::CallSuspension;
use crate::suspension::sandbox::Sandboxes;
use crate::tool::{CallCost, Tool, ToolCall};
use crate::tools::MAX_INLINE_RESULT;

/// Default number of steps at once.
pub const CONCURRENCY: usize = 64;

/// Largest number of steps at once. Larger values are reduced to it.
pub const CONCURRENCY_MAX: usize = 4_096;

/// How long a stopping worker waits for its tools and for the acknowledgement of their results.
pub const DRAIN: Duration = Duration::from_secs(8);

/// How long the last messages of a stopping worker may take.
const FLUSH: Duration = Duration::from_secs(1);

/// How long a stopping worker may report its unfinished steps.
const SUSPEND: Duration = Duration::from_secs(4);

/// Calls a tool for a dispatch outside of a worker, with the limits of a worker. A panic is a failure of the
/// step. The caller must have the grant, and reports the result.
pub async fn call_tool(
    tool: Arc<dyn Tool>,
    step_dispatch: &StepDispatch,
    clock: &Clock,
) -> (ActionResult, Option<String>) {
    let call = ToolCall {
        dispatch: step_dispatch.clone(),
        bus: None,
        run_changes: RunChanges::default(),
        now: clock.now(),
        stop: CancellationToken::new(),
        suspension: CallSuspension::default(),
        cost: CallCost::default(),
    };
    let done = outcome::call(tool, call, MAX_INLINE_RESULT).await;
    (done.result, done.error_code)
}

/// A new name for every start: a prefix and the end of a new run id, which is random.
///
/// # Errors
/// The prefix is invalid or too long.
pub fn new_node_name(prefix: &str) -> Result<NodeName, IdError> {
    let id = RunId::fresh().to_string();
    let nonce: String = id.chars().rev().take(8).collect();
    format!("{prefix}-{nonce}").parse()
}

#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The node's name. It must be new at every start: the executor answers a second request of the same node
    /// with the same grant, because the first reply may have been lost.
    pub node: NodeName,
    /// Number of steps at once, 1 to [`CONCURRENCY_MAX`].
    pub concurrency: usize,
    /// The source of [`ToolCall::now`].
    pub clock: Clock,
    /// Directory of the sandboxes of its tools. It is made when a tool needs one.
    pub sandboxes: PathBuf,
}

/// Default directory of sandboxes.
pub const SANDBOXES: &str = "holdpoint-data/sandboxes";

impl WorkerOptions {
    /// [`CONCURRENCY`] steps at once, with the machine's clock.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            concurrency: CONCURRENCY,
            clock: Clock::system(),
            sandboxes: PathBuf::from(SANDBOXES),
        }
    }
}

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("the worker has no tools; add one with `.tool(…)`")]
    NoTools,
    #[error("two tools have the name `{name}`; tool names must be unique")]
    TwoTools { name: String },
    #[error("a tool has an invalid name")]
    Name(#[from] IdError),
    /// Without this subscription the executor cannot probe the node.
    #[error("cannot subscribe to probes of the node")]
    Listen(#[from] async_nats::SubscribeError),
    #[error("cannot reach the stream of steps")]
    Bus(#[from] BusError),
}

/// Receives steps and calls tools until it is stopped (S4-R2).
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
    #[must_use]
    pub fn new(bus: Bus, options: WorkerOptions) -> Self {
        Self {
            bus,
            options,
            tools: Vec::new(),
            busy: Arc::default(),
        }
    }

    /// The number of held steps: delivered, running, or with an unacknowledged result.
    #[must_use]
    pub fn busy(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.busy)
    }

    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Works until `stop` is cancelled. Then it receives no more steps, asks the tools to save what they know, waits at
    /// most [`DRAIN`] for running tools and the acknowledgement of their results, deregisters (at most a second) and
    /// returns. Unfinished steps are stopped. Idempotent ones are dispatched again. The runs of others are suspended,
    /// with what the worker knows (S1-R5).
    ///
    /// Dropping the future ends everything at once. The leases then expire by the executor's clock.
    ///
    /// # Errors
    /// [`WorkerError`]: the worker cannot start. Later errors are logged and tried again.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let tools = by_name(self.tools)?;
        let (bus, node) = (self.bus, self.options.node);
        let system: Workspace = subject::SYSTEM_WORKSPACE.parse()?;
        let probes = bus.client().subscribe(subject::node(&node)).await?;

        let given_up = CancellationToken::new();
        let _end_all = given_up.clone().drop_guard();
        let leases = LeaseTable::new(bus.clone(), given_up.clone(), self.busy);
        let progress = AbortOnDropHandle::new(tokio::spawn(leases.clone().keep_deliveries()));
        let waiting = Arc::new(AtomicU64::new(0));
        let suspender = Suspender::new(&bus, &node, &stop);
        let sandboxes = Sandboxes::new(self.options.sandboxes, node.clone());
        let removal = start_sandbox_removal(&bus, &tools, &sandboxes);
        // The first step of a new tool then passes the gate before a worker receives it.
        let registration = Registration::new(&bus, &system, &node, &tools);
        stop.run_until_cancelled(registration.complete()).await;
        let heartbeats = HeartbeatTask {
            bus: bus.clone(),
            workspace: system.clone(),
            node: node.clone(),
            tools: tools.keys().cloned().collect(),
            leases: leases.clone(),
            waiting: Arc::clone(&waiting),
            suspender: suspender.clone(),
        };
        let heartbeats = AbortOnDropHandle::new(tokio::spawn(heartbeats.run(probes)));
        let (start_requester, requesting) = StartRequester::start(bus.clone(), node.clone());
        let (reporter, reporting) = Reporter::start(bus.clone(), node.clone(), given_up.clone());
        let context = Arc::new(JobContext {
            bus: bus.clone(),
            run_changes: RunChanges::default(),
            clock: self.options.clock,
            result_max: outcome::result_max(bus.max_payload()),
            leases: leases.clone(),
            start_requester,
            reporter,
            suspender: suspender.clone(),
            sandboxes,
        });
        let slots = self.options.concurrency.clamp(1, CONCURRENCY_MAX);
        let worker_tasks = WorkerTasks {
            bus: bus.clone(),
            slots: Slots::new(slots),
            waiting,
            jobs: TaskTracker::new(),
            given_up: given_up.clone(),
        };
        tracing::info!(%node, queues = tools.len(), "worker started; it receives steps");
        worker_tasks.take_until(&stop, tools, &context).await;

        worker_tasks.jobs.close();
        leases.request_all();
        let drained = tokio::time::timeout(DRAIN, async {
            worker_tasks.jobs.wait().await;
            // This drops the last senders; what they sent is still delivered.
            drop(context);
            let (requested, reported) = (requesting.await, reporting.await);
            for error in [requested.err(), reported.err()].into_iter().flatten() {
                tracing::error!(%error, "a task of the worker failed");
            }
        });
        let is_drained = drained.await.is_ok();
        let left = leases.granted();
        given_up.cancel();
        if !is_drained {
            worker_tasks.suspend(&left, &suspender).await;
        }
        // A heartbeat after the deregistration would undo it.
        drop((heartbeats, progress, removal));
        heartbeat::deregister(&bus, &system, node).await;
        bus.flush(FLUSH).await;
        Ok(())
    }
}

/// Only a node with such tools has sandboxes to remove.
fn start_sandbox_removal(
    bus: &Bus,
    tools: &BTreeMap<ToolName, Arc<dyn Tool>>,
    sandboxes: &Sandboxes,
) -> Option<AbortOnDropHandle<()>> {
    let has_sandboxes = tools.values().any(|tool| tool.has_sandbox());
    has_sandboxes.then(|| {
        let removal = sandbox_removal::remove_ended(bus.clone(), sandboxes.clone());
        AbortOnDropHandle::new(tokio::spawn(removal))
    })
}

/// Shared by all queues of a worker.
struct WorkerTasks {
    bus: Bus,
    slots: Slots,
    waiting: Arc<AtomicU64>,
    jobs: TaskTracker,
    given_up: CancellationToken,
}

impl WorkerTasks {
    async fn take_until(
        &self,
        stop: &CancellationToken,
        tools: BTreeMap<ToolName, Arc<dyn Tool>>,
        context: &Arc<JobContext>,
    ) {
        let mut queues = JoinSet::new();
        for (name, tool) in tools {
            for lane in Lane::ALL {
                let queue = Queue {
                    name: name.clone(),
                    lane,
                    tool: Arc::clone(&tool),
                    bus: self.bus.clone(),
                    slots: self.slots.clone(),
                    waiting: Arc::clone(&self.waiting),
                    context: Arc::clone(context),
                    jobs: self.jobs.clone(),
                    given_up: self.given_up.clone(),
                };
                queues.spawn(queue.take_until(stop.clone()));
            }
        }
        while let Some(ended) = queues.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "task of a queue failed; the queue is not read any more");
            }
        }
    }

    /// Reports the steps whose tools were stopped.
    async fn suspend(&self, left: &[SuspendableStep], suspender: &Suspender) {
        tracing::warn!(
            left = left.len(),
            "worker stopped with unfinished steps; idempotent ones start again, the runs of others are suspended"
        );
        let ended = tokio::time::timeout(FLUSH, self.jobs.wait());
        if ended.await.is_err() {
            tracing::warn!("tools have not stopped in time");
        }
        let reported = tokio::time::timeout(SUSPEND, suspender.report_shutdown(left));
        if reported.await.is_err() {
            tracing::warn!("not all unfinished steps are reported; their leases end");
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
