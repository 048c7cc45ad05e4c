//! Assertions, with which the gateway identifies the caller of a command: Ed25519 over claims and command.
//!
//! An assertion is bound to workspace, service, verb, idempotency key and text of its command. An
//! eavesdropper can only repeat the same command with the same key, which changes nothing. A command without a
//! key must change nothing by itself when it is repeated. An assertion is valid for minutes.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
// Its feature `fast` gives `nkeys` the tables that make signatures faster.
use ed25519_dalek as _;
use holdpoint_contracts::message::command_text;
use holdpoint_contracts::{Command, Envelope, IdempotencyKey};
use holdpoint_ids::{RoleName, UserName, Workspace};
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};
use sha2_for_hmac::{Digest as _, Sha256};

use crate::{AuthError, pack, parts};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    pub workspace: Workspace,
    pub user: UserName,
    /// The roles at the time of signing.
    pub roles: Vec<RoleName>,
    #[serde(with = "holdpoint_contracts::instant")]
    pub expires_at: DateTime<Utc>,
}

/// The command that an assertion is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Asserted<'a> {
    /// The service that handles the command.
    pub service: &'a str,
    pub verb: &'a str,
    pub key: Option<&'a IdempotencyKey>,
    /// The JSON of the command, byte for byte as sent.
    pub command: &'a str,
}

impl Asserted<'_> {
    /// Each part is hashed with its length, so that no bytes can move from one part to another.
    fn digest(&self) -> String {
        let (key, of) = match self.key {
            Some(asked) => (asked.key.as_str(), asked.digest.as_str()),
            None => ("", ""),
        };
        let has_key = if self.key.is_some() { "1" } else { "0" };
        let mut digest = Sha256::new();
        for part in [self.service, self.verb, has_key, key, of, self.command] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        pack(&digest.finalize())
    }
}

/// The signed payload. The workspace of the claims is the one of the command.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    claims: Claims,
    /// [`Asserted::digest`].
    command: String,
}

/// Signs assertions. Only the gateway has one.
pub struct Signer(KeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signer").field(&self.public_key()).finish()
    }
}

impl Signer {
    /// A signer with a random key.
    #[must_use]
    pub fn fresh() -> Self {
        Self(KeyPair::new_service())
    }

    /// The signer of a stored seed.
    ///
    /// # Errors
    /// [`AuthError::Malformed`]: the text is not a seed.
    pub fn from_seed(seed: &str) -> Result<Self, AuthError> {
        KeyPair::from_seed(seed)
            .map(Self)
            .map_err(|_no_seed| AuthError::Malformed)
    }

    /// The seed, which must be kept secret.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for a signer made here.
    pub fn seed(&self) -> Result<String, AuthError> {
        self.0.seed().map_err(|_public| AuthError::Malformed)
    }

    /// The key that verifies the signatures.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.0.public_key()
    }

    /// Signs the identity of the caller of one command.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for claims of this crate.
    pub fn sign(&self, claims: &Claims, asserted: &Asserted<'_>) -> Result<String, AuthError> {
        let signed = Signed {
            claims: claims.clone(),
            command: asserted.digest(),
        };
        let body = serde_json::to_vec(&signed).map_err(|_never| AuthError::Malformed)?;
        let payload = pack(&body);
        let signature = self
            .0
            .sign(payload.as_bytes())
            .map_err(|_public| AuthError::Malformed)?;
        Ok(format!("{payload}.{}", pack(&signature)))
    }

    /// Adds an assertion for its command to an envelope.
    ///
    /// # Errors
    /// [`AuthError::Malformed`]: the command cannot be serialized.
    pub fn vouch<C: Command>(
        &self,
        claims: &Claims,
        mut envelope: Envelope<C>,
    ) -> Result<Envelope<C>, AuthError> {
        let command = serde_json::to_string(&envelope.command);
        let asserted = Asserted {
            service: C::SERVICE,
            verb: C::VERB,
            key: envelope.key.as_ref(),
            command: &command.map_err(|_unwritable| AuthError::Malformed)?,
        };
        envelope.assertion = Some(self.sign(claims, &asserted)?);
        Ok(envelope)
    }
}

/// The public keys that a service trusts. Cheap to clone.
#[derive(Clone, Default)]
pub struct Trust {
    /// Decoded once, not for each check.
    keys: Arc<[KeyPair]>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter().map(KeyPair::public_key);
        f.debug_list().entries(keys).finish()
    }
}

impl Trust {
    /// A text that is not a public key is left out.
    #[must_use]
    pub fn new(keys: &[String]) -> Self {
        let keys = keys.iter();
        Self {
            keys: keys
                .filter_map(|key| KeyPair::from_public_key(key).ok())
                .collect(),
        }
    }

    /// The caller of a command, or `None` if it has no assertion. `body` is the envelope as received.
    ///
    /// # Errors
    /// [`AuthError`]: a command with an invalid assertion is refused and never taken as unsigned.
    pub fn caller<C: Command>(
        &self,
        envelope: &Envelope<C>,
        body: &[u8],
        workspace: &Workspace,
        now: DateTime<Utc>,
    ) -> Result<Option<Claims>, AuthError> {
        let Some(assertion) = &envelope.assertion else {
            return Ok(None);
        };
        let asserted = Asserted {
            service: C::SERVICE,
            verb: C::VERB,
            key: envelope.key.as_ref(),
            command: command_text(body).ok_or(AuthError::Malformed)?,
        };
        self.check(assertion, &asserted, workspace, now).map(Some)
    }

