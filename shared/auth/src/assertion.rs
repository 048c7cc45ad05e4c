//! The gateway vouches for a caller: Ed25519 over a few claims.
//!
//! An assertion speaks of a caller and not of one command, so that the gateway signs once in a while
//! and the services check once in a while; it lives for minutes.

use chrono::{DateTime, Utc};
use holdpoint_ids::{RoleName, UserName, Workspace};
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};

use crate::{AuthError, pack, parts};

/// What is vouched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Where the caller is who they are.
    pub workspace: Workspace,
    /// Who.
    pub user: UserName,
    /// With which roles at the time of signing.
    pub roles: Vec<RoleName>,
    /// From when on it is worth nothing.
    #[serde(with = "holdpoint_contracts::instant")]
    pub expires_at: DateTime<Utc>,
}

/// Signs assertions; only the gateway has one.
pub struct Signer(KeyPair);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.public_key()).finish()
    }
}

impl Signer {
    /// A signer with a fresh key.
    #[must_use]
    pub fn fresh() -> Self {
        Self(KeyPair::new_service())
    }

    /// The signer of a seed that was kept.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] when the text is no seed.
    pub fn from_seed(seed: &str) -> Result<Self, AuthError> {
        KeyPair::from_seed(seed)
            .map(Self)
            .map_err(|_no_seed| AuthError::Malformed)
    }

    /// The seed, to be kept secret.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for a signer made here.
    pub fn seed(&self) -> Result<String, AuthError> {
        self.0.seed().map_err(|_public| AuthError::Malformed)
    }

    /// What others need to check its signatures.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.0.public_key()
    }

    /// Vouches for a caller.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for claims of this crate.
    pub fn sign(&self, claims: &Claims) -> Result<String, AuthError> {
        let body = serde_json::to_vec(claims).map_err(|_never| AuthError::Malformed)?;
        let payload = pack(&body);
        let signature = self
            .0
            .sign(payload.as_bytes())
            .map_err(|_public| AuthError::Malformed)?;
        Ok(format!("{payload}.{}", pack(&signature)))
    }
}

/// The public keys whose signatures a service believes. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    keys: Vec<String>,
}

impl Trust {
    /// Believes these public keys, and none else.
    #[must_use]
    pub fn new(keys: Vec<String>) -> Self {
        Self { keys }
    }

    /// Checks an assertion for a command in a workspace.
    ///
    /// # Errors
    /// [`AuthError`]; a command with a bad assertion is refused, never taken as unsigned.
    pub fn check(
        &self,
        assertion: &str,
        workspace: &Workspace,
        now: DateTime<Utc>,
    ) -> Result<Claims, AuthError> {
        let (payload, body, signature) = parts(assertion)?;
        let is_signed = self.keys.iter().any(|key| {
            KeyPair::from_public_key(key)
                .is_ok_and(|pair| pair.verify(payload.as_bytes(), &signature).is_ok())
        });
        if !is_signed {
            return Err(AuthError::Forged);
        }
        let claims: Claims =
            serde_json::from_slice(&body).map_err(|_other| AuthError::Malformed)?;
        if claims.expires_at <= now {
            return Err(AuthError::Expired);
        }
        if claims.workspace != *workspace {
            return Err(AuthError::OtherWorkspace);
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn claims() -> Claims {
        Claims {
            workspace: "acme".parse().unwrap(),
            user: "ada".parse().unwrap(),
            roles: vec!["member".parse().unwrap()],
            expires_at: DateTime::UNIX_EPOCH + TimeDelta::minutes(5),
        }
    }

    #[test]
    fn what_was_signed_is_believed_until_it_expires() {
        let signer = Signer::fresh();
        let trust = Trust::new(vec![signer.public_key()]);
        let text = signer.sign(&claims()).unwrap();
        let acme = "acme".parse().unwrap();
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(trust.check(&text, &acme, now), Ok(claims()));
        let late = claims().expires_at;
        assert_eq!(trust.check(&text, &acme, late), Err(AuthError::Expired));
        let other = "other".parse().unwrap();
        assert_eq!(
            trust.check(&text, &other, now),
            Err(AuthError::OtherWorkspace)
        );
        let again = Signer::from_seed(&signer.seed().unwrap()).unwrap();
        assert_eq!(again.public_key(), signer.public_key());
    }

    /// Ground, "Must": a forged assertion.
    #[test]
    fn what_somebody_else_signed_or_changed_is_not_believed() {
        let signer = Signer::fresh();
        let trust = Trust::new(vec![signer.public_key()]);
        let acme: Workspace = "acme".parse().unwrap();
        let check = |text: &str| trust.check(text, &acme, DateTime::UNIX_EPOCH);
        let forged = Signer::fresh().sign(&claims()).unwrap();
        assert_eq!(check(&forged), Err(AuthError::Forged));
        let text = signer.sign(&claims()).unwrap();
        let (_, signature) = text.split_once('.').unwrap();
        let mut richer = claims();
        richer.roles = vec!["owner".parse().unwrap()];
        let body = pack(&serde_json::to_vec(&richer).unwrap());
        assert_eq!(
            check(&format!("{body}.{signature}")),
            Err(AuthError::Forged)
        );
        for garbage in ["", ".", "a.b", "ä.ö", "eyJ9.AAAA"] {
            assert!(check(garbage).is_err(), "{garbage}");
        }
    }
}
