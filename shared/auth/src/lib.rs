//! Who may do what, and how one service proves to another who is asking.
//!
//! Owns the built-in roles and the one authorization function ([`authorize`]), the assertions by
//! which the gateway vouches for a caller ([`Signer`], [`Trust`]), and the tokens by which a running
//! step speaks for itself ([`StepKey`]), by which a link in a mail acts for a person ([`LinkKey`]), and
//! the signature of what is called back ([`WebhookSecret`]). It stores nothing and knows no clock.

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
pub use step_token::{PREFIX as STEP_TOKEN_PREFIX, StepClaims, StepKey};
pub use webhook::WebhookSecret;

/// Why a proof is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// It cannot be read.
    #[error("it is not written as such a proof is")]
    Malformed,
    /// Nobody whom this service trusts has signed it.
    #[error("nobody trusted has signed it")]
    Forged,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// It is good, for another workspace.
    #[error("it is for another workspace")]
    OtherWorkspace,
    /// It is good, for another command.
    #[error("it is for another command")]
    OtherCommand,
}

impl AuthError {
    /// How a caller is told: 401 `invalid_assertion`.
    #[must_use]
    pub fn problem(self) -> holdpoint_contracts::Problem {
        holdpoint_contracts::Problem::new(
            401,
            "invalid_assertion",
            format!("the proof of who asks is not accepted: {self}"),
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