    /// Checks an assertion for a command in a workspace, at an instant.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn check(
        &self,
        assertion: &str,
        asserted: &Asserted<'_>,
        workspace: &Workspace,
        now: DateTime<Utc>,
    ) -> Result<Claims, AuthError> {
        let (payload, body, signature) = parts(assertion)?;
        let mut keys = self.keys.iter();
        let is_signed = keys.any(|key| key.verify(payload.as_bytes(), &signature).is_ok());
        if !is_signed {
            return Err(AuthError::Forged);
        }
        let signed: Signed =
            serde_json::from_slice(&body).map_err(|_other| AuthError::Malformed)?;
        let Signed { claims, command } = signed;
        if claims.expires_at <= now {
            return Err(AuthError::Expired);
        }
        if claims.workspace != *workspace {
            return Err(AuthError::OtherWorkspace);
        }
        if command != asserted.digest() {
            return Err(AuthError::OtherCommand);
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

    const DECIDES: Asserted<'_> = Asserted {
        service: "handoff",
        verb: "decide_request",
        key: None,
        command: r#"{"id":"a"}"#,
    };

    #[test]
    fn an_assertion_is_valid_until_it_expires() {
        let signer = Signer::fresh();
        let trust = Trust::new(&[signer.public_key()]);
        let text = signer.sign(&claims(), &DECIDES).unwrap();
        let (acme, other) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let now = DateTime::UNIX_EPOCH;
        let check = |workspace, at| trust.check(&text, &DECIDES, workspace, at);
        assert_eq!(check(&acme, now), Ok(claims()));
        let late = claims().expires_at;
        assert_eq!(check(&acme, late), Err(AuthError::Expired));
        assert_eq!(check(&other, now), Err(AuthError::OtherWorkspace));
        let again = Signer::from_seed(&signer.seed().unwrap()).unwrap();
        assert_eq!(again.public_key(), signer.public_key());
    }

    /// Mend A-C1: an intercepted assertion is invalid for another command.
    #[test]
    fn an_assertion_is_valid_for_one_command() {
        let signer = Signer::fresh();
        let trust = Trust::new(&[signer.public_key()]);
        let acme: Workspace = "acme".parse().unwrap();
        let key = IdempotencyKey {
            key: "k".to_owned(),
            digest: "d".to_owned(),
        };
        let keyed = Asserted {
            key: Some(&key),
            ..DECIDES
        };
        let text = signer.sign(&claims(), &keyed).unwrap();
        let check = |asserted| trust.check(&text, &asserted, &acme, DateTime::UNIX_EPOCH);
        assert_eq!(check(keyed), Ok(claims()));
        let moved = IdempotencyKey {
            key: "kd".to_owned(),
            digest: String::new(),
        };
        for other in [
            DECIDES,
            Asserted {
                key: Some(&moved),
                ..keyed
            },
            Asserted {
                service: "executor",
                ..keyed
            },
            Asserted {
                verb: "put_user",
                ..keyed
            },
            Asserted {
                command: r#"{"id":"b"}"#,
                ..keyed
            },
        ] {
            assert_eq!(check(other), Err(AuthError::OtherCommand), "{other:?}");
        }
    }

    /// Mend A-C1: the text of the command as received is checked.
    #[test]
    fn an_envelope_is_vouched_for_as_it_is_sent() {
        use holdpoint_contracts::Actor;
        use holdpoint_contracts::executor::{PauseRun, PauseWaiting};
        use holdpoint_ids::RunId;

        let signer = Signer::fresh();
        let trust = Trust::new(&[signer.public_key()]);
        let acme: Workspace = "acme".parse().unwrap();
        let envelope = |run| Envelope {
            actor: Actor("ada".to_owned()),
            assertion: None,
            key: None,
            command: PauseRun {
                run,
                waiting: PauseWaiting::Hold,
            },
        };
        let now = DateTime::UNIX_EPOCH;
        let bare = envelope(RunId::fresh());
        let body = serde_json::to_vec(&bare).unwrap();
        assert_eq!(trust.caller(&bare, &body, &acme, now), Ok(None));
        let vouched = signer.vouch(&claims(), bare).unwrap();
        let body = serde_json::to_vec(&vouched).unwrap();
        assert_eq!(
            trust.caller(&vouched, &body, &acme, now),
            Ok(Some(claims()))
        );
        let mut other = envelope(RunId::fresh());
        other.assertion = vouched.assertion;
        let body = serde_json::to_vec(&other).unwrap();
        let refused = trust.caller(&other, &body, &acme, now);
        assert_eq!(refused, Err(AuthError::OtherCommand));
    }

    /// Ground, "Must": a forged assertion.
    #[test]
    fn a_forged_or_changed_assertion_is_refused() {
        let signer = Signer::fresh();
        let trust = Trust::new(&[signer.public_key()]);
        let acme: Workspace = "acme".parse().unwrap();
        let check = |text: &str| trust.check(text, &DECIDES, &acme, DateTime::UNIX_EPOCH);
        let forged = Signer::fresh().sign(&claims(), &DECIDES).unwrap();
        assert_eq!(check(&forged), Err(AuthError::Forged));
        let text = signer.sign(&claims(), &DECIDES).unwrap();
        let (_, signature) = text.split_once('.').unwrap();
        let mut richer = claims();
        richer.roles = vec!["owner".parse().unwrap()];
        let richer = Signed {
            claims: richer,
            command: DECIDES.digest(),
        };
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
