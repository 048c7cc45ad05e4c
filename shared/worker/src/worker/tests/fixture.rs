//! A real bus, a worker on it, and an executor that answers as the test wants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use holdpoint_bus::server::{self, Provided, Settings};
use holdpoint_bus::{Bus, Outgoing, StreamUse};
use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::PatchContact;
use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{
    Deregister, Grant, Heartbeat, HeartbeatReply, ResultReply, StartStep, StartSteps, StepDispatch,
    StepResult, StepResults,
};
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_contracts::suspension::{SuspendSteps, SuspendedStep};
use holdpoint_contracts::tool::{RegisterTools, RegisteredTool, ToolSpec};
use holdpoint_ids::{RunId, Workspace};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::{Worker, WorkerError, WorkerOptions};
use crate::tool::{Risk, ToolCall, ToolSuccess, tool_fn};

/// Counts up when it is dropped: a finished call as well as one that was cut.
struct Left(Arc<AtomicUsize>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Asks until `probe` says yes, at most for `seconds`.
pub(super) async fn until(seconds: u64, what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !probe().await {
        assert!(Instant::now() < end, "waited {seconds} s for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) struct Fixture {
    pub(super) bus: Bus,
    pub(super) server: Provided,
    _dir: tempfile::TempDir,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = server::provide(Settings {
            data_dir: dir.path().to_owned(),
            url: None,
        })
        .await
        .unwrap();
        let bus = Bus::connect(&server.url, "test").await.unwrap();
        bus.provide_stream(StreamUse::Steps).await.unwrap();
        provide_queue(&bus, "work").await;
        Self {
            bus,
            server,
            _dir: dir,
        }
    }

    pub(super) async fn publish(&self, steps: &[StepDispatch]) {
        self.publish_to(Lane::Normal, steps).await;
    }

    pub(super) async fn publish_to(&self, lane: Lane, steps: &[StepDispatch]) {
        let messages = steps.iter().map(|step| {
            let subject = subject::steps(&step.workspace, step.tool.as_str(), lane);
            Outgoing::json(subject, step).unwrap()
        });
        self.bus.publish_all(messages.collect()).await.unwrap();
    }

    pub(super) async fn stored(&self) -> u64 {
        self.bus.stored(StreamUse::Steps).await.unwrap()
    }

    pub(super) async fn all_acked(&self) {
        until(15, "every step is acked", async || self.stored().await == 0).await;
    }

    pub(super) async fn end(self) {
        self.server.stop().await;
    }
}

async fn provide_queue(bus: &Bus, queue: &str) {
    for lane in Lane::ALL {
        bus.provide_queue(queue, lane).await.unwrap();
    }
}

pub(crate) fn workspace() -> Workspace {
    "acme".parse().unwrap()
}

/// A step of a run of its own, for the tool `work`.
pub(crate) fn step(idempotent: bool) -> StepDispatch {
    StepDispatch {
        workspace: workspace(),
        run: RunId::fresh(),
        agent: "outreach".parse().unwrap(),
        step: "step-01".to_owned(),
        dispatch: 1,
        attempt: 1,
        tool: "work".parse().unwrap(),
        args: json!({ "say": "hello" }),
        contact: None,
        idempotent,
        claim_timeout_ms: holdpoint_contracts::steps::LEASE_DEFAULT_MS,
        timeout_ms: None,
        token: None,
        http: None,
        answers: holdpoint_contracts::asking::Answers::new(),
        feedback: None,
        resumed: false,
        user: holdpoint_contracts::Actor("owner".to_owned()),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
        at: "2026-03-01T09:00:00Z".parse().unwrap(),
    }
}

/// A worker whose tool `work` waits for a leave, one for each call.
pub(super) struct RunningWorker {
    pub(super) calls: Arc<AtomicUsize>,
    /// Calls that have ended, or were cut.
    pub(super) left: Arc<AtomicUsize>,
    pub(super) leaves: Arc<Semaphore>,
    pub(super) stop: CancellationToken,
    run: AbortOnDropHandle<Result<(), WorkerError>>,
}

impl RunningWorker {
    pub(super) fn start(fixture: &Fixture, concurrency: usize, leaves: usize) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let leaves = Arc::new(Semaphore::new(leaves));
        let left = Arc::new(AtomicUsize::new(0));
        let (counted, gate, ended) = (Arc::clone(&calls), Arc::clone(&leaves), Arc::clone(&left));
        let tool = tool_fn("work", Risk::Low, move |call: ToolCall| {
            counted.fetch_add(1, Ordering::SeqCst);
            let (gate, leaving) = (Arc::clone(&gate), Left(Arc::clone(&ended)));
            async move {
                let _leaving = leaving;
                gate.acquire().await.unwrap().forget();
                assert_ne!(call.dispatch.args["say"], "panic", "the call says panic");
                Ok(ToolSuccess {
                    description: "Done".to_owned(),
                    data: call.dispatch.args,
                })
            }
        });
        let mut options = WorkerOptions::new("local-7f3a".parse().unwrap());
        options.concurrency = concurrency;
        let stop = CancellationToken::new();
        let worker = Worker::new(fixture.bus.clone(), options).tool(Arc::new(tool));
        let run = AbortOnDropHandle::new(tokio::spawn(worker.run(stop.clone())));
        Self {
            calls,
            left,
            leaves,
            stop,
            run,
        }
    }

    /// A worker that has registered, and whose executor is gone since.
    pub(super) async fn start_and_lose_executor(fixture: &Fixture, leaves: usize) -> Self {
        let executor = Executor::start(fixture, Manner::default()).await;
        let working = Self::start(fixture, 8, leaves);
        executor.wait_for_heartbeat("a first beat", |_| true).await;
        executor.end().await;
        working
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) async fn called(&self, times: usize) {
        until(15, "the tool is called", async || self.calls() >= times).await;
    }

    pub(super) async fn cut(&self, times: usize) {
        let left = || self.left.load(Ordering::SeqCst);
        until(15, "the call is over", async || left() >= times).await;
    }

    pub(super) async fn ended(self) {
        self.run.await.unwrap().unwrap();
    }
}

/// What the executor was asked, and how it answers.
#[derive(Clone, Default)]
pub(super) struct Received {
    pub(super) starts: Vec<StartStep>,
    pub(super) results: Vec<Vec<StepResult>>,
    /// Steps on the bus when a refused report came.
    pub(super) stored_at_refusal: Vec<u64>,
    pub(super) patches: Vec<Envelope<PatchContact>>,
    /// Registrations, each with the number of heartbeats before it.
    pub(super) registered: Vec<(Vec<ToolSpec>, usize)>,
    pub(super) heartbeats: Vec<Heartbeat>,
    /// Number of beats before each deregistration.
    pub(super) deregistrations: Vec<(Deregister, usize)>,
    pub(super) suspended: Vec<SuspendedStep>,
}

#[derive(Clone)]
pub(super) struct Manner {
    pub(super) grant: Grant,
    /// So many reports are answered by 503.
    pub(super) refusals: usize,
    /// So many questions to start are not answered at all.
    pub(super) ignored_starts: usize,
    /// What beats are answered.
    pub(super) again_ms: u64,
    /// So many beats are not answered at all.
    pub(super) ignored_heartbeats: usize,
    /// So many registrations are not answered at all.
    pub(super) ignored_registrations: usize,
    /// So many registrations get 503 for each tool.
    pub(super) unavailable_registrations: usize,
    /// Tools with a schema are refused.
    pub(super) refuses_schemas: bool,
    /// Whatever the node works on is to be stopped.
    pub(super) stops: bool,
    /// The run of whatever the node works on is suspended.
    pub(super) suspends: bool,
    /// What results are answered.
    pub(super) result: ResultReply,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            grant: Grant::Go,
            refusals: 0,
            ignored_starts: 0,
            again_ms: 10_000,
            ignored_heartbeats: 0,
            ignored_registrations: 0,
            unavailable_registrations: 0,
            refuses_schemas: false,
            stops: false,
            suspends: false,
            result: ResultReply::Applied,
        }
    }
}

