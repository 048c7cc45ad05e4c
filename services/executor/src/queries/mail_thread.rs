//! The thread of a mail that a step sends.

use holdpoint_contracts::contact::ActivityKind;
use holdpoint_contracts::executor::{GetMailThread, MailThread};
use holdpoint_ids::Workspace;
use serde_json::Value;

use super::ExecutorQueries;
use super::query_error::QueryError;
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
        let is_own = |kind: ActivityKind, id: &str| {
            kind == ActivityKind::EmailOut && id.starts_with(&of_run)
        };
        let has_sent = mails.iter().any(|(kind, id)| is_own(*kind, id));
        mails
            .retain(|(kind, id)| has_sent && (*kind == ActivityKind::EmailIn || is_own(*kind, id)));
        let newest = mails.into_iter().next();
        Ok(MailThread {
            message_id: newest.map(|(_, id)| id),
        })
    }
}
