//! Starts runs by core requests and sees them end by the executor's nudges.
//!
//! A nudge names runs with the number of their newest history item; a run of this shape always has
//! the same number of items, so the number says that it is over. Nothing is polled, except for what
//! is still open when nothing was heard for a while: nudges may be lost.

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
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::{STEPS, TOOL};
use super::spread;
use crate::connection::WORKSPACE_DEFAULT;

/// The agent that is run.
const AGENT: &str = "bench";

/// How long nothing may be heard before what is open is asked for.
const SILENCE: Duration = Duration::from_secs(2);

/// Longest time without any progress before the measurement is given up.
const GIVE_UP: Duration = Duration::from_secs(60);

/// How often a start is asked again while the executor is busy.
const TRIES_MAX: u32 = 20;

/// How runs are started.
pub(super) struct Pace {
    pub(super) runs: u64,
    pub(super) window: usize,
    pub(super) is_closed_loop: bool,
    pub(super) rate: Option<u64>,
}

/// Starts runs of one agent.
pub(super) struct Starter {
    bus: Bus,
    workspace: Workspace,
    nudges: BoxStream<'static, Nudge>,
    /// Number of the last history item of a completed run.
    last_seq: u64,
}

/// Where a measurement stands.
struct Open {
    /// Runs that are not over, and when they were asked for.
    waiting: HashMap<RunId, Instant>,
    latencies: Vec<u64>,
    heard: Instant,
}

impl Open {
    fn over(&mut self, run: RunId) {
        if let Some(asked) = self.waiting.remove(&run) {
            let micros = asked.elapsed().as_micros();
            self.latencies
                .push(u64::try_from(micros).unwrap_or(u64::MAX));
            self.heard = Instant::now();
        }
    }
}

impl Starter {
    /// Stores the agent, learns what a completed run looks like, and warms everything up.
    pub(super) async fn warm(bus: Bus, runs: u64) -> anyhow::Result<(Self, Value)> {
        let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
        let agent = ApplyAgent {
            agent: AGENT.parse()?,
            text: agent_text(),
        };
        let envelope = Envelope::of_service("bench", agent);
        bus.ask(&workspace, &envelope).await.map_err(refused)?;
        let nudges = bus.live::<Nudge>(&workspace, SERVICE).await?.boxed();
        let mut starter = Self {
            bus,
            workspace,
            nudges,
            last_seq: u64::MAX,
        };
        starter.last_seq = starter.probe().await?;
        if runs > 1 {
            let pace = Pace {
                runs: runs - 1,
                window: 64,
                is_closed_loop: true,
                rate: None,
            };
            starter.run(&pace).await?;
        }
        let last_seq = starter.last_seq;
        Ok((starter, json!({ "runs": runs, "last_seq": last_seq })))
    }

    /// One run to its end, by asking.
    async fn probe(&mut self) -> anyhow::Result<u64> {
        let run = RunId::fresh();
        start(self.bus.clone(), self.workspace.clone(), run, 0)
            .await
            .map_err(refused)?;
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
        let page = self
            .bus
            .query(&self.workspace, &query)
            .await
            .map_err(refused)?;
        page.items
            .last()
            .map(|item| item.seq)
            .context("a run without history")
    }

    async fn is_completed(&self, run: RunId) -> anyhow::Result<bool> {
        let view = self
            .bus
            .query(&self.workspace, &GetRun::of(run))
            .await
            .map_err(refused)?;
        Ok(view.status == RunStatus::Completed)
    }

    /// Starts runs at a pace and waits until all are completed.
    pub(super) async fn run(&mut self, pace: &Pace) -> anyhow::Result<Value> {
        let began = Instant::now();
        let mut open = Open {
            waiting: HashMap::new(),
            latencies: Vec::new(),
            heard: began,
        };
        let mut asks: FuturesUnordered<BoxFuture<'static, Result<(), Problem>>> =
            FuturesUnordered::new();
        let mut tick = interval(Duration::from_millis(if pace.rate.is_some() {
            2
        } else {
            500
        }));
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut started = 0;
        let mut submitted_s = 0.0;
        while started < pace.runs || !open.waiting.is_empty() || !asks.is_empty() {
            let allowed = pace.allowed(began.elapsed());
            while started < allowed && pace.has_room(asks.len(), open.waiting.len()) {
                let run = RunId::fresh();
                open.waiting.insert(run, Instant::now());
                asks.push(start(self.bus.clone(), self.workspace.clone(), run, started).boxed());
                started += 1;
                submitted_s = began.elapsed().as_secs_f64();
            }
            tokio::select! {
                Some(nudge) = self.nudges.next() => {
                    let ended = nudge.runs.iter().filter(|(_, seq)| *seq >= self.last_seq);
                    ended.for_each(|(run, _)| open.over(*run));
                }
                Some(answer) = asks.next() => answer.map_err(refused)?,
                _ = tick.tick() => self.look(&mut open).await?,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({
            "runs": pace.runs,
            "seconds": round(seconds),
            "submitted_after_s": round(submitted_s),
            "runs_per_s": round(runs_per_second(pace.runs, seconds)),
            "latency": spread(open.latencies),
        }))
    }

    /// Asks for what is open when nothing was heard for a while.
    async fn look(&self, open: &mut Open) -> anyhow::Result<()> {
        let silent = open.heard.elapsed();
        if silent < SILENCE {
            return Ok(());
        }
        if silent > GIVE_UP {
            bail!("{} runs do not complete", open.waiting.len());
        }
        let some: Vec<_> = open.waiting.keys().copied().take(100).collect();
        for run in some {
            let asked = timeout(SILENCE, self.is_completed(run)).await;
            if matches!(asked, Ok(Ok(true))) {
                open.over(run);
            }
        }
        Ok(())
    }
}

impl Pace {
    /// How many may have been started after so long.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a count of at most some millions"
    )]
    fn allowed(&self, after: Duration) -> u64 {
        match self.rate {
            Some(rate) => self
                .runs
                .min((after.as_secs_f64() * rate as f64) as u64 + 1),
            None => self.runs,
        }
    }

    fn has_room(&self, unanswered: usize, uncompleted: usize) -> bool {
        let open = if self.is_closed_loop {
            uncompleted
        } else {
            unanswered
        };
        open < self.window
    }
}

/// Asks for one run until the executor has taken it.
async fn start(bus: Bus, workspace: Workspace, run: RunId, number: u64) -> Result<(), Problem> {
    let agent = AGENT.parse().map_err(|_bad| Problem::internal())?;
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
    let mut tries = 0;
    loop {
        match bus.ask(&workspace, &envelope).await {
            Ok(_) => return Ok(()),
            Err(problem) if problem.is_transient() && tries < TRIES_MAX => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(problem) => return Err(problem),
        }
    }
}

/// Steps one after the other, each called through the queue.
fn agent_text() -> String {
    let steps: Vec<_> = (1..=STEPS)
        .map(|_| json!({ "tool": TOOL, "args": { "idempotent": true, "text": "a hundred bytes of arguments or so, as a step that writes a mail would have them at the least" } }))
        .collect();
    json!({ "agent": AGENT, "steps": steps }).to_string()
}

fn refused(problem: Problem) -> anyhow::Error {
    let Problem { code, detail, .. } = problem;
    anyhow::anyhow!("refused ({code}): {detail}")
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a count of at most some millions"
)]
fn runs_per_second(runs: u64, seconds: f64) -> f64 {
    runs as f64 / seconds
}

fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
