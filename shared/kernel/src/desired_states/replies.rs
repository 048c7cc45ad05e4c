//! Handles the receivers' replies to desired states.

use std::sync::Arc;

use futures_util::StreamExt;
use holdpoint_bus::BusError;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::rows::Sent;
use super::sender::Sender;
use crate::reply::problem_json;
use crate::service::{AfterRefusal, SentState, Service};
use crate::task::Raw;

/// Status of a problem that says nothing about the message: the receiver's database is unavailable.
const UNAVAILABLE: u16 = 503;

impl<S: Service> Sender<S> {
    pub(crate) async fn subscribe(&self) -> Result<async_nats::Subscriber, BusError> {
        let filter = format!("{}.*", self.inbox);
        Ok(self.bus.client().subscribe(filter).await?)
    }

    /// Handles replies until the service stops.
    pub(crate) async fn handle_replies(
        self: Arc<Self>,
        mut replies: async_nats::Subscriber,
        stop: CancellationToken,
    ) {
        while let Some(Some(message)) = stop.run_until_cancelled(replies.next()).await {
            let token = message.subject.rsplit('.').next();
            let Some(token) = token.and_then(|token| token.parse().ok()) else {
                continue;
            };
            let Some(carried) = self.state().in_flight.take(token) else {
                continue;
            };
            match serde_json::from_slice(&message.payload) {
                Ok(reply) => self.handle_reply(carried, reply),
                Err(error) => {
                    tracing::warn!(service = S::NAME, %error, "reply to desired states cannot be read; they are sent again");
                }
            }
        }
    }

    fn handle_reply(&self, carried: Vec<Sent>, reply: Reply<Vec<Reply<Value>>>) {
        match reply {
            Reply::Ok(replies) => {
                let items = carried.into_iter().zip(replies);
                let done = items.filter_map(|(sent, reply)| match reply {
                    Reply::Ok(reply) => self.handle_acknowledgement(sent, &reply),
                    Reply::Problem(problem) => self.handle_refusal(sent, &problem),
                });
                self.complete(done.collect());
            }
            Reply::Problem(problem) if problem.status == UNAVAILABLE => {
                tracing::debug!(service = S::NAME, %problem, "receiver unavailable; desired states are sent again");
            }
            Reply::Problem(problem) if carried.len() > 1 => {
                tracing::warn!(service = S::NAME, %problem, desired_states = carried.len(), "message with desired states refused; each is sent alone");
                self.send_alone(carried);
            }
            // The receiver could not read it, but a later version may.
            Reply::Problem(problem) => {
                for sent in carried {
                    self.keep_unaccepted(sent, &problem);
                }
            }
        }
    }

    /// Has the service decide about a refused desired state. Returns it if its row can be deleted.
    fn handle_refusal(&self, sent: Sent, problem: &Problem) -> Option<Sent> {
        if problem.status == UNAVAILABLE {
            return None;
        }
        let after = with_parsed(&sent, |sent| self.service.refused(sent, problem));
        let after = after.unwrap_or(AfterRefusal::Keep);
        let (kind, id) = (&sent.key.kind, &sent.key.id);
        match after {
            AfterRefusal::Keep => {
                self.keep_unaccepted(sent, problem);
                None
            }
            AfterRefusal::Drop => {
                tracing::warn!(service = S::NAME, %kind, id, rev = sent.rev, %problem, "desired state refused and dropped, because its receiver does not have the aggregate");
                Some(sent)
            }
            AfterRefusal::Decide(input) => {
                tracing::warn!(service = S::NAME, %kind, id, rev = sent.rev, %problem, "desired state refused; its service decides what follows");
                let subject = format!("desired_state.{id}.refused");
                let body = problem_json(problem.clone());
                self.submit_input(sent, input, Raw { subject, body });
                None
            }
        }
    }

    /// Has the service decide an acknowledgement if that means an input. The row is then deleted after that
    /// commit, so that the reply is not lost with this process. Otherwise returns the desired state.
    fn handle_acknowledgement(&self, sent: Sent, reply: &Value) -> Option<Sent> {
        self.update_unaccepted(|unaccepted| unaccepted.remove(&sent.key));
        let input = with_parsed(&sent, |sent| self.service.acknowledged(sent, reply));
        let Some(input) = input.flatten() else {
            return Some(sent);
        };
        let subject = format!("desired_state.{}.acknowledged", sent.key.id);
        let body = reply.to_string().into();
        self.submit_input(sent, input, Raw { subject, body });
        None
    }

    /// Has the rows of desired states deleted.
    fn complete(&self, done: Vec<Sent>) {
        let mut state = self.state();
        for sent in &done {
            state.sent_alone.remove(&sent.key);
            state.unaccepted.remove(&sent.key);
        }
        state.unaccepted.report(S::NAME, &self.status);
        drop(state);
        self.completions.acknowledged(done);
    }
}

/// Calls the service, if the row contains a valid workspace and `rev`.
fn with_parsed<T>(sent: &Sent, call: impl FnOnce(&SentState<'_>) -> T) -> Option<T> {
    Some(call(&SentState {
        kind: &sent.key.kind,
        workspace: &sent.key.workspace.parse().ok()?,
        id: &sent.key.id,
        rev: u64::try_from(sent.rev).ok()?,
    }))
}
