//! What leaves the application: mails to people, and calls of chats, webhooks and callbacks.
//!
//! A bounded pool outside of the database thread. It receives claimed deliveries after their commit, reads
//! their payloads from the tables, and reports results as inputs. It never decides what is sent or retried.
//! No text of a receiver is stored (S0-R5).

mod callback;
mod chat;
mod digest;
mod mail;
mod signed_request;
mod webhook;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use holdpoint_auth::LinkKey;
use holdpoint_clock::Clock;
use holdpoint_contracts::notification::Channel;
use holdpoint_egress::EgressPolicy;
use holdpoint_kernel::{Handle, KernelStatus, SweepTrigger};
use holdpoint_mail::Mailer;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::{AttemptReport, DeliveryKey, DeliveryTarget, Input, TRIES_MAX};
use crate::store;
use crate::{Notification, vital};

/// Concurrent deliveries of one channel, so that a hanging mail server delays no callback.
const AT_WORK_MAX: usize = 16;

/// Concurrent calls of one webhook or chat, so that a hanging one delays no other.
const AT_WORK_OF_ONE: usize = 4;

/// Longest time for one attempt; shorter than its lease.
const SEND_WITHIN: Duration = Duration::from_secs(45);

/// Why a run end is dropped for a person who has lost their roles since.
const BARRED: &str = "The person may not look at runs any more.";

/// How long the test clock waits for one attempt, in real time: a dead server does not block it.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// The address of the installation, with which links in mails begin. In one process with the gateway it is
/// known a moment after the start, and nothing is sent before. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct PublicUrl(Arc<OnceLock<Option<String>>>);

impl PublicUrl {
    /// An address that is known from the start. `None`: mails have no links.
    #[must_use]
    pub fn of(url: Option<String>) -> Self {
        let known = Self::default();
        known.set(url);
        known
    }

    /// Sets the address. Only the first call counts.
    pub fn set(&self, url: Option<String>) {
        let url = url.map(|url| url.trim_end_matches('/').to_owned());
        drop(self.0.set(url));
    }

    fn known(&self) -> Option<&Option<String>> {
        self.0.get()
    }
}

/// The channels out of the application.
#[derive(Debug, Clone)]
pub struct Outside {
    pub mailer: Mailer,
    /// Which addresses callbacks may reach.
    pub targets: EgressPolicy,
    pub public_url: PublicUrl,
}

/// One claimed delivery.
#[derive(Debug)]
struct Job {
    key: DeliveryKey,
    attempt: u32,
}

/// The pool's entrance.
#[derive(Debug)]
pub(crate) struct Post {
    jobs: mpsc::UnboundedSender<Job>,
    at_work: Mutex<HashSet<DeliveryKey>>,
    activity: OnceLock<KernelStatus>,
    public_url: PublicUrl,
}

/// Jobs on their way into the pool; as many as were claimed, which [`Post::room`] bounds.
#[derive(Debug)]
pub struct Jobs(mpsc::UnboundedReceiver<Job>);

impl Post {
    pub(crate) fn new(public_url: PublicUrl) -> (Arc<Self>, Jobs) {
        let (jobs, taken) = mpsc::unbounded_channel();
        let post = Self {
            jobs,
            at_work: Mutex::default(),
            activity: OnceLock::new(),
            public_url,
        };
        (Arc::new(post), Jobs(taken))
    }

    /// Claimed deliveries are sent from now on; before, nothing may be claimed.
    pub(crate) fn open(&self, activity: KernelStatus) {
        drop(self.activity.set(activity));
    }

    /// Called after the commit of its claim.
    pub(crate) fn send(&self, key: &DeliveryKey, attempt: u32) {
        let Some(activity) = self.activity.get() else {
            return;
        };
        // An attempt under an earlier lease is still running and may succeed.
        if !self.at_work().insert(key.clone()) {
            return;
        }
        activity.begin();
        let key = key.clone();
        if self.jobs.send(Job { key, attempt }).is_err() {
            tracing::debug!(
                "stopping; a claimed delivery is attempted again when its lease expires"
            );
        }
    }

