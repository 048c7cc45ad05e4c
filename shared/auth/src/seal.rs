//! Claims in the form `payload.signature` with HMAC-SHA-256, valid until they expire.

use std::fmt;
use std::marker::PhantomData;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2_for_hmac::Sha256;

use crate::{AuthError, pack, parts, unpack};

/// Shortest secret of a key, in bytes.
const SECRET_BYTES_MIN: usize = 32;

/// Claims that a [`SealKey`] seals.
pub trait Sealed: Serialize + DeserializeOwned {
    /// Distinguishes the text from other tokens.
    const PREFIX: &'static str = "";
    /// Derives a separate key from a shared secret, so that neither key opens the claims of the other.
    const PURPOSE: Option<&'static [u8]> = None;

    /// The instant from which the claims are invalid.
    fn expires_at(&self) -> DateTime<Utc>;
}

/// Seals claims of one kind and opens them. Cheap to clone.
#[derive(Clone)]
pub struct SealKey<C> {
    mac: Hmac<Sha256>,
    claims: PhantomData<fn() -> C>,
}

impl<C> fmt::Debug for SealKey<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

impl<C: Sealed> SealKey<C> {
    /// A key from a secret of at least 32 bytes, given as base64url.
    ///
    /// # Errors
    /// [`AuthError::Malformed`]: it is shorter or not base64url.
    pub fn new(secret: &str) -> Result<Self, AuthError> {
        let secret = unpack(secret)?;
        if secret.len() < SECRET_BYTES_MIN {
            return Err(AuthError::Malformed);
        }
        let mut mac = new_mac(&secret)?;
        if let Some(purpose) = C::PURPOSE {
            mac.update(purpose);
            mac = new_mac(&mac.finalize().into_bytes())?;
        }
        let claims = PhantomData;
        Ok(Self { mac, claims })
    }

    /// The text of claims.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for claims of this crate.
    pub fn sign(&self, claims: &C) -> Result<String, AuthError> {
        let body = serde_json::to_vec(claims).map_err(|_never| AuthError::Malformed)?;
        let payload = pack(&body);
        let mut mac = self.mac.clone();
        mac.update(payload.as_bytes());
        let signature = pack(&mac.finalize().into_bytes());
        Ok(format!("{}{payload}.{signature}", C::PREFIX))
    }

    /// Checks signature and expiry. Only the owner of the subject knows whether the claims are still current: a
    /// dispatch, or a user who may act.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn check(&self, text: &str, now: DateTime<Utc>) -> Result<C, AuthError> {
        let text = text.strip_prefix(C::PREFIX).ok_or(AuthError::Malformed)?;
        let (payload, body, signature) = parts(text)?;
        let mut mac = self.mac.clone();
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

fn new_mac(secret: &[u8]) -> Result<Hmac<Sha256>, AuthError> {
    Hmac::new_from_slice(secret).map_err(|_any_length_is_fine| AuthError::Malformed)
}
