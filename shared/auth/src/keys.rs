//! The secrets of one installation, and the keys that services derive from them.

use serde::{Deserialize, Serialize};

use crate::{AuthError, LinkKey, Signer, StepKey, Trust, pack};

/// The secrets. Without them all earlier tokens and assertions are invalid. They are written to a file that
/// only the operator can read.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Seed of the gateway's signing key.
    pub assertion_seed: String,
    /// Secret of step tokens, and of links in mails by derivation; base64url of 32 bytes.
    pub step_secret: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Random secrets.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never.
    pub fn fresh() -> Result<Self, AuthError> {
        let random: [u8; 32] = rand::random();
        Ok(Self {
            assertion_seed: Signer::fresh().seed()?,
            step_secret: pack(&random),
        })
    }

    /// For the gateway.
    ///
    /// # Errors
    /// [`AuthError::Malformed`]: the seed is invalid.
    pub fn signer(&self) -> Result<Signer, AuthError> {
        Signer::from_seed(&self.assertion_seed)
    }

    /// For every service.
    ///
    /// # Errors
    /// [`AuthError::Malformed`]: a secret is invalid.
    pub fn keys(&self) -> Result<Keys, AuthError> {
        Ok(Keys {
            trust: Trust::new(&[self.signer()?.public_key()]),
            steps: StepKey::new(&self.step_secret)?,
            links: LinkKey::new(&self.step_secret)?,
        })
    }
}

/// The keys of a service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keys {
    pub trust: Trust,
    pub steps: StepKey,
    pub links: LinkKey,
}