pub(super) struct Executor {
    received: Arc<Mutex<Received>>,
    manner: Arc<Mutex<Manner>>,
    task: AbortOnDropHandle<()>,
}

impl Executor {
    pub(super) async fn start(fixture: &Fixture, manner: Manner) -> Self {
        let received = Arc::new(Mutex::new(Received::default()));
        let filter = subject::asks_filter("executor");
        let mut asked = fixture.bus.client().subscribe(filter).await.unwrap();
        fixture.bus.flush(Duration::from_secs(5)).await;
        let manner = Arc::new(Mutex::new(manner));
        let (bus, seen, pending) = (
            fixture.bus.clone(),
            Arc::clone(&received),
            Arc::clone(&manner),
        );
        let task = tokio::spawn(async move {
            while let Some(message) = asked.next().await {
                let verb = subject::parse(&message.subject).unwrap().verb;
                let answer = answer(&verb, &message.payload, &bus, &seen, &pending).await;
                if let Some(answer) = answer {
                    let reply = message.reply.unwrap().to_string();
                    bus.send(reply, answer.into()).await.unwrap();
                }
            }
        });
        Self {
            received,
            manner,
            task: AbortOnDropHandle::new(task),
        }
    }

    /// Answers nothing more.
    async fn end(self) {
        self.task.abort();
        assert!(self.task.await.is_err());
    }

    /// Answers differently from now on.
    pub(super) fn turn(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.manner.lock().unwrap());
    }

    /// Waits for a beat that the test looks for.
    pub(super) async fn wait_for_heartbeat(&self, what: &str, wanted: impl Fn(&Heartbeat) -> bool) {
        until(15, what, async || {
            self.received().heartbeats.iter().any(&wanted)
        })
        .await;
    }

    pub(super) fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }
}

fn take_suspended(body: &[u8], seen: &Mutex<Received>) -> Vec<u8> {
    let asked: Envelope<SuspendSteps> = serde_json::from_slice(body).unwrap();
    let answers = vec![Reply::Ok(ResultReply::Applied); asked.command.steps.len()];
    seen.lock().unwrap().suspended.extend(asked.command.steps);
    serde_json::to_vec(&Reply::Ok(answers)).unwrap()
}

