//! Assertions: the gateway signs for each command who its caller is. An assertion that is intercepted is worthless for
//! another command.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{Asserted, AuthError, Claims, Signer};
use holdpoint_contracts::{Command, Envelope, Problem};

/// How long an assertion is valid.
pub(crate) const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

#[derive(Debug)]
pub(crate) struct Assertions {
    signer: Arc<Signer>,
}

impl Assertions {
    pub(crate) fn new(signer: Arc<Signer>) -> Self {
        Self { signer }
    }

    /// The envelope with an assertion for its command.
    pub(crate) fn vouch<C: Command>(
        &self,
        claims: &Claims,
        envelope: Envelope<C>,
        now: DateTime<Utc>,
    ) -> Result<Envelope<C>, Problem> {
        let vouched = self.signer.vouch(&with_expiry(claims, now), envelope);
        vouched.map_err(|error| signing_failed(&error))
    }

    /// An assertion for a serialized command.
    pub(crate) fn sign(
        &self,
        claims: &Claims,
        asserted: &Asserted<'_>,
        now: DateTime<Utc>,
    ) -> Result<String, Problem> {
        let signed = self.signer.sign(&with_expiry(claims, now), asserted);
        signed.map_err(|error| signing_failed(&error))
    }
}

fn with_expiry(claims: &Claims, now: DateTime<Utc>) -> Claims {
    Claims {
        expires_at: now + VALID_FOR,
        ..claims.clone()
    }
}

fn signing_failed(error: &AuthError) -> Problem {
    tracing::error!(%error, "assertion cannot be signed; the command is refused with 500");
    Problem::internal()
}
