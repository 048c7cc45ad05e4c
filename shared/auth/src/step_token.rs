//! The token with which a running step acts: HMAC-SHA-256 over run, step and dispatch.
//!
//! Every dispatch needs a token, so it must be cheap. Executor and gateway therefore share a key instead of
//! using public keys.

use chrono::{DateTime, Utc};
use holdpoint_ids::{RunId, Workspace};
use serde::{Deserialize, Serialize};

use crate::seal::{SealKey, Sealed};

/// The prefix that distinguishes a step token from a user's token.
pub const PREFIX: &str = "hps_";

/// The dispatch that a token identifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepClaims {
    pub workspace: Workspace,
    /// The token gives access to no other run.
    pub run: RunId,
    pub step: String,
    /// A later dispatch invalidates the token.
    pub dispatch: u64,
    #[serde(with = "holdpoint_contracts::instant")]
    pub expires_at: DateTime<Utc>,
}

impl Sealed for StepClaims {
    const PREFIX: &'static str = PREFIX;

    fn expires_at(&self) -> DateTime<Utc> {
        self.expires_at
    }
}

pub type StepKey = SealKey<StepClaims>;

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::{AuthError, pack};

    fn key(byte: u8) -> StepKey {
        StepKey::new(&pack(&[byte; 32])).unwrap()
    }

    fn claims() -> StepClaims {
        StepClaims {
            workspace: "acme".parse().unwrap(),
            run: "run_01920000000070008000000000000001".parse().unwrap(),
            step: "step-01".to_owned(),
            dispatch: 3,
            expires_at: DateTime::UNIX_EPOCH + TimeDelta::minutes(5),
        }
    }

    #[test]
    fn a_token_says_whose_it_is_and_no_other_key_made_it() {
        let text = key(1).sign(&claims()).unwrap();
        assert_eq!(key(1).check(&text, DateTime::UNIX_EPOCH), Ok(claims()));
        let forged = key(2).check(&text, DateTime::UNIX_EPOCH);
        assert_eq!(forged, Err(AuthError::Forged));
        let late = key(1).check(&text, claims().expires_at);
        assert_eq!(late, Err(AuthError::Expired));
        assert_eq!(
            key(1).check("hp_other", DateTime::UNIX_EPOCH),
            Err(AuthError::Malformed)
        );
        assert!(StepKey::new("c2hvcnQ").is_err());
    }
}
