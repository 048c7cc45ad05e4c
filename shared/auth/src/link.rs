//! The token of a link in a mail, for one user and one request: HMAC-SHA-256 over user, request and expiry.
//!
//! The holder of the link acts as that user, just as a reader of the user's mails could sign in as them.
//! The link opens one request only. It is invalid once the request is decided or the link has expired.

use chrono::{DateTime, Utc};
use holdpoint_ids::{HoldId, UserName, Workspace};
use serde::{Deserialize, Serialize};

use crate::seal::{SealKey, Sealed};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkClaims {
    pub workspace: Workspace,
    pub person: UserName,
    pub request: HoldId,
    /// The request's version when the link was made.
    pub version: u64,
    #[serde(with = "holdpoint_contracts::instant")]
    pub expires_at: DateTime<Utc>,
    /// The answer of this link. `None`: the link only shows the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

/// An answer that a mail offers. Its link only shows the answer; the user then confirms it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    Approve,
    /// The page asks for the reason.
    Reject,
    /// The page asks for instructions.
    Revise,
    /// An option of a question, by its index from 0.
    Option(usize),
}

impl Sealed for LinkClaims {
    const PURPOSE: Option<&'static [u8]> = Some(b"holdpoint signed links 1");

    fn expires_at(&self) -> DateTime<Utc> {
        self.expires_at
    }
}

/// Makes and checks the token of a link, for the path `/l/<token>`.
pub type LinkKey = SealKey<LinkClaims>;

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::{AuthError, pack};

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
        let key = LinkKey::new(&pack(&[1; 32])).unwrap();
        for choice in [
            Choice::Approve,
            Choice::Reject,
            Choice::Revise,
            Choice::Option(3),
        ] {
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
        let key = LinkKey::new(&pack(&[1; 32])).unwrap();
        let now = DateTime::UNIX_EPOCH;
        let token = key.sign(&claims("ada")).unwrap();
        assert_eq!(key.check(&token, now), Ok(claims("ada")));
        let (_, signature) = token.split_once('.').unwrap();
        let other = pack(&serde_json::to_vec(&claims("bob")).unwrap());
        let forged = format!("{other}.{signature}");
        assert_eq!(key.check(&forged, now), Err(AuthError::Forged));
        let late = claims("ada").expires_at;
        assert_eq!(key.check(&token, late), Err(AuthError::Expired));
        let another = LinkKey::new(&pack(&[2; 32])).unwrap();
        assert_eq!(another.check(&token, now), Err(AuthError::Forged));
        for garbage in ["", ".", "a.b", "ä.ö"] {
            assert!(key.check(garbage, now).is_err(), "{garbage}");
        }
    }
}
