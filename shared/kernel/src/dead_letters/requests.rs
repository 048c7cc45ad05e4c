//! Answers operators' requests about dead letters. Lists them beside the writer; the writer drops and replays.

use bytes::Bytes;
use futures_util::StreamExt as _;
use holdpoint_bus::{Bus, BusError};
use holdpoint_contracts::dead_letter::DeadLetterRequest;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;
use sea_orm::DatabaseConnection;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::dead_letters;
use crate::reply::{problem_json, reply_json, send_reply};

/// Dead letters of one reply, and bytes of each reason in it: that fits into one message.
const LIST_MAX: u64 = 500;
const LISTED_REASON_BYTES_MAX: usize = 300;

/// Bytes of a body that is shown. Even if each byte is escaped, the reply fits into one message.
const BODY_BYTES_MAX: usize = 128 * 1024;

/// Commands that wait for the writer; operators type them.
pub(crate) const WAITING_MAX: usize = 16;

/// A command of an operator that the writer carries out.
pub(crate) struct DeadLetterCommand {
    pub(crate) workspace: Workspace,
    pub(crate) id: i64,
    pub(crate) action: Action,
    pub(crate) reply: String,
}

/// See [`DeadLetterRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Replay,
    Drop,
}

pub(crate) struct Requests {
    pub(crate) bus: Bus,
    pub(crate) db: DatabaseConnection,
    pub(crate) commands: mpsc::Sender<DeadLetterCommand>,
    pub(crate) stop: CancellationToken,
}

impl Requests {
    /// Starts to answer; replicas share the subscription.
    pub(crate) async fn start(self, service: &str, tracker: &TaskTracker) -> Result<(), BusError> {
        let filter = subject::dead_letters_filter(service);
        let client = self.bus.client();
        let requests = client.queue_subscribe(filter, service.to_owned()).await?;
        tracker.spawn(self.answer_all(requests));
        Ok(())
    }

    /// Answers requests one after the other until the service stops.
    async fn answer_all(self, mut requests: async_nats::Subscriber) {
        while let Some(Some(message)) = self.stop.run_until_cancelled(requests.next()).await {
            let reply = message.reply.map(|reply| reply.to_string());
            let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
                continue;
            };
            let answered = self
                .answer(&message.subject, &message.payload, reply.clone())
                .await;
            let body = match answered {
                Ok(None) => continue,
                Ok(Some(body)) => body,
                Err(problem) => problem_json(problem),
            };
            send_reply(&self.bus, Some(reply), Some(body)).await;
        }
    }

    /// The reply; `None`: the writer sends it.
    async fn answer(
        &self,
        subject: &str,
        body: &[u8],
        reply: String,
    ) -> Result<Option<Bytes>, Problem> {
        let workspace = subject::dead_letters_workspace(subject).ok_or_else(|| {
            Problem::not_found(format!(
                "the subject `{subject}` does not contain a workspace"
            ))
        })?;
        let request: DeadLetterRequest = serde_json::from_slice(body)
            .map_err(|error| Problem::new(400, "invalid_body", error.to_string()))?;
        let (id, action) = match request {
            DeadLetterRequest::List { before, limit } => {
                let letters =
                    dead_letters::list(&self.db, &workspace, before, limit.min(LIST_MAX)).await;
                let mut letters = letters.map_err(|error| unavailable(&error))?;
                for letter in &mut letters {
                    let reason = dead_letters::truncate(&letter.reason, LISTED_REASON_BYTES_MAX);
                    letter.reason = reason.to_owned();
                }
                return Ok(Some(ok_reply(&letters)));
            }
            DeadLetterRequest::Show { id } => {
                let letter = dead_letters::load(&self.db, &workspace, id).await;
                let letter = letter.map_err(|error| unavailable(&error))?;
                let (mut letter, _) = letter.ok_or_else(|| dead_letters::not_found(id))?;
                letter.truncated = letter.body.len() > BODY_BYTES_MAX;
                letter.body = dead_letters::truncate(&letter.body, BODY_BYTES_MAX).to_owned();
                return Ok(Some(ok_reply(&letter)));
            }
            DeadLetterRequest::Replay { id } => (id, Action::Replay),
            DeadLetterRequest::Drop { id } => (id, Action::Drop),
        };
        let command = DeadLetterCommand {
            workspace,
            id,
            action,
            reply,
        };
        let busy = || Problem::unavailable("the service is busy or stopping; try again");
        self.commands.try_send(command).map_err(|_error| busy())?;
        Ok(None)
    }
}

pub(crate) fn ok_reply(value: &impl Serialize) -> Bytes {
    reply_json(&Reply::Ok(value))
}

/// The reply while the tables cannot be read.
pub(crate) fn unavailable(error: &StoreError) -> Problem {
    tracing::warn!(%error, "dead letters not read; the caller has to try again");
    Problem::unavailable("the service's database is unavailable; try again")
}
