//! Claims in the form `payload.signature` with HMAC-SHA-256, valid until they expire.

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2_for_hmac::Sha256;

use crate::{AuthError, pack, parts, unpack};

/// Shortest secret of a key, in bytes.
const SECRET_BYTES_MIN: usize = 32;

/// Claims with an expiry.
pub(crate) trait Sealed: Serialize + DeserializeOwned {
    fn expires_at(&self) -> DateTime<Utc>;
}

/// Seals claims and opens them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SealKey(Hmac<Sha256>);

impl SealKey {
    /// A key from a secret of at least [`SECRET_BYTES_MIN`], given as base64url.
    pub(crate) fn new(secret: &str) -> Result<Self, AuthError> {
        let bytes = unpack(secret)?;
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(AuthError::Malformed);
        }
        Self::around(&bytes)
    }

    /// A separate key from the same secret: neither opens the claims of the other.
    pub(crate) fn derived(&self, purpose: &[u8]) -> Result<Self, AuthError> {
        let mut root = self.0.clone();
        root.update(purpose);
        Self::around(&root.finalize().into_bytes())
    }

    fn around(secret: &[u8]) -> Result<Self, AuthError> {
        let key = Hmac::new_from_slice(secret);
        key.map(Self)
            .map_err(|_any_length_is_fine| AuthError::Malformed)
    }

    pub(crate) fn seal(&self, claims: &impl Sealed) -> Result<String, AuthError> {
        let body = serde_json::to_vec(claims).map_err(|_never| AuthError::Malformed)?;
        let payload = pack(&body);
        let mut mac = self.0.clone();
        mac.update(payload.as_bytes());
        Ok(format!("{payload}.{}", pack(&mac.finalize().into_bytes())))
    }

    pub(crate) fn open<C: Sealed>(&self, text: &str, now: DateTime<Utc>) -> Result<C, AuthError> {
        let (payload, body, signature) = parts(text)?;
        let mut mac = self.0.clone();
        mac.update(payload.as_bytes());
        mac.verify_slice(&signature)
            .map_err(|_other| AuthError::Forged)?;
        let claims: C = serde_json::from_slice(&body).map_err(|_other| AuthError::Malformed)?;
        if claims.expires_at() <= now {
            return Err(AuthError::Expired);
        }
        Ok(claims)
    }
}
