//! The notification service as the kernel knows it: its name, its domain, and how a command is read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdpoint_auth::Trust;
use holdpoint_clock::Clock;
use holdpoint_contracts::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_egress::EgressPolicy;
use holdpoint_kernel::{DecodedCommand, PendingSweep, Service, Vital};
use holdpoint_mail::Mailer;

use crate::domain::{Effect, Input, NotificationDomain};
use crate::inbound::Reader;
use crate::sending::post::{Jobs, Post, PublicUrl};

#[derive(Debug)]
pub struct Notification {
    pub(crate) trust: Trust,
    /// The addresses that webhooks may have.
    pub(crate) targets: EgressPolicy,
    /// Assertions expire by it.
    pub(crate) clock: Clock,
    pub(crate) fan_out_wake: Arc<PendingSweep>,
    pub(crate) delivery_wake: Arc<PendingSweep>,
    pub(crate) post: Arc<Post>,
    /// Stores mails that no server takes.
    pub(crate) mailer: Option<Mailer>,
}

impl Notification {
    /// The jobs are the claimed deliveries that the pool sends.
    #[must_use]
    pub fn new(
        trust: Trust,
        targets: EgressPolicy,
        clock: Clock,
        public_url: PublicUrl,
    ) -> (Self, Jobs) {
        let (post, jobs) = Post::new(public_url);
        let service = Self {
            trust,
            targets,
            clock,
            fan_out_wake: Arc::default(),
            delivery_wake: Arc::default(),
            post,
            mailer: None,
        };
        (service, jobs)
    }

    /// Deletes the stored mails about erased requests and runs, before the commit, so that none is forgotten if the
    /// process ends here.
    pub(crate) async fn erase_mails(&self, effects: &[Effect]) {
        let runs = effects.iter().filter_map(|effect| {
            let Effect::EraseHold { hold, .. } = effect else {
                return None;
            };
            Some(hold.run.uuid().simple().to_string())
        });
        let runs: BTreeSet<_> = runs.collect();
        let Some(mailer) = self.mailer.as_ref().filter(|_| !runs.is_empty()) else {
            return;
        };
        if let Err(error) = mailer.erase_files(runs.into_iter().collect()).await {
            tracing::error!(%error, "stored mails of erased runs not deleted; delete them by hand");
        }
    }
}

impl Service for Notification {
    const NAME: &'static str = holdpoint_contracts::notification::SERVICE;
    type Domain = NotificationDomain;
    /// People do not notice it, and events of the same moment share a commit and a pass of the fan-out.
    const LINGER: Duration = Duration::from_millis(25);

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            targets: self.targets,
            now: self.clock.now(),
        };
        reader.decode(body)
    }
}

/// A part whose panic ends the process: otherwise people would silently not be notified.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: "notification",
        part,
    }
}
