//! Plays the owner of timers: sets them in bulk and sees when they fire.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt, TryStreamExt, stream};
use holdpoint_bus::{Bus, StreamUse};
use holdpoint_clock::Clock;
use holdpoint_contracts::executor::{self, TimerReply, TimersFired};
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::scheduler::{SetTimer, SetTimers};
use holdpoint_contracts::subject;
use holdpoint_ids::{HoldId, RunId, Workspace};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{ms, spread};
use crate::connection::WORKSPACE_DEFAULT;

/// Alarms of one message, and messages without an answer.
const BATCH: u64 = 500;
const WINDOW: usize = 8;

/// Between the last timer's setting and the first one's due time, at the least.
const LEAD: TimeDelta = TimeDelta::seconds(5);

/// Alarms that are surely set within a second: the lead grows with their number.
const SET_PER_SECOND: i64 = 5_000;

/// How long to wait for what has not fired.
const GIVE_UP: Duration = Duration::from_secs(30);

/// One timer that fired: its id, how late it came, in microseconds.
type Fired = (String, u64);

/// The service that the timers belong to; the executor's place, which does not run meanwhile.
pub(super) struct Owner {
    bus: Bus,
    fired: mpsc::UnboundedReceiver<Fired>,
}

impl Owner {
    /// Starts listening, once.
    pub(super) async fn of<'a>(
        owner: &'a mut Option<Self>,
        bus: &Bus,
    ) -> anyhow::Result<&'a mut Self> {
        if owner.is_none() {
            *owner = Some(Self::start(bus.clone()).await?);
        }
        owner.as_mut().context("no owner")
    }

    /// Takes what fires from the stream and from core requests, whichever way the scheduler goes.
    async fn start(bus: Bus) -> anyhow::Result<Self> {
        let (said, fired) = mpsc::unbounded_channel();
        let filter = subject::asks_filter(executor::SERVICE);
        let mut asks = bus.client().subscribe(filter).await?;
        let (to, back) = (said.clone(), bus.clone());
        tokio::spawn(async move {
            while let Some(message) = asks.next().await {
                let reply = message.reply.map(|reply| reply.to_string());
                answer(&back, reply, &take(&message.payload, &to)).await;
            }
        });
        let wanted = StreamUse::Commands(executor::SERVICE);
        bus.provide_stream(wanted).await?;
        let confirmed = bus.clone();
        let filter = subject::commands_filter(executor::SERVICE);
        let patience = Duration::from_secs(30);
        let mut commands = bus
            .pull(wanted, executor::SERVICE, &filter, patience)
            .await?;
        tokio::spawn(async move {
            while let Some(message) = commands.next().await {
                let Ok(message) = message else { continue };
                let answers = take(&message.payload, &said);
                let headers = message.headers.as_ref();
                let reply = headers.and_then(|headers| headers.get(subject::REPLY_HEADER));
                answer(&confirmed, reply.map(ToString::to_string), &answers).await;
                drop(message.ack().await);
            }
        });
        Ok(Self { bus, fired })
    }

    /// One timer that is due now.
    pub(super) async fn one(&mut self) -> anyhow::Result<Value> {
        let began = Instant::now();
        let due = Clock::system().now();
        set(&self.bus, 0..1, |_| due).await?;
        let fired = tokio::time::timeout(GIVE_UP, self.fired.recv()).await;
        fired
            .context("the timer did not fire")?
            .context("nobody listens")?;
        Ok(json!({ "first_timer_after_ms": ms(micros(began.elapsed())) }))
    }

    /// Alarms that come due evenly; answers when all have fired.
    pub(super) async fn near(&mut self, timers: u64, over_s: u64) -> anyhow::Result<Value> {
        let count = i64::try_from(timers)?;
        let clock = Clock::system();
        let first = clock.now() + LEAD + TimeDelta::seconds(count / SET_PER_SECOND);
        let over_us = i64::try_from(over_s)? * 1_000_000;
        let due = |number: u64| {
            let number = i64::try_from(number).unwrap_or(0);
            first + TimeDelta::microseconds(number * over_us / count.max(1))
        };
        let began = Instant::now();
        set(&self.bus, 0..timers, due).await?;
        let set_s = began.elapsed().as_secs_f64();
        let is_in_time = clock.now() < first;
        let mut late = Vec::new();
        let mut times: HashMap<String, u32> = HashMap::new();
        let mut last = Instant::now();
        let to_wait = (first - clock.now()).to_std().unwrap_or_default() + GIVE_UP;
        while (times.len() as u64) < timers {
            let Ok(Some((id, micros))) = tokio::time::timeout(to_wait, self.fired.recv()).await
            else {
                break;
            };
            late.push(micros);
            *times.entry(id).or_default() += 1;
            last = Instant::now();
        }
        // An owner drops what it knows the `rev` of: told again is no fault, fired twice is one, and the
        // scheduler's table shows that.
        let twice: u64 = times.values().map(|count| u64::from(*count) - 1).sum();
        Ok(json!({
            "timers": timers,
            "set_per_s": rate(timers, set_s),
            "all_set_before_the_first_was_due": is_in_time,
            "fired": times.len(),
            "lost": timers - times.len() as u64,
            "told_twice": twice,
            "late_at_receipt": spread(late),
            "seconds": last.duration_since(began).as_secs_f64().round(),
        }))
    }
}

