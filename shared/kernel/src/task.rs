//! One message on its way through the kernel.

use std::time::Duration;

use bytes::Bytes;
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::problem::Problem;
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedSemaphorePermit;

use crate::origin::Origin;
use crate::service::{InputOf, Service};

/// How long an acknowledgement waits for other inputs, if no caller waits for it.
const ACKNOWLEDGEMENT_LINGER: Duration = Duration::from_millis(25);

/// A message, usually decoded, and its origin.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent properties of a message, each read by name"
)]
pub(crate) struct Task<S: Service> {
    pub(crate) inputs: Vec<InputOf<S>>,
    /// Whether the reply is a list.
    pub(crate) many: bool,
    /// All inputs are applied or none. Such a task is a batch by itself.
    pub(crate) atomic: bool,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    pub(crate) origin: Origin,
    /// Why it cannot be handled at all. Then it has no inputs.
    pub(crate) poison: Option<Problem>,
    /// As received, for the dead letter.
    pub(crate) raw: Raw,
    /// Whether the writer has to decode it: decoding may be what ends the process.
    pub(crate) is_unread: bool,
    /// Whether it is decided alone: it arrived while the kernel isolated inputs.
    pub(crate) is_isolated: bool,
    /// Its part of the bytes that may wait; released after the commit.
    #[expect(dead_code, reason = "held until the task is dropped")]
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// A message as received.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) subject: String,
    pub(crate) body: Bytes,
}

impl<S: Service> Task<S> {
    pub(crate) fn new(inputs: Vec<InputOf<S>>, origin: Origin, raw: Raw) -> Self {
        Self {
            inputs,
            many: false,
            atomic: false,
            idempotency_key: None,
            origin,
            poison: None,
            raw,
            is_unread: false,
            is_isolated: false,
            permit: None,
        }
    }

    /// A message that is not decoded yet.
    pub(crate) fn unread(origin: Origin, raw: Raw) -> Self {
        Self {
            is_unread: true,
            ..Self::new(Vec::new(), origin, raw)
        }
    }

    /// Whether its inputs may be decided one by one.
    pub(crate) fn is_splittable(&self) -> bool {
        self.inputs.len() > 1 && !self.atomic
    }

    /// How long it may wait for others, so that one commit has more of them.
    pub(crate) fn linger(&self, service: &S) -> Duration {
        match self.origin {
            // The sender of a stored command does not wait for the commit.
            Origin::Stream { .. } => S::LINGER,
            Origin::DesiredState { .. } => {
                let mut inputs = self.inputs.iter();
                let may_wait = self.poison.is_none() && inputs.all(|input| service.may_wait(input));
                if may_wait {
                    ACKNOWLEDGEMENT_LINGER
                } else {
                    Duration::ZERO
                }
            }
            Origin::Ask { .. } | Origin::Internal { .. } | Origin::Part { .. } => Duration::ZERO,
        }
    }

    /// Names the inputs: the same for each delivery, whatever message carries them.
    pub(crate) fn inputs_digest(&self) -> String {
        let inputs = format!("{:?}", self.inputs);
        digest(&[S::NAME.as_bytes(), inputs.as_bytes()])
    }
}

impl Raw {
    pub(crate) fn digest(&self) -> String {
        digest(&[self.subject.as_bytes(), &self.body])
    }
}

fn digest(parts: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    format!("{:x}", sha.finalize())
}
