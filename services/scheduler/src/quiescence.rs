//! Waits for quiescence: all work that a moved test clock has triggered is finished.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_contracts::{executor, handoff, scheduler};
use holdpoint_kernel::KernelStatus;
use tokio::time::Instant;

use crate::buckets::{CONSUMER, Loader};
use crate::store;

/// Real time between two observations.
const PROBE_EVERY: Duration = Duration::from_millis(3);

/// Key of timers that are due and have not fired.
const OVERDUE: &str = "overdue";

/// The kernels of this process and other counters of its work. `up` fills it.
#[derive(Debug, Clone, Default)]
pub struct KernelRegistry {
    /// Status by service.
    kernels: Arc<Mutex<Vec<(String, KernelStatus)>>>,
    /// Work outside of kernels, such as the steps of a worker.
    counters: Arc<Mutex<Vec<WorkCounter>>>,
}

/// A name and the number of unfinished items.
pub type WorkCounter = (String, Arc<AtomicUsize>);

impl KernelRegistry {
    pub fn add(&self, service: &str, status: KernelStatus) {
        lock(&self.kernels).push((service.to_owned(), status));
    }

    /// Why kernels of this process are not ready.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let reason = |(service, status): &(String, KernelStatus)| {
            let reason = status.not_ready()?;
            Some(format!("the {service} service: {reason}"))
        };
        lock(&self.kernels).iter().filter_map(reason).collect()
    }

    /// Whether JetStream does not answer to any kernel of this process.
    #[must_use]
    pub fn is_bus_silent(&self) -> bool {
        let mut kernels = lock(&self.kernels).clone().into_iter();
        kernels.any(|(_, status)| status.is_bus_silent())
    }

    /// Adds a counter of unfinished work.
    pub fn watch(&self, what: &str, count: Arc<AtomicUsize>) {
        lock(&self.counters).push((what.to_owned(), count));
    }
}

#[derive(Debug)]
pub(crate) struct QuiescenceProbe {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) kernels: KernelRegistry,
}

/// The unfinished work at one instant.
struct Observation {
    /// Texts of unfinished work by kind.
    unfinished: BTreeMap<String, String>,
    /// Tasks that the kernels have finished since their start.
    handled: usize,
}

impl QuiescenceProbe {
    /// Waits until two observations in a row find no unfinished work and no task was finished between them, at
    /// most for `cap`. Work that is not finished by then is added to `unsettled` and not waited for again.
    pub(crate) async fn wait(&self, cap: Duration, unsettled: &mut BTreeMap<String, String>) {
        let deadline = Instant::now() + cap;
        let mut before = None;
        loop {
            let mut observation = self.observe().await;
            observation
                .unfinished
                .retain(|what, _| !unsettled.contains_key(what));
            if observation.unfinished.is_empty() && before == Some(observation.handled) {
                return;
            }
            if Instant::now() >= deadline {
                if observation.unfinished.is_empty() {
                    let text = "new work keeps arriving".to_owned();
                    observation.unfinished.insert("activity".to_owned(), text);
                }
                unsettled.append(&mut observation.unfinished);
                return;
            }
            // A timer that was decided before the clock moved and stored after the due timers were read has no
            // bucket.
            if observation.unfinished.contains_key(OVERDUE) && self.loader.wheel.held() == 0 {
                let until = self.loader.clock.now() + TimeDelta::milliseconds(1);
                if let Err(error) = self.loader.load(until).await {
                    tracing::debug!(%error, "overdue timers not read; trying again");
                }
            }
            before = observation
                .unfinished
                .is_empty()
                .then_some(observation.handled);
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    async fn observe(&self) -> Observation {
        let mut unfinished = BTreeMap::new();
        let mut saw = |what: &str, text: Option<String>| {
            if let Some(text) = text {
                unfinished.insert(what.to_owned(), text);
            }
        };
        let kernels = lock(&self.kernels.kernels).clone();
        for (name, status) in &kernels {
            let busy = status.in_flight();
            let text = format!("{name}: {busy} messages are being handled");
            saw(&format!("kernel {name}"), (busy > 0).then_some(text));
        }
        for (what, count) in &*lock(&self.kernels.counters) {
            let busy = count.load(Ordering::Acquire);
            saw(what, (busy > 0).then(|| format!("{what}: {busy}")));
        }
        let held = self.loader.wheel.held();
        let text = format!("wheel: {held} timers are being fired");
        saw("wheel", (held > 0).then_some(text));
        let (executor, handoff, scheduler, steps, buckets, overdue) = tokio::join!(
            self.commands(executor::SERVICE),
            self.commands(handoff::SERVICE),
            self.commands(scheduler::SERVICE),
            self.bus.taken(StreamUse::Steps),
            self.bus.backlog(StreamUse::Timers, CONSUMER),
            self.overdue(),
        );
        saw("executor commands", executor);
        saw("handoff commands", handoff);
        saw("scheduler commands", scheduler);
        let text = "step queue: {} steps are with workers";
        saw("steps", describe_count(steps, text));
        let buckets = buckets.map(|left| left.pending + left.unacked);
        let text = "timers: {} buckets are being read";
        saw("buckets", describe_count(buckets, text));
        saw(OVERDUE, overdue);
        let handled = kernels.iter().map(|(_, it)| it.handled()).sum();
        Observation {
            unfinished,
            handled,
        }
    }

    /// Stored commands that are not acked, and whether their service has received them.
    async fn commands(&self, service: &str) -> Option<String> {
        let wanted = StreamUse::Commands(service);
        let stored = match self.bus.stored(wanted).await {
            Ok(0) => return None,
            Ok(stored) => stored,
            Err(error) => return Some(error.to_string()),
        };
        let text = format!("{service}: {stored} messages with commands wait");
        // With a test clock one process receives all commands of a service, by a consumer of its name.
        Some(match self.bus.backlog(wanted, service).await {
            Ok(left) => format!(
                "{text}: {} not delivered, {} not acked",
                left.pending, left.unacked
            ),
            Err(error) => format!("{text}: {error}"),
        })
    }

    /// The table decides: a timer that is due and pending has not fired.
    async fn overdue(&self) -> Option<String> {
        match store::next_due(&self.loader.db).await {
            Ok(Some(due)) if due <= self.loader.clock.now() => {
                Some(format!("timers: a timer due at {due} has not fired"))
            }
            Ok(_) => None,
            Err(error) => Some(format!("timers: {error}")),
        }
    }
}

fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn describe_count(found: Result<u64, BusError>, text: &str) -> Option<String> {
    match found {
        Ok(0) => None,
        Ok(count) => Some(text.replace("{}", &count.to_string())),
        Err(error) => Some(error.to_string()),
    }
}
