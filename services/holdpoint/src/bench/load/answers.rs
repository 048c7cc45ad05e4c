//! Answers questions over HTTP. An answer contains the time at which it was sent, so that the worker measures how
//! late the next step begins.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use futures_util::stream::{self, FuturesUnordered};
use futures_util::{StreamExt, TryStreamExt};
use holdpoint_bus::Bus;
use holdpoint_clock::Clock;
use holdpoint_contracts::handoff::GetRequest;
use holdpoint_ids::{HoldId, RunId};
use serde_json::{Map, Value, json};

use super::super::instruction::{Api, BenchAgent, Pace};
use super::super::statistics::{per_second, percentiles, round};
use super::http::HttpClient;
use super::runs::{Progress, RunStarter, refused};

/// Starts and queries that are sent at the same time.
const AT_ONCE: usize = 64;

/// The answer of a run that is not measured.
const WARM_UP_ANSWER: &str = "warm-up";

/// The open approvals.
const INBOX: &str = "requests?kind=approval&status=open";

/// Other lists that contain the open requests.
const LISTS: &[&str] = &[
    "requests?status=open&order=urgency",
    "requests?assignee=owner&status=open",
    "notifications",
    "notifications?unread=true",
    "runs",
    "runs?status=awaiting_approval",
    "runs?agent=bench_approval",
    "runs?hold=approval",
];

/// Calls of each list that are not measured.
const INBOX_WARM_UP: u64 = 20;

/// Requests on a page.
const PAGE: usize = 100;

/// Longest time until a request is open.
const OPEN_MAX: Duration = Duration::from_secs(60);

pub(super) struct Answerer {
    starter: RunStarter,
    client: HttpClient,
    /// Open requests.
    requests: Vec<HoldId>,
    /// Whether answers contain the time at which they are sent.
    is_measured: bool,
}

impl Answerer {
    /// Stores the agent.
    pub(super) async fn new(bus: Bus, api: &Api, agent: BenchAgent) -> anyhow::Result<Self> {
        Ok(Self {
            starter: RunStarter::new(bus, agent).await?,
            client: HttpClient::new(api)?,
            requests: Vec::new(),
            is_measured: false,
        })
    }

    /// Reads the first page of open approvals and of other lists, one call after the other.
    pub(super) async fn measure_inbox(mut self, runs: u64, calls: u64) -> anyhow::Result<Value> {
        let blocked = self.block(runs).await?;
        let items = PAGE.min(usize::try_from(runs)?);
        let page = self.measure_page(INBOX, items, calls).await?;
        let mut lists = Map::new();
        for path in LISTS {
            lists.insert(
                (*path).to_owned(),
                self.measure_page(path, items, calls).await?,
            );
        }
        Ok(json!({ "blocked": blocked, "calls": calls, "page": page, "lists": lists }))
    }

    /// Reads the first page of a list some times. It has at least so many items.
    async fn measure_page(&self, path: &str, items: usize, calls: u64) -> anyhow::Result<Value> {
        let mut times = Vec::new();
        for number in 0..calls + INBOX_WARM_UP {
            let (page, time) = self.client.get(path).await?;
            let found = page.get("items").and_then(Value::as_array);
            let found = found.map_or(0, Vec::len);
            if found < items {
                bail!("the page of {path} has {found} items; {items} are expected");
            }
            if number >= INBOX_WARM_UP {
                times.push(time);
            }
        }
        Ok(percentiles(times))
    }

    /// Stores the agent, and answers the requests of some runs. The first run shows the length of a complete
    /// history.
    pub(super) async fn warm_up(bus: Bus, api: &Api, runs: u64) -> anyhow::Result<Self> {
        let mut answerer = Self::new(bus, api, BenchAgent::Question).await?;
        let first = answerer.open_request(0).await?;
        answerer.respond(first).await?;
        answerer.starter.learn_length(first.run).await?;
        answerer.block(runs - 1).await?;
        let pace = Pace {
            runs: runs - 1,
            window: AT_ONCE,
            is_closed_loop: false,
            rate: None,
        };
        answerer.answer(&pace).await?;
        answerer.is_measured = true;
        Ok(answerer)
    }

    /// Starts runs, and waits until the request of each is open.
    pub(super) async fn block(&mut self, runs: u64) -> anyhow::Result<Value> {
        let began = Instant::now();
        let opening = stream::iter(0..runs).map(|number| self.open_request(number));
        self.requests = opening.buffer_unordered(AT_ONCE).try_collect().await?;
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({ "blocked": runs, "blocked_per_s": round(per_second(runs, seconds)) }))
    }

    async fn open_request(&self, number: u64) -> anyhow::Result<HoldId> {
        let run = RunId::fresh();
        self.starter.start(run, number).await.map_err(refused)?;
        let id = HoldId { run, number: 1 };
        let began = Instant::now();
        let query = GetRequest { id };
        loop {
            match self
                .starter
                .bus
                .query(&self.starter.workspace, &query)
                .await
            {
                Ok(_open) => return Ok(id),
                Err(problem) if problem.status == 404 && began.elapsed() < OPEN_MAX => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(problem) => return Err(refused(problem)),
            }
        }
    }

    /// Answers all requests, and waits until their runs are completed.
    pub(super) async fn answer(&mut self, pace: &Pace) -> anyhow::Result<Value> {
        let mut requests = std::mem::take(&mut self.requests).into_iter();
        let began = Instant::now();
        let mut progress = Progress::new();
        let mut calls = FuturesUnordered::new();
        let (mut times, mut effects) = (Vec::new(), BTreeMap::<String, u64>::new());
        let (mut sent, mut answered_s) = (0, 0.0);
        let mut tick = pace.ticks();
        while sent < pace.runs || !calls.is_empty() || !progress.incomplete.is_empty() {
            let allowed = pace.allowed(began.elapsed());
            while sent < allowed && pace.has_room(calls.len(), progress.incomplete.len()) {
                let Some(request) = requests.next() else {
                    bail!(
                        "{sent} requests were open; {} are to be answered",
                        pace.runs
                    );
                };
                progress.incomplete.insert(request.run, Instant::now());
                calls.push(self.respond(request));
                sent += 1;
            }
            tokio::select! {
                Some(reply) = calls.next() => {
                    let (effect, time) = reply?;
                    times.push(time);
                    *effects.entry(effect).or_default() += 1;
                    answered_s = began.elapsed().as_secs_f64();
                }
                () = self.starter.next_ends(&mut progress) => {}
                _ = tick.tick() => self.starter.query_if_silent(&mut progress).await?,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({
            "answers": sent,
            "answers_per_s": round(per_second(sent, answered_s)),
            "runs_completed_per_s": round(per_second(sent, seconds)),
            "call": percentiles(times),
            "run_completed": percentiles(progress.latencies),
            "effects": effects,
        }))
    }

    /// Answers a request; returns the effect, and the microseconds that the call took.
    fn respond(
        &self,
        request: HoldId,
    ) -> impl Future<Output = anyhow::Result<(String, u64)>> + use<> {
        let client = self.client.clone();
        let answer = if self.is_measured {
            Clock::system().now().timestamp_micros().to_string()
        } else {
            WARM_UP_ANSWER.to_owned()
        };
        let body = json!({ "answer": answer }).to_string();
        let path = format!("requests/{request}/respond");
        async move {
            let (reply, time) = client.post(path, "application/json", body).await?;
            let effect = reply.get("effect").and_then(Value::as_str);
            Ok((effect.unwrap_or_default().to_owned(), time))
        }
    }
}
