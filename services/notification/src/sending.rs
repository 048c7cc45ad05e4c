//! What leaves the application: mails to people and the outcome of holds to whoever asked for them.
//!
//! A bounded pool outside the database thread. It is given what was claimed and committed, reads what
//! to send from the tables, and says what came of it as an input. It decides nothing: not what is
//! sent, not whether it is tried again. No text of another side is stored (S0-R5).

mod callback;
mod chat;
mod digest;
mod mail;
mod post;
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

use crate::domain::{DeliveryKey, Input, Recipient, Report, TRIES_MAX};
use crate::store;
use crate::{Notification, vital};

/// Deliveries of one way that are on their way at the same time: a mail server that hangs keeps no
/// callback waiting.
const AT_WORK_MAX: usize = 16;

/// Of these, calls of one webhook or chat: one that hangs keeps no other waiting.
const AT_WORK_OF_ONE: usize = 4;

/// Longest time for one try; shorter than its lease.
const SEND_WITHIN: Duration = Duration::from_secs(45);

/// Why somebody is not told how a run ended who has lost their roles since.
const BARRED: &str = "The person may not look at runs any more.";

/// Whoever moves the clock waits so long for one try, in real time: a dead server holds nobody up.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// Where people reach the installation; links in mails begin with it. In one process with the gateway
/// it is known a moment after the start: nothing is sent before. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct PublicUrl(Arc<OnceLock<Option<String>>>);

impl PublicUrl {
    /// Known from the start; none: mails have no links.
    #[must_use]
    pub fn of(url: Option<String>) -> Self {
        let known = Self::default();
        known.tell(url);
        known
    }

    /// Says where it is; only the first word counts.
    pub fn tell(&self, url: Option<String>) {
        let url = url.map(|url| url.trim_end_matches('/').to_owned());
        drop(self.0.set(url));
    }

    fn known(&self) -> Option<&Option<String>> {
        self.0.get()
    }
}

/// The ways out of the application.
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

    /// From here on what is claimed is sent; before, nothing is to be claimed.
    pub(crate) fn open(&self, activity: KernelStatus) {
        drop(self.activity.set(activity));
    }

    /// Called after the commit of its claim.
    pub(crate) fn send(&self, key: &DeliveryKey, attempt: u32) {
        let Some(activity) = self.activity.get() else {
            return;
        };
        // Still at work under a lease of before: that one may yet end well.
        if !self.at_work().insert(key.clone()) {
            return;
        }
        activity.begin();
        let key = key.clone();
        if self.jobs.send(Job { key, attempt }).is_err() {
            tracing::debug!("stopping: what was claimed is sent when its lease is over");
        }
    }

    /// How many more may be claimed now; none while it is not known where links lead.
    pub(crate) fn room(&self, channel: Channel) -> usize {
        if self.public_url.known().is_none() {
            return 0;
        }
        let at_work = self.at_work();
        let taken = at_work.iter().filter(|key| key.to.channel() == channel);
        AT_WORK_MAX.saturating_sub(taken.count())
    }

    /// How many more calls of one webhook or chat may be claimed now.
    pub(crate) fn room_of(&self, to: &Recipient) -> usize {
        let at_work = self.at_work();
        let taken = at_work.iter().filter(|key| key.to == *to);
        AT_WORK_OF_ONE.saturating_sub(taken.count())
    }

    /// Webhooks and chats that take no more calls now.
    pub(crate) fn busy(&self) -> Vec<Recipient> {
        let mut taken: HashMap<Recipient, usize> = HashMap::new();
        for key in &*self.at_work() {
            match key.to {
                Recipient::Webhook(_) | Recipient::Chat(_) => {
                    *taken.entry(key.to.clone()).or_default() += 1;
                }
                Recipient::Mail(_) | Recipient::Callback | Recipient::Digest(_) => {}
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

/// A delivery that is out. A try that panics must leave its place to others, too.
struct Out<'a> {
    post: &'a Post,
    key: &'a DeliveryKey,
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.post.at_work().remove(self.key);
    }
}

/// What a try needs.
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
    /// Sends what is dispatched until `stop`; what is cut off is sent when its lease is over.
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
        let out = Out {
            post: &self.post,
            key: &job.key,
        };
        let activity = self.handle.status();
        let mut whole = Box::pin(self.whole(&job));
        let in_time = tokio::time::timeout(SETTLE_WITHIN, &mut whole).await;
        activity.end();
        if in_time.is_err() {
            whole.await;
        }
        drop(out);
        self.nudge.now();
    }

    async fn whole(&self, job: &Job) {
        let tried = tokio::time::timeout(SEND_WITHIN, self.attempt(&job.key)).await;
        let report = tried.unwrap_or_else(|_late| later("It took too long to be sent."));
        if let Report::Later(error) | Report::Never(error) = &report {
            let id = job.key.stable_id();
            if matches!(report, Report::Never(_)) || job.attempt >= TRIES_MAX {
                tracing::warn!(delivery = id, attempt = job.attempt, %error, "given up");
            } else {
                tracing::info!(delivery = id, attempt = job.attempt, %error, "not delivered yet");
            }
        }
        let input = Input::Reported {
            key: job.key.clone(),
            attempt: job.attempt,
            report,
        };
        if !self.handle.submit(vec![input]).await {
            tracing::warn!("what came of a delivery is not stored; it will be made again");
        }
    }

    async fn attempt(&self, key: &DeliveryKey) -> Report {
        match &key.to {
            Recipient::Digest(name) => self.digest(key, name).await,
            Recipient::Mail(_)
            | Recipient::Callback
            | Recipient::Webhook(_)
            | Recipient::Chat(_) => self.attempt_note(key).await,
        }
    }

    async fn attempt_note(&self, key: &DeliveryKey) -> Report {
        let parcel = match store::parcel(&self.readers, key).await {
            Ok(Some(parcel)) => parcel,
            Ok(None) => return never("What it is of is not there any more."),
            Err(error) => return unread("a delivery", &error),
        };
        match &key.to {
            Recipient::Mail(_) => self.mail(key, &parcel).await,
            Recipient::Callback => self.call_back(key, &parcel).await,
            Recipient::Webhook(id) => self.call_webhook(key, *id, &parcel).await,
            Recipient::Chat(_) => self.chat(key, &parcel).await,
            Recipient::Digest(_) => never("A digest is of no notification."),
        }
    }
}

fn unread(what: &str, error: &StoreError) -> Report {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "{what} cannot be read"
    );
    later("The tables could not be read.")
}

fn later(error: &str) -> Report {
    Report::Later(error.to_owned())
}

fn dropped(why: &str) -> Report {
    Report::Dropped(why.to_owned())
}

fn never(error: &str) -> Report {
    Report::Never(error.to_owned())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Four such tries would end all calls of a webhook, and sixteen all of a way, until the next start.
    #[test]
    fn a_try_that_panics_leaves_its_place() {
        let (post, _jobs) = Post::new(PublicUrl::of(None));
        let key = DeliveryKey {
            workspace: "acme".parse().unwrap(),
            note: "note_00000000000000000000000000000001-1".parse().unwrap(),
            to: Recipient::Callback,
        };
        post.at_work().insert(key.clone());
        let tries = AssertUnwindSafe(|| {
            let _out = Out {
                post: &post,
                key: &key,
            };
            panic!("a defect");
        });
        assert!(catch_unwind(tries).is_err());
        assert!(!post.is_at_work(&key));
    }
}
