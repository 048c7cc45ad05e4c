//! Assertions: the gateway signs for each command who its caller is. An assertion that is intercepted is worthless for
//! another command.

use chrono::TimeDelta;
use holdpoint_auth::{Asserted, AuthError, Claims};
use holdpoint_contracts::{Command, Envelope, Problem};

use crate::app::App;

pub(crate) const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

impl App {
    /// The envelope with an assertion for its command.
    pub(crate) fn vouch<C: Command>(
        &self,
        claims: &Claims,
        envelope: Envelope<C>,
    ) -> Result<Envelope<C>, Problem> {
        let vouched = self.signer.vouch(&self.with_expiry(claims), envelope);
        vouched.map_err(|error| signing_failed(&error))
    }

    pub(crate) fn sign_assertion(
        &self,
        claims: &Claims,
        asserted: &Asserted<'_>,
    ) -> Result<String, Problem> {
        let signed = self.signer.sign(&self.with_expiry(claims), asserted);
        signed.map_err(|error| signing_failed(&error))
    }

    fn with_expiry(&self, claims: &Claims) -> Claims {
        Claims {
            expires_at: self.clock.now() + VALID_FOR,
            ..claims.clone()
        }
    }
}

fn signing_failed(error: &AuthError) -> Problem {
    tracing::error!(%error, "assertion cannot be signed; the command is refused with 500");
    Problem::internal()
}