fn take_patch(body: &[u8], seen: &Mutex<Received>) -> Vec<u8> {
    let asked: Envelope<PatchContact> = serde_json::from_slice(body).unwrap();
    let contact = ContactView {
        id: asked.command.contact.clone(),
        fields: asked.command.patch.clone(),
    };
    seen.lock().unwrap().patches.push(asked);
    serde_json::to_vec(&Reply::Ok(contact)).unwrap()
}

async fn answer(
    verb: &str,
    body: &[u8],
    bus: &Bus,
    seen: &Mutex<Received>,
    manner: &Mutex<Manner>,
) -> Option<Vec<u8>> {
    if verb == Heartbeat::VERB {
        // As the executor does for every tool that a node offers.
        let heartbeat: Envelope<Heartbeat> = serde_json::from_slice(body).unwrap();
        bus.provide_stream(StreamUse::Steps).await.unwrap();
        for tool in &heartbeat.command.tools {
            provide_queue(bus, tool.as_str()).await;
        }
    }
    let is_refused = verb == StepResults::VERB && manner.lock().unwrap().refusals > 0;
    if is_refused {
        manner.lock().unwrap().refusals -= 1;
        let stored = bus.stored(StreamUse::Steps).await.unwrap();
        seen.lock().unwrap().stored_at_refusal.push(stored);
        let problem: Reply<()> = Reply::Problem(Problem::unavailable("try again"));
        return Some(serde_json::to_vec(&problem).unwrap());
    }
    let mut manner = manner.lock().unwrap();
    if verb == Heartbeat::VERB {
        let asked: Envelope<Heartbeat> = serde_json::from_slice(body).unwrap();
        let mut stop = asked.command.working.clone();
        stop.retain(|_| manner.stops);
        let mut suspend = asked.command.working.clone();
        suspend.retain(|_| manner.suspends);
        seen.lock().unwrap().heartbeats.push(asked.command);
        if manner.ignored_heartbeats > 0 {
            manner.ignored_heartbeats -= 1;
            return None;
        }
        let again_ms = manner.again_ms;
        let reply = HeartbeatReply {
            stop,
            suspend,
            again_ms,
        };
        return Some(serde_json::to_vec(&Reply::Ok(reply)).unwrap());
    }
    if verb == Deregister::VERB {
        let asked: Envelope<Deregister> = serde_json::from_slice(body).unwrap();
        let mut seen = seen.lock().unwrap();
        let heartbeats = seen.heartbeats.len();
        seen.deregistrations.push((asked.command, heartbeats));
        return Some(serde_json::to_vec(&Reply::Ok(())).unwrap());
    }
    if verb == StartSteps::VERB {
        let asked: Envelope<StartSteps> = serde_json::from_slice(body).unwrap();
        let grants = vec![Reply::Ok(manner.grant); asked.command.steps.len()];
        seen.lock().unwrap().starts.extend(asked.command.steps);
        if manner.ignored_starts > 0 {
            manner.ignored_starts -= 1;
            return None;
        }
        return Some(serde_json::to_vec(&Reply::Ok(grants)).unwrap());
    }
    if verb == SuspendSteps::VERB {
        return Some(take_suspended(body, seen));
    }
    if verb == RegisterTools::VERB {
        return take_registered(body, seen, &mut manner);
    }
    if verb == PatchContact::VERB {
        return Some(take_patch(body, seen));
    }
    let asked: Envelope<StepResults> = serde_json::from_slice(body).unwrap();
    let answers = vec![Reply::Ok(manner.result); asked.command.results.len()];
    seen.lock().unwrap().results.push(asked.command.results);
    Some(serde_json::to_vec(&Reply::Ok(answers)).unwrap())
}

/// Keeps what a worker registers, and how many heartbeats came before.
fn take_registered(body: &[u8], seen: &Mutex<Received>, manner: &mut Manner) -> Option<Vec<u8>> {
    let asked: Envelope<RegisterTools> = serde_json::from_slice(body).unwrap();
    let tools = asked.command.tools;
    let is_unavailable = manner.unavailable_registrations > 0 && manner.ignored_registrations == 0;
    let reply = |tool: &ToolSpec| {
        if is_unavailable {
            Reply::Problem(Problem::unavailable("try again"))
        } else if manner.refuses_schemas && tool.args_schema.is_some() {
            Reply::Problem(Problem::invalid_body("its schema is wrong"))
        } else {
            Reply::Ok(RegisteredTool::Agreed)
        }
    };
    let replies: Vec<_> = tools.iter().map(reply).collect();
    let mut seen = seen.lock().unwrap();
    let heartbeats = seen.heartbeats.len();
    seen.registered.push((tools, heartbeats));
    if manner.ignored_registrations > 0 {
        manner.ignored_registrations -= 1;
        return None;
    }
    manner.unavailable_registrations -= usize::from(is_unavailable);
    Some(serde_json::to_vec(&Reply::Ok(replies)).unwrap())
}
