//! Core requests: commands whose caller waits, and queries.

use std::time::Duration;

use async_nats::client::{RequestError, RequestErrorKind};
use bytes::Bytes;
use holdpoint_contracts::dead_letter::DeadLetterRequest;
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
    ) -> Result<C::Reply, Problem> {
        let subject = envelope.command.ask_subject(workspace);
        let answer = self.request(subject, envelope, C::SERVICE, REQUEST_TIMEOUT);
        Ok(answer.await?)
    }

    /// Asks a question that changes nothing.
    ///
    /// # Errors
    /// The service's refusal (`not_found`, for instance), or a 503 [`Problem`].
    pub async fn query<Q: Query>(
        &self,
        workspace: &Workspace,
        query: &Q,
    ) -> Result<Q::Reply, Problem> {
        // One of several replicas may be stopped with the question in its hands: another answers.
        let mut tries = QUERY_TRIES;
        loop {
            tries -= 1;
            let subject = query.subject(workspace);
            let answer = self.request(subject, query, Q::SERVICE, QUERY_PATIENCE);
            match answer.await {
                Err(Failed::Silence(_)) if tries > 0 => {}
                answer => return answer.map_err(Problem::from),
            }
        }
    }

    /// Asks a service about its dead letters of one workspace.
    ///
    /// # Errors
    /// The service's refusal (`not_found`, for instance), or a 503 [`Problem`].
    pub async fn dead_letters<A: DeserializeOwned>(
        &self,
        workspace: &Workspace,
        service: &str,
        request: &DeadLetterRequest,
    ) -> Result<A, Problem> {
        let subject = subject::dead_letters(workspace, service);
        let answer = self.request(subject, request, service, REQUEST_TIMEOUT);
        Ok(answer.await?)
    }

    /// Moves the test clock; answers when what it woke has come to rest, or the cap is reached.
    ///
    /// # Errors
    /// 503 when no service with a test clock listens.
    pub async fn advance_clock(&self, advance: &AdvanceClock) -> Result<AdvancedClock, Problem> {
        // An advance may wake many timers one after the other; each of them may use the whole cap.
        let patience = Duration::from_secs(600);
        let subject = subject::CLOCK_ADVANCE.to_owned();
        let answer = self.request(subject, advance, "scheduler", patience);
        Ok(answer.await?)
    }

    async fn request<B: Serialize, A: DeserializeOwned>(
        &self,
        subject: String,
        body: &B,
        service: &str,
        patience: Duration,
    ) -> Result<A, Failed> {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, subject, "a request that cannot be written");
            Problem::internal()
        })?;
        if body.len() > self.max_payload() {
            return Err(too_large(body.len(), self.max_payload()).into());
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
        let answer: Result<A, Problem> = reply.into();
        Ok(answer?)
    }
}

/// A question changes nothing, so it can be asked again soon …
const QUERY_PATIENCE: Duration = Duration::from_secs(1);

/// … and so often, before the caller is told.
const QUERY_TRIES: u32 = 10;

/// Why a request brought nothing.
enum Failed {
    /// The service is there and has not answered in time.
    Silence(Problem),
    /// It refused, or cannot be asked.
    Told(Problem),
}

impl From<Failed> for Problem {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Silence(problem) | Failed::Told(problem) => problem,
        }
    }
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Self::Told(problem)
    }
}

fn too_large(bytes: usize, most: usize) -> Problem {
    Problem::new(
        413,
        "too_large",
        format!("this is {bytes} bytes on the bus, which takes {most} at most"),
    )
}

fn unanswered(error: &RequestError, service: &str) -> Failed {
    let unavailable = |detail: String| Problem::unavailable(detail);
    match error.kind() {
        RequestErrorKind::NoResponders => {
            unavailable(format!("the {service} service is down; try again")).into()
        }
        RequestErrorKind::TimedOut => Failed::Silence(unavailable(format!(
            "the {service} service has not answered in time; ask again under the same key"
        ))),
        RequestErrorKind::MaxPayloadExceeded
        | RequestErrorKind::InvalidSubject
        | RequestErrorKind::Other => {
            unavailable(format!("the {service} service cannot be asked: {error}")).into()
        }
    }
}
