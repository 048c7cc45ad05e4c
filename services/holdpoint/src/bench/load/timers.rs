//! Acts as the owner of timers: sets them in bulk and receives them when they fire.

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

use super::super::statistics::{micros, ms, per_second, percentiles};
use crate::connection::WORKSPACE_DEFAULT;

/// Timers of one message, and messages without a reply.
const BATCH: u64 = 500;
const WINDOW: usize = 8;

/// Shortest time between the last setting of a timer and the first due time.
const LEAD: TimeDelta = TimeDelta::seconds(5);

/// Timers that are certainly set within a second; the lead grows with their number.
const SET_PER_SECOND: i64 = 5_000;

/// Longest wait for timers that did not fire.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Id and delay in microseconds of a fired timer.
type Fired = (String, u64);

/// The owner of the timers. It takes the place of the executor, which does not run.
pub(super) struct TimerOwner {
    bus: Bus,
    fired: mpsc::UnboundedReceiver<Fired>,
}

/// The owner, which starts listening at the first call.
pub(super) async fn owner<'a>(
    owner: &'a mut Option<TimerOwner>,
    bus: &Bus,
) -> anyhow::Result<&'a mut TimerOwner> {
    Ok(match owner {
        Some(owner) => owner,
        None => owner.insert(TimerOwner::start(bus.clone()).await?),
    })
}

impl TimerOwner {
    /// Receives fired timers from the stream and as core requests, because the scheduler uses both.
    async fn start(bus: Bus) -> anyhow::Result<Self> {
        let (sender, fired) = mpsc::unbounded_channel();
        let filter = subject::asks_filter(executor::SERVICE);
        let mut asks = bus.client().subscribe(filter).await?;
        let (to, replies) = (sender.clone(), bus.clone());
        tokio::spawn(async move {
            while let Some(message) = asks.next().await {
                let reply = message.reply.map(|reply| reply.to_string());
                send_reply(&replies, reply, &receive(&message.payload, &to)).await;
            }
        });
        let wanted = StreamUse::Commands(executor::SERVICE);
        bus.provide_stream(wanted).await?;
        let replies = bus.clone();
        let filter = subject::commands_filter(executor::SERVICE);
        let ack_wait = Duration::from_secs(30);
        let mut commands = bus
            .pull(wanted, executor::SERVICE, &filter, ack_wait)
            .await?;
        tokio::spawn(async move {
            while let Some(message) = commands.next().await {
                let Ok(message) = message else { continue };
                let reply = receive(&message.payload, &sender);
                let headers = message.headers.as_ref();
                let to = headers.and_then(|headers| headers.get(subject::REPLY_HEADER));
                send_reply(&replies, to.map(ToString::to_string), &reply).await;
                drop(message.ack().await);
            }
        });
        Ok(Self { bus, fired })
    }

    /// Sets one timer that is due now, and waits for it.
    pub(super) async fn measure_one(&mut self) -> anyhow::Result<Value> {
        let began = Instant::now();
        let due = Clock::system().now();
        set_timers(&self.bus, 1, |_| due).await?;
        let fired = tokio::time::timeout(GIVE_UP, self.fired.recv()).await;
        fired
            .context("the timer did not fire")?
            .context("the receiver has ended")?;
        Ok(json!({ "first_timer_after_ms": ms(micros(began.elapsed())) }))
    }

    /// Sets timers that come due evenly, and waits until all have fired.
    pub(super) async fn measure_many(&mut self, timers: u64, over_s: u64) -> anyhow::Result<Value> {
        let count = i64::try_from(timers)?;
        let clock = Clock::system();
        let first = clock.now() + LEAD + TimeDelta::seconds(count / SET_PER_SECOND);
        let over_us = i64::try_from(over_s)? * 1_000_000;
        let due = |number: u64| {
            let number = i64::try_from(number).unwrap_or(0);
            first + TimeDelta::microseconds(number * over_us / count.max(1))
        };
        let began = Instant::now();
        set_timers(&self.bus, timers, due).await?;
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
        // An owner ignores a known `rev`, so a second delivery is allowed. The scheduler's table shows
        // whether a timer fired twice.
        let twice: u64 = times.values().map(|count| u64::from(*count) - 1).sum();
        Ok(json!({
            "timers": timers,
            "set_per_s": per_second(timers, set_s).round(),
            "all_set_before_the_first_was_due": is_in_time,
            "fired": times.len(),
            "lost": timers - times.len() as u64,
            "delivered_twice": twice,
            "late_at_receipt": percentiles(late),
            "seconds": last.duration_since(began).as_secs_f64().round(),
        }))
    }
}

/// A reply per fired timer.
type Replies = Reply<Vec<Reply<TimerReply>>>;

/// Without a reply the scheduler sends the timers again.
async fn send_reply(bus: &Bus, to: Option<String>, reply: &Replies) {
    if let (Some(to), Ok(body)) = (to, serde_json::to_vec(reply)) {
        drop(bus.send(to, body.into()).await);
    }
}

/// Handles fired timers as the executor would.
fn receive(body: &[u8], sender: &mpsc::UnboundedSender<Fired>) -> Replies {
    let now = Clock::system().now();
    let Ok(envelope) = serde_json::from_slice::<Envelope<TimersFired>>(body) else {
        return Reply::Ok(Vec::new());
    };
    let fired = envelope.command.fired.into_iter();
    let replies = fired.map(|timer| {
        let late = (now - timer.due).to_std().unwrap_or_default();
        // Fails only when the measurement is over.
        drop(sender.send((timer.id, micros(late))));
        Reply::Ok(TimerReply::Applied)
    });
    Reply::Ok(replies.collect())
}

/// Sets timers that are due in a day or later.
pub(super) async fn set_far(bus: &Bus, timers: u64) -> anyhow::Result<Value> {
    let first = Clock::system().now() + TimeDelta::days(1);
    let began = Instant::now();
    let due = |number: u64| {
        let number = i64::try_from(number).unwrap_or(0);
        first + TimeDelta::milliseconds(number * 86)
    };
    set_timers(bus, timers, due).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({ "far_timers": timers, "far_set_per_s": per_second(timers, seconds).round() }))
}

async fn set_timers(
    bus: &Bus,
    count: u64,
    due: impl Fn(u64) -> DateTime<Utc>,
) -> anyhow::Result<()> {
    let workspace: Workspace = WORKSPACE_DEFAULT.parse()?;
    let batches = (0..count).step_by(usize::try_from(BATCH)?);
    let commands = batches.map(|from| {
        let timers = (from..count.min(from + BATCH)).map(|number| SetTimer {
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
    let requests = stream::iter(commands).map(|command| {
        let (bus, workspace) = (bus.clone(), workspace.clone());
        async move {
            let envelope = Envelope::of_service(executor::SERVICE, command);
            match bus.ask(&workspace, &envelope).await {
                Ok(_) => Ok(()),
                Err(problem) => bail!("timers were refused: {}", problem.detail),
            }
        }
    });
    requests.buffer_unordered(WINDOW).try_collect::<()>().await
}
