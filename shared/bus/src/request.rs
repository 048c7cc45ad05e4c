//! Core requests: commands whose caller waits, and queries.

use std::time::Duration;

use async_nats::client::{RequestError, RequestErrorKind};
use bytes::Bytes;
use holdpoint_contracts::message::{Command, Envelope, Query, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::scheduler::{AdvanceClock, AdvancedClock};
use holdpoint_contracts::subject;
use holdpoint_ids::Workspace;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Bus, REQUEST_TIMEOUT};

impl Bus {
    /// Asks the owner of an aggregate to do something; it answers after its commit.
    ///
    /// # Errors
    /// The owner's refusal, or a 503 [`Problem`] when it is down or silent: then asking again with
    /// the same key and the same ids is safe.
    pub async fn ask<C: Command>(
        &self,
        workspace: &Workspace,
        envelope: &Envelope<C>,
    ) -> Result<C::Answer, Problem> {
        let subject = envelope.command.ask_subject(workspace);
        self.request(subject, envelope, C::SERVICE, REQUEST_TIMEOUT)
            .await
    }

    /// Asks a question that changes nothing.
    ///
    /// # Errors
    /// The service's refusal (`not_found`, for instance), or a 503 [`Problem`].
    pub async fn query<Q: Query>(
        &self,
        workspace: &Workspace,
        query: &Q,
    ) -> Result<Q::Answer, Problem> {
        self.request(query.subject(workspace), query, Q::SERVICE, REQUEST_TIMEOUT)
            .await
    }

    /// Moves the test clock; answers when what it woke has come to rest, or the cap is reached.
    ///
    /// # Errors
    /// 503 when no service with a test clock listens.
    pub async fn advance_clock(&self, advance: &AdvanceClock) -> Result<AdvancedClock, Problem> {
        // An advance may wake many alarms one after the other; each of them may use the whole cap.
        let patience = Duration::from_secs(600);
        self.request(
            subject::CLOCK_ADVANCE.to_owned(),
            advance,
            "scheduler",
            patience,
        )
        .await
    }

    async fn request<B: Serialize, A: DeserializeOwned>(
        &self,
        subject: String,
        body: &B,
        service: &str,
        patience: Duration,
    ) -> Result<A, Problem> {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, subject, "a request that cannot be written");
            Problem::internal()
        })?;
        if body.len() > self.max_payload() {
            return Err(too_large(body.len(), self.max_payload()));
        }
        let request = async_nats::client::Request::new()
            .payload(Bytes::from(body))
            .timeout(Some(patience));
        let message = self
            .client()
            .send_request(subject, request)
            .await
            .map_err(|error| unanswered(&error, service))?;
        let reply: Reply<A> = serde_json::from_slice(&message.payload).map_err(|error| {
            tracing::error!(%error, service, "an answer that cannot be read");
            Problem::internal()
        })?;
        reply.into()
    }
}

fn too_large(bytes: usize, most: usize) -> Problem {
    Problem::new(
        413,
        "too_large",
        format!("this is {bytes} bytes on the bus, which takes {most} at most"),
    )
}

fn unanswered(error: &RequestError, service: &str) -> Problem {
    let detail = match error.kind() {
        RequestErrorKind::NoResponders => format!("the {service} service is down; try again"),
        RequestErrorKind::TimedOut => {
            format!("the {service} service has not answered in time; ask again under the same key")
        }
        RequestErrorKind::MaxPayloadExceeded
        | RequestErrorKind::InvalidSubject
        | RequestErrorKind::Other => format!("the {service} service cannot be asked: {error}"),
    };
    Problem::unavailable(detail)
}
