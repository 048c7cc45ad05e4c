//! What leaves the application: mails to people, and calls of chats, webhooks and callbacks.
//!
//! A bounded pool outside of the database thread. It receives claimed deliveries after their commit, reads
//! their payloads from the tables, and reports results as inputs. It never decides what is sent or retried.
//! No text of a receiver is stored (S0-R5).

mod digest;
mod mail;
pub(crate) mod post;
mod signed_calls;
mod signed_request;

use std::sync::Arc;
use std::time::Duration;

use holdpoint_auth::LinkKey;
use holdpoint_clock::Clock;
use holdpoint_egress::EgressPolicy;
use holdpoint_kernel::{Handle, KernelStatus, SweepTrigger};
use holdpoint_mail::Mailer;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::post::{Job, Jobs, Post, PublicUrl};
use crate::domain::{AttemptReport, DeliveryKey, DeliveryTarget, Input, TRIES_MAX};
use crate::service::{Notification, vital};
use crate::store;

/// Longest time for one attempt; shorter than its lease.
const SEND_WITHIN: Duration = Duration::from_secs(45);

/// Why a run end is dropped for a person who has lost their roles since.
const BARRED: &str = "The person may not look at runs any more.";

/// How long the test clock waits for one attempt, in real time: a dead server does not block it.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// The channels out of the application.
#[derive(Debug, Clone)]
pub struct Outside {
    pub mailer: Mailer,
    /// Which addresses callbacks may reach.
    pub targets: EgressPolicy,
    pub public_url: PublicUrl,
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
                tries.spawn(async move { stop.run_until_cancelled(Box::pin(pool.run(job))).await });
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
