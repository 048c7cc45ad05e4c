//! What the gateway signs about its callers: once per caller and minute, not per command.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use holdpoint_auth::{Claims, Signer};
use holdpoint_contracts::Problem;
use holdpoint_ids::{RoleName, UserName, Workspace};

/// How long an assertion is worth something.
pub(crate) const VALID_FOR: TimeDelta = TimeDelta::minutes(5);
/// How long the same one is handed out.
const SAME_FOR: TimeDelta = TimeDelta::minutes(1);
/// Callers that are remembered; beyond that all are signed for anew.
const CALLERS_MAX: usize = 10_000;

type Key = (Workspace, UserName, Vec<RoleName>);

/// The signer and what it has signed lately.
#[derive(Debug)]
pub(crate) struct Assertions {
    signer: Arc<Signer>,
    signed: Mutex<HashMap<Key, (String, DateTime<Utc>)>>,
}

impl Assertions {
    pub(crate) fn new(signer: Arc<Signer>) -> Self {
        Self {
            signer,
            signed: Mutex::default(),
        }
    }

    /// An assertion that is good for at least four minutes.
    pub(crate) fn of(&self, claims: &Claims, now: DateTime<Utc>) -> Result<String, Problem> {
        let key = (
            claims.workspace.clone(),
            claims.user.clone(),
            claims.roles.clone(),
        );
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((text, at)) = signed.get(&key)
            && now - *at < SAME_FOR
        {
            return Ok(text.clone());
        }
        let text = self.valid_for(VALID_FOR, claims, now)?;
        if signed.len() >= CALLERS_MAX {
            signed.clear();
        }
        signed.insert(key, (text.clone(), now));
        Ok(text)
    }

    /// One of its own, not remembered.
    pub(crate) fn valid_for(
        &self,
        time: TimeDelta,
        claims: &Claims,
        now: DateTime<Utc>,
    ) -> Result<String, Problem> {
        let claims = Claims {
            expires_at: now + time,
            ..claims.clone()
        };
        self.signer.sign(&claims).map_err(|error| {
            tracing::error!(%error, "an assertion that cannot be signed");
            Problem::internal()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_signed_for_once_a_minute_and_by_roles() {
        let assertions = Assertions::new(Arc::new(Signer::fresh()));
        let now = DateTime::UNIX_EPOCH;
        let mut claims = Claims {
            workspace: "acme".parse().unwrap(),
            user: "ada".parse().unwrap(),
            roles: vec!["member".parse().unwrap()],
            expires_at: now,
        };
        let first = assertions.of(&claims, now).unwrap();
        let soon = now + TimeDelta::seconds(59);
        assert_eq!(assertions.of(&claims, soon).unwrap(), first);
        let later = now + TimeDelta::seconds(60);
        assert_ne!(assertions.of(&claims, later).unwrap(), first);
        claims.roles.clear();
        assert_ne!(assertions.of(&claims, soon).unwrap(), first);
    }
}
