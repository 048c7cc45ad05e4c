//! Authorization, and proofs of the caller's identity.
//!
//! Owns:
//! - the built-in roles and the one authorization function ([`authorize`]);
//! - assertions, with which the gateway identifies a caller to a service ([`Signer`], [`Trust`]);
//! - tokens of running steps ([`StepKey`]) and of links in mails ([`LinkKey`]);
//! - signatures of callbacks and webhooks ([`WebhookSecret`]).
//!
//! It stores nothing and knows no clock.

mod assertion;
mod keys;
mod link;
mod rights;
mod seal;
mod step_token;
mod webhook;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub use assertion::{Asserted, Claims, Signer, Trust};
pub use keys::{Keys, Secrets};
pub use link::{Choice, LinkClaims, LinkKey};
pub use rights::{Right, Role, authorize, may};
pub use seal::{SealKey, Sealed};
pub use step_token::{PREFIX as STEP_TOKEN_PREFIX, StepClaims, StepKey};
pub use webhook::WebhookSecret;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("it is malformed")]
    Malformed,
    /// The signature is not one of a trusted key.
    #[error("its signature is not valid")]
    Forged,
    #[error("it has expired")]
    Expired,
    #[error("it is for another workspace")]
    OtherWorkspace,
    #[error("it is for another command")]
    OtherCommand,
}

impl AuthError {
    /// The caller's problem: 401 `invalid_assertion`.
    #[must_use]
    pub fn problem(self) -> holdpoint_contracts::Problem {
        holdpoint_contracts::Problem::new(
            401,
            "invalid_assertion",
            format!("the proof of the caller's identity is not accepted: {self}"),
        )
    }
}

fn pack(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn unpack(text: &str) -> Result<Vec<u8>, AuthError> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_not_base64| AuthError::Malformed)
}

/// The two parts of `payload.signature`.
fn parts(text: &str) -> Result<(&str, Vec<u8>, Vec<u8>), AuthError> {
    let (payload, signature) = text.split_once('.').ok_or(AuthError::Malformed)?;
    Ok((payload, unpack(payload)?, unpack(signature)?))
}
