//! The scheduler as the kernel runs it: its domain, and the buckets that it has armed.

use std::sync::Arc;

use holdpoint_auth::Trust;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::SERVICE;
use holdpoint_contracts::subject::Parts;
use holdpoint_kernel::{DecodedCommand, Service, Vital};

use crate::arming::Arming;
use crate::domain::{Input, SchedulerDomain};
use crate::inbound::Reader;

/// The scheduler as the kernel runs it.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) arming: Arc<Arming>,
    /// Keys that sign valid assertions.
    trust: Trust,
    /// Determines whether an assertion has expired.
    clock: Clock,
}

impl Scheduler {
    /// Nothing is armed yet.
    #[must_use]
    pub fn new(trust: Trust, clock: Clock) -> Self {
        Self {
            arming: Arc::new(Arming::new(clock.clone())),
            trust,
            clock,
        }
    }
}

impl Service for Scheduler {
    const NAME: &'static str = SERVICE;
    type Domain = SchedulerDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            now: self.clock.now(),
        };
        reader.decode(body)
    }
}

/// A task whose panic ends the process. Otherwise timers would stop without notice.
pub(crate) const fn vital(part: &'static str) -> Vital {
    Vital {
        service: SERVICE,
        part,
    }
}
