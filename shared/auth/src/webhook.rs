//! Signatures of callbacks and webhooks by Standard Webhooks: HMAC-SHA-256 over id, time and body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2_for_hmac::Sha256;

use crate::AuthError;

const PREFIX: &str = "whsec_";

/// The secret that a workspace shares with the receivers of its calls.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    #[must_use]
    pub fn fresh() -> Self {
        let random: [u8; 32] = rand::random();
        Self(random.to_vec())
    }

    /// Reads `whsec_<base64>`.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] when it is something else.
    pub fn read(text: &str) -> Result<Self, AuthError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(AuthError::Malformed)?;
        let bytes = STANDARD.decode(encoded);
        bytes.map(Self).map_err(|_no_base64| AuthError::Malformed)
    }

    /// `whsec_<base64>`, as receivers want it.
    #[must_use]
    pub fn write(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// The header `webhook-signature` of a message; `timestamp` in seconds since 1970.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never.
    pub fn sign(&self, id: &str, timestamp: i64, body: &str) -> Result<String, AuthError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .map_err(|_any_length_is_fine| AuthError::Malformed)?;
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        Ok(format!("v1,{signature}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-6: the example that Standard Webhooks publishes with its libraries.
    #[test]
    fn the_published_example_is_signed_alike() {
        let secret = WebhookSecret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        let wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed.as_deref(), Ok(wanted));
        let fresh = WebhookSecret::fresh();
        assert_eq!(WebhookSecret::read(&fresh.write()), Ok(fresh));
        assert!(WebhookSecret::read("hp_other").is_err());
    }
}