    /// How many more may be claimed now; 0 while the address of the installation is unknown.
    pub(crate) fn room(&self, channel: Channel) -> usize {
        if self.public_url.known().is_none() {
            return 0;
        }
        let at_work = self.at_work();
        let taken = at_work.iter().filter(|key| key.to.channel() == channel);
        AT_WORK_MAX.saturating_sub(taken.count())
    }

    /// How many more calls of one webhook or chat may be claimed now.
    pub(crate) fn room_of(&self, to: &DeliveryTarget) -> usize {
        let at_work = self.at_work();
        let taken = at_work.iter().filter(|key| key.to == *to);
        AT_WORK_OF_ONE.saturating_sub(taken.count())
    }

    /// Webhooks and chats at their limit of concurrent calls.
    pub(crate) fn busy(&self) -> Vec<DeliveryTarget> {
        let mut taken: HashMap<DeliveryTarget, usize> = HashMap::new();
        for key in &*self.at_work() {
            match key.to {
                DeliveryTarget::Webhook(_) | DeliveryTarget::Chat(_) => {
                    *taken.entry(key.to.clone()).or_default() += 1;
                }
                DeliveryTarget::Mail(_) | DeliveryTarget::Callback | DeliveryTarget::Digest(_) => {}
            }
        }
        taken.retain(|_, count| *count >= AT_WORK_OF_ONE);
        taken.into_keys().collect()
    }

    pub(crate) fn is_at_work(&self, key: &DeliveryKey) -> bool {
        self.at_work().contains(key)
    }

    fn at_work(&self) -> MutexGuard<'_, HashSet<DeliveryKey>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery that is being sent. However the attempt ends, also by a panic or because it was cut off, the drop
/// releases its place, ends what the kernel counted, and wakes the sweep.
struct InFlight<'a, W: Fn()> {
    post: &'a Post,
    key: &'a DeliveryKey,
    /// Counted until the attempt ends or takes longer than [`SETTLE_WITHIN`].
    counted: Option<KernelStatus>,
    wake_sweep: W,
}

impl<W: Fn()> InFlight<'_, W> {
    async fn run(mut self, attempt: impl Future<Output = ()>) {
        let mut attempt = std::pin::pin!(attempt);
        let in_time = tokio::time::timeout(SETTLE_WITHIN, &mut attempt).await;
        self.stop_counting();
        if in_time.is_err() {
            attempt.await;
        }
    }

    fn stop_counting(&mut self) {
        if let Some(status) = self.counted.take() {
            status.end();
        }
    }
}

impl<W: Fn()> Drop for InFlight<'_, W> {
    fn drop(&mut self) {
        self.stop_counting();
        self.post.at_work().remove(self.key);
        (self.wake_sweep)();
    }
}

/// What an attempt needs.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) post: Arc<Post>,
    pub(crate) handle: Handle<Notification>,
    pub(crate) readers: DatabaseConnection,
    pub(crate) clock: Clock,
    pub(crate) outside: Outside,
    pub(crate) client: reqwest::Client,
    /// Signs what mails link to.
    pub(crate) links: LinkKey,
    pub(crate) nudge: SweepTrigger,
}

impl Pool {
    /// Sends until `stop`. An attempt that is cut off is repeated when its lease expires.
    pub(crate) fn start(self, mut jobs: Jobs, stop: CancellationToken, tracker: &TaskTracker) {
        let tries = tracker.clone();
        tracker.spawn(vital("sending").run(async move {
            while let Some(Some(job)) = stop.run_until_cancelled(jobs.0.recv()).await {
                let (pool, stop) = (self.clone(), stop.clone());
                tries.spawn(async move { stop.run_until_cancelled(pool.run(job)).await });
            }
        }));
    }

    async fn run(self, job: Job) {
        let in_flight = InFlight {
            post: &self.post,
            key: &job.key,
            counted: Some(self.handle.status()),
            wake_sweep: || self.nudge.now(),
        };
        in_flight.run(self.attempt_and_report(&job)).await;
    }

