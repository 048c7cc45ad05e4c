//! What a command does with each of its runs.

use holdpoint_contracts::run::ChangedRun;
use serde_json::Value;

use super::super::{Session, body_of};
use crate::client::{Body, ClientError};

/// A change of each run, and its texts.
pub(super) struct Action {
    pub(super) name: &'static str,
    pub(super) body: Value,
    pub(super) done: &'static str,
    pub(super) unchanged: &'static str,
}

impl Action {
    pub(super) fn new(
        name: &'static str,
        body: Value,
        done: &'static str,
        unchanged: &'static str,
    ) -> Self {
        Self {
            name,
            body: body_of(body),
            done,
            unchanged,
        }
    }

    pub(super) async fn perform(
        &self,
        session: &Session,
        run: &str,
    ) -> Result<Body<ChangedRun>, ClientError> {
        let client = &session.client;
        client.change_run(run, self.name, &self.body).await
    }
}
