//! The entrance of the pool: claimed deliveries on their way out, and how many more may be claimed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdpoint_contracts::notification::Channel;
use holdpoint_ids::Workspace;
use holdpoint_kernel::KernelStatus;
use tokio::sync::mpsc;

use crate::domain::{DeliveryKey, DeliveryTarget};

/// Concurrent deliveries of one channel, so that a hanging mail server delays no callback.
const AT_WORK_MAX: usize = 16;

/// Concurrent calls of one webhook or chat, so that a hanging one delays no other.
const AT_WORK_OF_ONE: usize = 4;

/// A target of a workspace: users of two workspaces may have one name.
pub(crate) type Target = (Workspace, DeliveryTarget);

pub(crate) fn target_of(key: &DeliveryKey) -> Target {
    (key.workspace.clone(), key.to.clone())
}

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

    pub(super) fn known(&self) -> Option<&Option<String>> {
        self.0.get()
    }
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: DeliveryKey,
    pub(super) attempt: u32,
}

#[derive(Debug)]
pub(crate) struct Post {
    jobs: mpsc::UnboundedSender<Job>,
    at_work: Mutex<HashSet<DeliveryKey>>,
    activity: OnceLock<KernelStatus>,
    public_url: PublicUrl,
}

/// Jobs on their way into the pool; as many as were claimed, which [`Post::room`] bounds.
#[derive(Debug)]
pub struct Jobs(pub(super) mpsc::UnboundedReceiver<Job>);

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
    pub(crate) fn room_of(&self, target: &Target) -> usize {
        let at_work = self.at_work();
        let taken = at_work.iter().filter(|key| target_of(key) == *target);
        AT_WORK_OF_ONE.saturating_sub(taken.count())
    }

    /// Webhooks and chats at their limit of concurrent calls.
    pub(crate) fn busy(&self) -> Vec<Target> {
        let mut taken: HashMap<Target, usize> = HashMap::new();
        for key in &*self.at_work() {
            match key.to {
                DeliveryTarget::Webhook(_) | DeliveryTarget::Chat(_) => {
                    *taken.entry(target_of(key)).or_default() += 1;
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

    pub(super) fn at_work(&self) -> MutexGuard<'_, HashSet<DeliveryKey>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
