//! A link in a mail acts for one person on one request: HMAC-SHA-256 over who, what and until when.
//!
//! Whoever has the link acts as that person, as whoever reads their mails could sign in as them. It
//! opens one request and nothing else, and is worth nothing once that is decided or its time is over.

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, UserName, Workspace};
use serde::{Deserialize, Serialize};

use crate::AuthError;
use crate::seal::{SealKey, Sealed};

/// Says what the key is derived for: no step token is a link, and no link a step token.
const PURPOSE: &[u8] = b"holdpoint signed links 1";

/// Who acts on what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkClaims {
    pub workspace: Workspace,
    pub person: UserName,
    pub request: HoldId,
    /// The request's version when the link was made.
    pub version: u64,
    /// From when on it is worth nothing.
    #[serde(with = "holdpoint_contracts::instant")]
    pub expires_at: DateTime<Utc>,
    /// What whoever follows it has chosen in the mail; none: they look first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

/// An answer that stands in a mail. Following its link shows it and decides nothing: that is done by
/// confirming it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Of an approval: yes.
    Approve,
    /// Of an approval: no; why, is asked.
    Reject,
    /// Of a question: one of its options, by its place from 0.
    Option(usize),
}

impl Sealed for LinkClaims {
    fn expires_at(&self) -> DateTime<Utc> {
        self.expires_at
    }
}

/// Makes and checks links. Cheap to clone.
#[derive(Clone)]
pub struct LinkKey(SealKey);

impl std::fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkKey")
    }
}

impl LinkKey {
    /// Derives the key from a secret of at least 32 bytes, given as base64url.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] when it is shorter or no base64url.
    pub fn derived(secret: &str) -> Result<Self, AuthError> {
        SealKey::new(secret)?.derived(PURPOSE).map(Self)
    }

    /// The token of a link: what stands behind `/l/`.
    ///
    /// # Errors
    /// [`AuthError::Malformed`] never for claims of this crate.
    pub fn sign(&self, claims: &LinkClaims) -> Result<String, AuthError> {
        self.0.seal(claims)
    }

    /// Checks a token. Whether the person is still there and may act, others know.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn check(&self, token: &str, now: DateTime<Utc>) -> Result<LinkClaims, AuthError> {
        self.0.open(token, now)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::pack;

    fn claims(person: &str) -> LinkClaims {
        LinkClaims {
            workspace: "acme".parse().unwrap(),
            person: person.parse().unwrap(),
            request: "hold_01920000000070008000000000000001-1".parse().unwrap(),
            version: 2,
            expires_at: DateTime::UNIX_EPOCH + TimeDelta::days(1),
            choice: None,
        }
    }

    /// People, deliverable 7: a link that names an option is as bound, and one of before still counts.
    #[test]
    fn a_link_may_name_an_answer() {
        let key = LinkKey::derived(&pack(&[1; 32])).unwrap();
        for choice in [Choice::Approve, Choice::Reject, Choice::Option(3)] {
            let claims = LinkClaims {
                choice: Some(choice),
                ..claims("ada")
            };
            let token = key.sign(&claims).unwrap();
            assert_eq!(key.check(&token, DateTime::UNIX_EPOCH), Ok(claims));
        }
        let before = serde_json::to_value(claims("ada")).unwrap();
        assert_eq!(before.get("choice"), None);
        assert_eq!(
            serde_json::from_value::<LinkClaims>(before).unwrap(),
            claims("ada")
        );
    }

    /// People, "Must": a link of another person.
    #[test]
    fn a_link_is_of_one_person_and_cannot_be_rewritten() {
        let key = LinkKey::derived(&pack(&[1; 32])).unwrap();
        let now = DateTime::UNIX_EPOCH;
        let token = key.sign(&claims("ada")).unwrap();
        assert_eq!(key.check(&token, now), Ok(claims("ada")));
        let (_, signature) = token.split_once('.').unwrap();
        let other = pack(&serde_json::to_vec(&claims("bob")).unwrap());
        let forged = format!("{other}.{signature}");
        assert_eq!(key.check(&forged, now), Err(AuthError::Forged));
        let late = claims("ada").expires_at;
        assert_eq!(key.check(&token, late), Err(AuthError::Expired));
        let another = LinkKey::derived(&pack(&[2; 32])).unwrap();
        assert_eq!(another.check(&token, now), Err(AuthError::Forged));
        for garbage in ["", ".", "a.b", "ä.ö"] {
            assert!(key.check(garbage, now).is_err(), "{garbage}");
        }
    }
}
