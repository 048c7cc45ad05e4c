//! Answers what operators ask about dead letters: reads beside the writer, has the writer do the rest.

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

use crate::commit::write;
use crate::dead_letters;
use crate::task::answer;

/// Letters of one answer, and of each reason in it: the bus takes that in one message.
const LIST_MAX: u64 = 500;
const LISTED_REASON_BYTES_MAX: usize = 300;

/// Of a body that is shown: even where each byte is escaped, the bus takes the answer.
const BODY_BYTES_MAX: usize = 128 * 1024;

/// Requests that wait for the writer; an operator types them.
pub(crate) const WAITING_MAX: usize = 16;

/// What the writer does with one letter.
pub(crate) struct LetterCommand {
    pub(crate) workspace: Workspace,
    pub(crate) id: i64,
    pub(crate) action: Action,
    /// Where the answer goes.
    pub(crate) reply: String,
}

/// See [`DeadLetterRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Replay,
    Drop,
}

/// Answers requests.
pub(crate) struct Requests {
    pub(crate) bus: Bus,
    pub(crate) db: DatabaseConnection,
    pub(crate) commands: mpsc::Sender<LetterCommand>,
    pub(crate) stop: CancellationToken,
}

impl Requests {
    /// Answers from now on; replicas share the subscription.
    pub(crate) async fn open(self, service: &str, tracker: &TaskTracker) -> Result<(), BusError> {
        let filter = subject::dead_letters_filter(service);
        let client = self.bus.client();
        let requests = client.queue_subscribe(filter, service.to_owned()).await?;
        tracker.spawn(self.answer_all(requests));
        Ok(())
    }

    /// Answers until it is told to stop, one after the other.
    async fn answer_all(self, mut requests: async_nats::Subscriber) {
        while let Some(Some(message)) = self.stop.run_until_cancelled(requests.next()).await {
            let reply = message.reply.map(|reply| reply.to_string());
            let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) else {
                continue;
            };
            let asked = self
                .ask(&message.subject, &message.payload, reply.clone())
                .await;
            let body = match asked {
                Ok(None) => continue,
                Ok(Some(body)) => body,
                Err(problem) => write(&Reply::<()>::Problem(problem)),
            };
            answer(&self.bus, Some(reply), Some(body)).await;
        }
    }

    /// The answer; none: the writer gives it.
    async fn ask(
        &self,
        subject: &str,
        body: &[u8],
        reply: String,
    ) -> Result<Option<Bytes>, Problem> {
        let workspace = subject::dead_letters_workspace(subject)
            .ok_or_else(|| Problem::not_found(format!("`{subject}` names no workspace")))?;
        let request: DeadLetterRequest = serde_json::from_slice(body)
            .map_err(|error| Problem::new(400, "invalid_body", error.to_string()))?;
        let (id, action) = match request {
            DeadLetterRequest::List { before, limit } => {
                let letters =
                    dead_letters::list(&self.db, &workspace, before, limit.min(LIST_MAX)).await;
                let mut letters = letters.map_err(|error| away(&error))?;
                for letter in &mut letters {
                    let reason = dead_letters::beginning(&letter.reason, LISTED_REASON_BYTES_MAX);
                    letter.reason = reason.to_owned();
                }
                return Ok(Some(told(&letters)));
            }
            DeadLetterRequest::Show { id } => {
                let letter = dead_letters::read(&self.db, &workspace, id).await;
                let letter = letter.map_err(|error| away(&error))?;
                let (mut letter, _) = letter.ok_or_else(|| dead_letters::unknown(id))?;
                letter.truncated = letter.body.len() > BODY_BYTES_MAX;
                letter.body = dead_letters::beginning(&letter.body, BODY_BYTES_MAX).to_owned();
                return Ok(Some(told(&letter)));
            }
            DeadLetterRequest::Replay { id } => (id, Action::Replay),
            DeadLetterRequest::Drop { id } => (id, Action::Drop),
        };
        let command = LetterCommand {
            workspace,
            id,
            action,
            reply,
        };
        let busy = || Problem::unavailable("the service is busy or stops; try again");
        self.commands.try_send(command).map_err(|_error| busy())?;
        Ok(None)
    }
}

/// The answer that it was done.
pub(crate) fn told(answer: &impl Serialize) -> Bytes {
    write(&Reply::Ok(answer))
}

/// What is answered while the tables cannot be read.
pub(crate) fn away(error: &StoreError) -> Problem {
    tracing::warn!(%error, "dead letters cannot be read");
    Problem::unavailable("the service's database is away or busy; try again")
}
