//! The thread of a mail that a step sends, and the check of step tokens.

use holdpoint_auth::AuthError;
use holdpoint_contracts::contact::ActivityKind;
use holdpoint_contracts::executor::{GetMailThread, MailThread};
use holdpoint_contracts::problem::Problem;
use holdpoint_ids::Workspace;
use serde_json::Value;

use super::ExecutorQueries;
use super::query_error::QueryError;
use crate::domain::Run;
use crate::domain::contact::comparable_email;
use crate::store;

impl ExecutorQueries {
    /// The newest mail that the run has sent to its contact or that the contact has written, once the run has sent one.
    pub(super) async fn mail_thread(
        &self,
        workspace: &Workspace,
        query: &GetMailThread,
    ) -> Result<MailThread, QueryError> {
        let run = self.run_of_step(workspace, &query.token).await?;
        let Some(id) = &run.contact else {
            return Ok(MailThread::default());
        };
        let contact = store::contact(&self.db, workspace, id).await?;
        let email = contact.as_ref().and_then(|it| it.fields.get("email"));
        let email = email.and_then(Value::as_str).map(comparable_email);
        if email != Some(comparable_email(&query.to)) {
            return Ok(MailThread::default());
        }
        let mut mails = store::mails_of(&self.db, workspace, id).await?;
        // `send_email` makes the Message-ID from the run and the step.
        let of_run = format!("{}.", run.id);
        let is_own = |id: &str| id.starts_with(&of_run);
        let has_sent = mails.iter().any(|(_, id)| is_own(id));
        mails.retain(|(kind, id)| has_sent && (*kind == ActivityKind::EmailIn || is_own(id)));
        let newest = mails.into_iter().next();
        Ok(MailThread {
            message_id: newest.map(|(_, id)| id),
        })
    }

    /// The run of a token, which must be of a step of this workspace that a worker has now.
    pub(super) async fn run_of_step(
        &self,
        workspace: &Workspace,
        token: &str,
    ) -> Result<Run, QueryError> {
        let claims = self.steps.check(token, self.clock.now());
        let claims = claims.map_err(AuthError::problem)?;
        let run = if claims.workspace == *workspace {
            store::run(&self.db, workspace, claims.run).await?
        } else {
            None
        };
        let is_live = |run: &Run| {
            let mut steps = run.steps.iter();
            !run.is_final()
                && steps.any(|step| {
                    (step.id.as_str(), step.dispatch) == (claims.step.as_str(), claims.dispatch)
                        && step.phase.at_worker().is_some()
                })
        };
        let detail = "the step of this token has ended or was dispatched again";
        let ended = || QueryError(Problem::new(401, "unauthorized", detail));
        run.filter(is_live).ok_or_else(ended)
    }
}
