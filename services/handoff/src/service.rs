//! The handoff service as the kernel runs it: its domain, and how commands become inputs.

use std::sync::Arc;

use holdpoint_auth::Trust;
use holdpoint_clock::Clock;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::Parts;
use holdpoint_kernel::{DecodedCommand, PendingSweep, Service};

use crate::domain::{HandoffDomain, Input, RequestInput};
use crate::inbound::Reader;

/// The handoff service's domain, store and outbound messages, for the kernel.
#[derive(Debug)]
pub struct Handoff {
    /// Keys that sign valid assertions.
    trust: Trust,
    /// Determines whether an assertion has expired.
    clock: Clock,
    /// Begins when a user has changed.
    pub(crate) reassignment: Arc<PendingSweep>,
}

impl Handoff {
    /// Trusts these keys by this clock.
    #[must_use]
    pub fn new(trust: Trust, clock: Clock) -> Self {
        Self {
            trust,
            clock,
            reassignment: Arc::default(),
        }
    }
}

impl Service for Handoff {
    const NAME: &'static str = holdpoint_contracts::handoff::SERVICE;
    type Domain = HandoffDomain;

    fn decode(&self, parts: &Parts, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let reader = Reader {
            parts,
            trust: &self.trust,
            now: self.clock.now(),
        };
        reader.decode(body)
    }

    /// Only the acknowledgement of a close completes a reply. The completion of a handoff also waits for that of its timer,
    /// and some milliseconds do not matter there.
    fn may_wait(&self, input: &Input) -> bool {
        let is_of_timer = |input: &RequestInput| matches!(input, RequestInput::TimerAcked { .. });
        matches!(input, Input::Request { input, .. } if is_of_timer(input))
    }
}