    async fn attempt_and_report(&self, job: &Job) {
        let tried = tokio::time::timeout(SEND_WITHIN, self.attempt(&job.key)).await;
        let report = tried.unwrap_or_else(|_late| later("It took too long to be sent."));
        if let AttemptReport::Later(error) | AttemptReport::Never(error) = &report {
            let id = job.key.stable_id();
            if matches!(report, AttemptReport::Never(_)) || job.attempt >= TRIES_MAX {
                tracing::warn!(delivery = id, attempt = job.attempt, %error, "delivery failed; it is not attempted again");
            } else {
                tracing::info!(delivery = id, attempt = job.attempt, %error, "delivery failed; it will be attempted again");
            }
        }
        let input = Input::RecordAttempt {
            key: job.key.clone(),
            attempt: job.attempt,
            report,
        };
        if !self.handle.submit(vec![input]).await {
            tracing::warn!("the result of a delivery is not stored; it will be attempted again");
        }
    }

    async fn attempt(&self, key: &DeliveryKey) -> AttemptReport {
        match &key.to {
            DeliveryTarget::Digest(name) => self.digest(key, name).await,
            DeliveryTarget::Mail(_)
            | DeliveryTarget::Callback
            | DeliveryTarget::Webhook(_)
            | DeliveryTarget::Chat(_) => self.attempt_event(key).await,
        }
    }

    async fn attempt_event(&self, key: &DeliveryKey) -> AttemptReport {
        let payload = match store::delivery_payload(&self.readers, key).await {
            Ok(Some(payload)) => payload,
            Ok(None) => return never("The event is past its retention."),
            Err(error) => return unread("a delivery", &error),
        };
        match &key.to {
            DeliveryTarget::Mail(_) => self.mail(key, &payload).await,
            DeliveryTarget::Callback => self.call_back(key, &payload).await,
            DeliveryTarget::Webhook(id) => self.call_webhook(key, *id, &payload).await,
            DeliveryTarget::Chat(_) => self.chat(key, &payload).await,
            DeliveryTarget::Digest(_) => never("A digest has no event."),
        }
    }
}

fn unread(what: &str, error: &StoreError) -> AttemptReport {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "{what} cannot be read"
    );
    later("The tables could not be read.")
}

fn later(error: &str) -> AttemptReport {
    AttemptReport::Later(error.to_owned())
}

fn dropped(why: &str) -> AttemptReport {
    AttemptReport::Dropped(why.to_owned())
}

fn never(error: &str) -> AttemptReport {
    AttemptReport::Never(error.to_owned())
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    /// Mend, finding `sending.rs`: an attempt that panics releases its place, is counted no more, and wakes
    /// the sweep. Four such attempts would otherwise end all calls of a webhook until the next start.
    #[tokio::test]
    async fn an_attempt_that_panics_leaks_nothing() {
        let (post, mut jobs) = Post::new(PublicUrl::of(None));
        let (status, wakes) = (KernelStatus::default(), AtomicUsize::new(0));
        post.open(status.clone());
        let key = DeliveryKey {
            workspace: "acme".parse().unwrap(),
            note: "note_00000000000000000000000000000001-1".parse().unwrap(),
            to: DeliveryTarget::Callback,
        };
        for panics in [true, false] {
            post.send(&key, 1);
            assert_eq!(status.in_flight(), 1);
            let job = jobs.0.recv().await.unwrap();
            let in_flight = InFlight {
                post: &post,
                key: &job.key,
                counted: Some(status.clone()),
                wake_sweep: || {
                    wakes.fetch_add(1, Ordering::Relaxed);
                },
            };
            let run = in_flight.run(async { assert!(!panics, "a defect") });
            let ended = AssertUnwindSafe(run).catch_unwind().await;
            assert_eq!(ended.is_err(), panics);
            assert!(!post.is_at_work(&key));
            assert_eq!(status.in_flight(), 0, "the test clock would wait for ever");
        }
        assert_eq!(wakes.into_inner(), 2);
    }
}
