//! Whether everything has come to rest, as far as it can be seen from here. Reads, and changes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::TimeDelta;
use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_contracts::{executor, handoff, scheduler};
use holdpoint_kernel::KernelStatus;
use tokio::time::Instant;

use crate::buckets::{CONSUMER, Loader};
use crate::store;

/// Real time between two looks.
const LOOK: Duration = Duration::from_millis(3);

/// Names timers that are due and have not fired.
const OVERDUE: &str = "overdue";

/// The kernels of this process, by the names of their services; `up` fills it in.
#[derive(Debug, Clone, Default)]
pub struct Settling {
    /// How busy each is.
    pub kernels: Arc<Mutex<Vec<(String, KernelStatus)>>>,
    /// What else moves in this process, counted by whoever moves it: steps with a worker.
    pub others: Arc<Mutex<Vec<Other>>>,
}

/// Something that moves in this process: what, and how many of it.
pub type Other = (String, Arc<AtomicUsize>);

impl Settling {
    /// Counts one more kernel in.
    pub fn add(&self, service: &str, activity: KernelStatus) {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.push((service.to_owned(), activity));
    }

    /// What the kernels of this process lack to do their work, if anything.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let lacking = kernels.iter().filter_map(|(service, activity)| {
            let lacks = activity.not_ready()?;
            Some(format!("the {service} service: {lacks}"))
        });
        lacking.collect()
    }

    /// Whether JetStream says nothing to what any kernel of this process publishes.
    #[must_use]
    pub fn is_bus_silent(&self) -> bool {
        let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.iter().any(|(_, activity)| activity.is_bus_silent())
    }
}

impl Settling {
    /// Counts something else in, by how many of it there are.
    pub fn watch(&self, what: &str, count: Arc<AtomicUsize>) {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.push((what.to_owned(), count));
    }
}

/// Looks at everything that can be on its way.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) bus: Bus,
    pub(crate) loader: Loader,
    pub(crate) settling: Settling,
}

/// What was seen at one look.
struct LookupFn {
    /// What moves, in words, by what it is.
    restless: BTreeMap<String, String>,
    /// Everything that the kernels have handled so far.
    handled: usize,
}

impl Rest {
    /// Waits until two looks in a row see nothing move and nothing handled between them, at most for
    /// `cap`. What did not come to rest is added to `unsettled` and never waited for again.
    pub(crate) async fn wait(&self, cap: Duration, unsettled: &mut BTreeMap<String, String>) {
        let deadline = Instant::now() + cap;
        let mut before = None;
        loop {
            let mut lookup = self.lookup().await;
            lookup
                .restless
                .retain(|what, _| !unsettled.contains_key(what));
            if lookup.restless.is_empty() && before == Some(lookup.handled) {
                return;
            }
            if Instant::now() >= deadline {
                if lookup.restless.is_empty() {
                    let text = "work keeps coming".to_owned();
                    lookup.restless.insert("activity".to_owned(), text);
                }
                unsettled.append(&mut lookup.restless);
                return;
            }
            // It was decided on before the clock moved, and stored after what is due was looked for: no bucket
            // brings it.
            if lookup.restless.contains_key(OVERDUE) && self.loader.wheel.held() == 0 {
                let until = self.loader.clock.now() + TimeDelta::milliseconds(1);
                if let Err(error) = self.loader.load(until).await {
                    tracing::debug!(%error, "what is overdue could not be read");
                }
            }
            before = lookup.restless.is_empty().then_some(lookup.handled);
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn lookup(&self) -> LookupFn {
        let mut restless = BTreeMap::new();
        let mut saw = |what: &str, text: Option<String>| {
            if let Some(text) = text {
                restless.insert(what.to_owned(), text);
            }
        };
        let kernels = self.kernels();
        for (name, activity) in &kernels {
            let busy = activity.in_flight();
            let text = format!("{name}: {busy} messages are being handled");
            saw(&format!("kernel {name}"), (busy > 0).then_some(text));
        }
        for (what, busy) in self.others() {
            saw(&what, (busy > 0).then(|| format!("{what}: {busy}")));
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
        saw(
            "steps",
            count(steps, "step queue: {} steps are with workers"),
        );
        let buckets = buckets.map(|left| left.pending + left.unacked);
        saw(
            "buckets",
            count(buckets, "timers: {} buckets are being read"),
        );
        saw(OVERDUE, overdue);
        let handled = kernels.iter().map(|(_, it)| it.handled()).sum();
        LookupFn { restless, handled }
    }

    fn others(&self) -> Vec<(String, usize)> {
        let others = self.settling.others.lock();
        let others = others.unwrap_or_else(PoisonError::into_inner);
        let now = |(what, count): &Other| (what.clone(), count.load(Ordering::Acquire));
        others.iter().map(now).collect()
    }

    fn kernels(&self) -> Vec<(String, KernelStatus)> {
        self.settling
            .kernels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stored commands that are not done, and whether their service was given them.
    async fn commands(&self, service: &str) -> Option<String> {
        let wanted = StreamUse::Commands(service);
        let stored = match self.bus.stored(wanted).await {
            Ok(0) => return None,
            Ok(stored) => stored,
            Err(error) => return Some(error.to_string()),
        };
        let text = format!("{service}: {stored} messages of commands wait");
        // One process takes all of a service, by a consumer of its name.
        Some(match self.bus.backlog(wanted, service).await {
            Ok(left) => format!(
                "{text}: {} not delivered, {} not acked",
                left.pending, left.unacked
            ),
            Err(error) => format!("{text}: {error}"),
        })
    }

    /// The table has the last word: a timer that is due and pending has not yet fired.
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

fn count(found: Result<u64, BusError>, text: &str) -> Option<String> {
    match found {
        Ok(0) => None,
        Ok(count) => Some(text.replace("{}", &count.to_string())),
        Err(error) => Some(error.to_string()),
    }
}