/// One for each that fired.
type Answers = Reply<Vec<Reply<TimerReply>>>;

/// Without one the scheduler tells it again.
async fn answer(bus: &Bus, reply: Option<String>, answers: &Answers) {
    if let (Some(reply), Ok(body)) = (reply, serde_json::to_vec(answers)) {
        drop(bus.send(reply, body.into()).await);
    }
}

/// Reads what fired, as the owner would.
fn take(body: &[u8], said: &mpsc::UnboundedSender<Fired>) -> Answers {
    let now = Clock::system().now();
    let Ok(envelope) = serde_json::from_slice::<Envelope<TimersFired>>(body) else {
        return Reply::Ok(Vec::new());
    };
    let fired = envelope.command.fired.into_iter();
    Reply::Ok(
        fired
            .map(|it| {
                let late = (now - it.due).to_std().unwrap_or_default();
                // Nobody to tell: the measurement is over.
                drop(said.send((it.id, micros(late))));
                Reply::Ok(TimerReply::Applied)
            })
            .collect(),
    )
}

/// Alarms that are due in a day and after.
pub(super) async fn far(bus: &Bus, timers: u64) -> anyhow::Result<Value> {
    let first = Clock::system().now() + TimeDelta::days(1);
    let began = Instant::now();
    let due = |number: u64| {
        let number = i64::try_from(number).unwrap_or(0);
        first + TimeDelta::milliseconds(number * 86)
    };
    set(bus, 0..timers, due).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({ "far_timers": timers, "far_set_per_s": rate(timers, seconds) }))
}

async fn set(
    bus: &Bus,
    numbers: std::ops::Range<u64>,
    due: impl Fn(u64) -> DateTime<Utc>,
) -> anyhow::Result<()> {
    let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
    let batches = (numbers.start..numbers.end).step_by(usize::try_from(BATCH)?);
    let commands = batches.map(|from| {
        let timers = (from..numbers.end.min(from + BATCH)).map(|number| SetTimer {
            id: HoldId {
                run: RunId::fresh(),
                number: 1,
            }
            .to_string(),
            rev: 1,
            due: Some(due(number)),
        });
        SetTimers {
            owner: executor::SERVICE.to_owned(),
            timers: timers.collect(),
        }
    });
    let asked = stream::iter(commands).map(|command| {
        let (bus, workspace) = (bus.clone(), workspace.clone());
        async move {
            let envelope = Envelope::of_service(executor::SERVICE, command);
            match bus.ask(&workspace, &envelope).await {
                Ok(_) => Ok(()),
                Err(problem) => bail!("timers were refused: {}", problem.detail),
            }
        }
    });
    asked.buffer_unordered(WINDOW).try_collect::<()>().await
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a count of at most some millions"
)]
fn rate(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds).round()
}
