//! What the gateway signs about its callers: each command by itself, so that what is read on the way to its
//! owner is worth nothing for another one.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{Asserted, AuthError, Claims, Signer};
use holdpoint_contracts::{Command, Envelope, Problem};

/// How long an assertion is worth something.
pub(crate) const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

/// The signer.
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
        let vouched = self.signer.vouch(&lasting(claims, now), envelope);
        vouched.map_err(|error| unsigned(&error))
    }

    /// An assertion for a command that is written already.
    pub(crate) fn of(
        &self,
        claims: &Claims,
        asserted: &Asserted<'_>,
        now: DateTime<Utc>,
    ) -> Result<String, Problem> {
        let signed = self.signer.sign(&lasting(claims, now), asserted);
        signed.map_err(|error| unsigned(&error))
    }
}

fn lasting(claims: &Claims, now: DateTime<Utc>) -> Claims {
    Claims {
        expires_at: now + VALID_FOR,
        ..claims.clone()
    }
}

fn unsigned(error: &AuthError) -> Problem {
    tracing::error!(%error, "an assertion that cannot be signed");
    Problem::internal()
}
