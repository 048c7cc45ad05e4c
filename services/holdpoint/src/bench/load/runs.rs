//! Starts runs by core requests and detects their ends by the executor's nudges.
//!
//! A nudge names runs with the number of their newest history item. All measured runs have the same
//! number of items, so the number shows the end of a run. Nudges may be lost. Therefore incomplete runs
//! are queried when there was no nudge for some time.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt};
use holdpoint_bus::Bus;
use holdpoint_contracts::executor::{ApplyAgent, GetHistory, GetRun, SERVICE, StartRun};
use holdpoint_contracts::history::Nudge;
use holdpoint_contracts::message::{Actor, Envelope};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::RunStatus;
use holdpoint_ids::{RunId, Workspace};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::instruction::{BenchAgent, Pace};
use super::super::statistics::{micros, per_second, percentiles, round};
use crate::connection::WORKSPACE_DEFAULT;

/// Time without a nudge after which incomplete runs are queried.
const SILENCE: Duration = Duration::from_secs(2);

/// Longest time without any progress.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Retries of a start while the executor is busy.
const RETRIES_MAX: u32 = 20;

pub(super) struct RunStarter {
    pub(super) bus: Bus,
    pub(super) workspace: Workspace,
    agent: BenchAgent,
    nudges: BoxStream<'static, Nudge>,
    /// Number of the last history item of a completed run.
    pub(super) last_seq: u64,
}

pub(super) struct Progress {
    /// Incomplete runs, and the instants from which their latencies count.
    pub(super) incomplete: HashMap<RunId, Instant>,
    pub(super) latencies: Vec<u64>,
    last_end: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            incomplete: HashMap::new(),
            latencies: Vec::new(),
            last_end: Instant::now(),
        }
    }

    fn record_end(&mut self, run: RunId) {
        if let Some(started) = self.incomplete.remove(&run) {
            self.latencies.push(micros(started.elapsed()));
            self.last_end = Instant::now();
        }
    }
}

impl RunStarter {
    /// Stores the agent.
    pub(super) async fn new(bus: Bus, agent: BenchAgent) -> anyhow::Result<Self> {
        let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
        let apply = ApplyAgent {
            agent: agent.name().parse()?,
            text: agent.text(),
        };
        let envelope = Envelope::of_service("bench", apply);
        bus.ask(&workspace, &envelope).await.map_err(refused)?;
        let nudges = bus.live::<Nudge>(&workspace, SERVICE).await?.boxed();
        Ok(Self {
            bus,
            workspace,
            agent,
            nudges,
            last_seq: u64::MAX,
        })
    }

    /// Stores the agent, learns the length of a complete history, and starts some runs.
    pub(super) async fn warm_up(
        bus: Bus,
        agent: BenchAgent,
        runs: u64,
    ) -> anyhow::Result<(Self, Value)> {
        let mut starter = Self::new(bus, agent).await?;
        let first = RunId::fresh();
        starter.start(first, 0).await.map_err(refused)?;
        starter.learn_length(first).await?;
        if runs > 1 {
            let pace = Pace {
                runs: runs - 1,
                window: 64,
                is_closed_loop: true,
                rate: None,
            };
            starter.measure(&pace).await?;
        }
        let last_seq = starter.last_seq;
        Ok((starter, json!({ "runs": runs, "last_seq": last_seq })))
    }

    /// The start of a run, which retries while the executor is busy.
    pub(super) fn start(&self, run: RunId, number: u64) -> BoxFuture<'static, Result<(), Problem>> {
        let (bus, workspace) = (self.bus.clone(), self.workspace.clone());
        start(bus, workspace, self.agent, run, number).boxed()
    }

    /// Polls the first run until its end, and learns the number of its last history item.
    pub(super) async fn learn_length(&mut self, run: RunId) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.is_completed(run).await? {
            if began.elapsed() > GIVE_UP {
                bail!("the first run did not complete");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let query = GetHistory {
            run,
            after: 0,
            limit: 500,
        };
        let history = self.bus.query(&self.workspace, &query).await;
        let items = history.map_err(refused)?.items;
        self.last_seq = items.last().context("the run has no history")?.seq;
        Ok(())
    }

    async fn is_completed(&self, run: RunId) -> anyhow::Result<bool> {
        let view = self.bus.query(&self.workspace, &GetRun::of(run)).await;
        Ok(view.map_err(refused)?.status == RunStatus::Completed)
    }

    /// Starts runs and waits until all are completed.
    pub(super) async fn measure(&mut self, pace: &Pace) -> anyhow::Result<Value> {
        let began = Instant::now();
        let mut progress = Progress::new();
        let mut starts = FuturesUnordered::new();
        let mut tick = pace.ticks();
        let mut started = 0;
        let mut submitted_s = 0.0;
        while started < pace.runs || !progress.incomplete.is_empty() || !starts.is_empty() {
            let allowed = pace.allowed(began.elapsed());
            while started < allowed && pace.has_room(starts.len(), progress.incomplete.len()) {
                let run = RunId::fresh();
                progress.incomplete.insert(run, Instant::now());
                starts.push(self.start(run, started));
                started += 1;
                submitted_s = began.elapsed().as_secs_f64();
            }
            tokio::select! {
                () = self.next_ends(&mut progress) => {}
                Some(reply) = starts.next() => reply.map_err(refused)?,
                _ = tick.tick() => self.query_if_silent(&mut progress).await?,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({
            "runs": pace.runs,
            "seconds": round(seconds),
            "submitted_after_s": round(submitted_s),
            "runs_per_s": round(per_second(pace.runs, seconds)),
            "latency": percentiles(progress.latencies),
        }))
    }

    /// Waits for a nudge, and records the ends that it reports.
    pub(super) async fn next_ends(&mut self, progress: &mut Progress) {
        let Some(nudge) = self.nudges.next().await else {
            return std::future::pending().await;
        };
        let ended = nudge.runs.iter().filter(|(_, seq)| *seq >= self.last_seq);
        ended.for_each(|(run, _)| progress.record_end(*run));
    }

    pub(super) async fn query_if_silent(&self, progress: &mut Progress) -> anyhow::Result<()> {
        let silence = progress.last_end.elapsed();
        if silence < SILENCE {
            return Ok(());
        }
        if silence > GIVE_UP {
            bail!("{} runs do not complete", progress.incomplete.len());
        }
        let some: Vec<_> = progress.incomplete.keys().copied().take(100).collect();
        for run in some {
            let is_completed = timeout(SILENCE, self.is_completed(run)).await;
            if matches!(is_completed, Ok(Ok(true))) {
                progress.record_end(run);
            }
        }
        Ok(())
    }
}

/// Starts one run and retries while the executor is busy.
async fn start(
    bus: Bus,
    workspace: Workspace,
    agent: BenchAgent,
    run: RunId,
    number: u64,
) -> Result<(), Problem> {
    let agent = agent.name().parse().map_err(|_bad| Problem::internal())?;
    let command = StartRun {
        run,
        agent,
        input: json!({ "number": number }),
        contact: None,
        labels: BTreeMap::new(),
    };
    let envelope = Envelope {
        actor: Actor("bench".to_owned()),
        assertion: None,
        key: None,
        command,
    };
    let mut retries = 0;
    loop {
        match bus.ask(&workspace, &envelope).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is_transient() && retries < RETRIES_MAX => {
                retries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(problem) => return Err(problem),
        }
    }
}

pub(super) fn refused(problem: Problem) -> anyhow::Error {
    let Problem { code, detail, .. } = problem;
    anyhow::anyhow!("refused ({code}): {detail}")
}
