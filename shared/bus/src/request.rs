//! Core requests: commands whose caller waits, and queries.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::client::{Request, RequestError, RequestErrorKind};
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
    /// Sends a command to its service, which replies after its commit.
    ///
    /// # Errors
    /// The service's refusal, or a 503 [`Problem`] if it is down or silent. Asking again with the same key
    /// and ids is then safe.
    pub async fn ask<C: Command>(
        &self,
        workspace: &Workspace,
        envelope: &Envelope<C>,
    ) -> Result<C::Reply, Problem> {
        let subject = envelope.command.ask_subject(workspace);
        let answer = self.request(subject, envelope, C::SERVICE, REQUEST_TIMEOUT);
        Ok(answer.await?)
    }

    /// Sends a command. Its service delays the reply until the effect is known, for at most two seconds.
    ///
    /// # Errors
    /// As for [`Bus::ask`].
    pub async fn ask_for_effect<C: Command>(
        &self,
        workspace: &Workspace,
        envelope: &Envelope<C>,
    ) -> Result<C::Reply, Problem> {
        let subject = envelope.command.ask_subject(workspace);
        let mut headers = HeaderMap::new();
        headers.insert(subject::AWAIT_EFFECT_HEADER, "1");
        let request = Request::new()
            .headers(headers)
            .timeout(Some(REQUEST_TIMEOUT));
        let answer = self.send_request(subject, envelope, C::SERVICE, request);
        Ok(answer.await?)
    }

    /// Sends a query.
    ///
    /// # Errors
    /// The service's refusal, such as `not_found`, or a 503 [`Problem`].
    pub async fn query<Q: Query>(
        &self,
        workspace: &Workspace,
        query: &Q,
    ) -> Result<Q::Reply, Problem> {
        // A replica may stop before it has replied; then another one answers.
        let mut tries = QUERY_TRIES;
        loop {
            tries -= 1;
            let subject = query.subject(workspace);
            let answer = self.request(subject, query, Q::SERVICE, QUERY_TIMEOUT);
            match answer.await {
                Err(RequestFailure::Timeout(_)) if tries > 0 => {}
                answer => return answer.map_err(Problem::from),
            }
        }
    }

    /// Sends a query that may take long, once.
    ///
    /// # Errors
    /// As for [`Bus::query`].
    pub async fn query_within<Q: Query>(
        &self,
        workspace: &Workspace,
        query: &Q,
        timeout: Duration,
    ) -> Result<Q::Reply, Problem> {
        let subject = query.subject(workspace);
        let answer = self.request(subject, query, Q::SERVICE, timeout);
        Ok(answer.await?)
    }

    /// Sends a request about a service's dead letters of one workspace.
    ///
    /// # Errors
    /// The service's refusal, such as `not_found`, or a 503 [`Problem`].
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

    /// Moves the test clock. Returns after quiescence, or when the cap is reached.
    ///
    /// # Errors
    /// 503: no service with a test clock runs.
    pub async fn advance_clock(&self, advance: &AdvanceClock) -> Result<AdvancedClock, Problem> {
        // An advance may fire many timers one after the other, and each may use the whole cap.
        let timeout = Duration::from_secs(600);
        let subject = subject::CLOCK_ADVANCE.to_owned();
        let answer = self.request(subject, advance, "scheduler", timeout);
        Ok(answer.await?)
    }

    async fn request<B: Serialize, A: DeserializeOwned>(
        &self,
        subject: String,
        body: &B,
        service: &str,
        timeout: Duration,
    ) -> Result<A, RequestFailure> {
        let request = Request::new().timeout(Some(timeout));
        self.send_request(subject, body, service, request).await
    }

    async fn send_request<B: Serialize, A: DeserializeOwned>(
        &self,
        subject: String,
        body: &B,
        service: &str,
        request: Request,
    ) -> Result<A, RequestFailure> {
        let body = serde_json::to_vec(body).map_err(|error| {
            tracing::error!(%error, subject, "request not serialized");
            Problem::internal()
        })?;
        if body.len() > self.max_payload() {
            return Err(too_large(body.len(), self.max_payload()).into());
        }
        let message = self
            .client()
            .send_request(subject, request.payload(Bytes::from(body)))
            .await
            .map_err(|error| unanswered(&error, service))?;
        let reply: Reply<A> = serde_json::from_slice(&message.payload).map_err(|error| {
            tracing::error!(%error, service, "reply cannot be read; the caller gets an internal error");
            Problem::internal()
        })?;
        let answer: Result<A, Problem> = reply.into();
        Ok(answer?)
    }
}

/// A query changes nothing, so it can be repeated soon …
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);

/// … and so often before the caller gets an error.
const QUERY_TRIES: u32 = 10;

enum RequestFailure {
    /// The service did not reply in time.
    Timeout(Problem),
    /// It refused, or cannot be reached.
    Refused(Problem),
}

impl From<RequestFailure> for Problem {
    fn from(failed: RequestFailure) -> Self {
        match failed {
            RequestFailure::Timeout(problem) | RequestFailure::Refused(problem) => problem,
        }
    }
}

impl From<Problem> for RequestFailure {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

fn too_large(bytes: usize, most: usize) -> Problem {
    Problem::new(
        413,
        "too_large",
        format!("the message has {bytes} bytes and the bus allows {most}"),
    )
}

fn unanswered(error: &RequestError, service: &str) -> RequestFailure {
    let unavailable = |detail: String| Problem::unavailable(detail);
    match error.kind() {
        RequestErrorKind::NoResponders => {
            unavailable(format!("the {service} service is down; try again")).into()
        }
        RequestErrorKind::TimedOut => RequestFailure::Timeout(unavailable(format!(
            "the {service} service did not reply in time; ask again with the same key"
        ))),
        RequestErrorKind::MaxPayloadExceeded
        | RequestErrorKind::InvalidSubject
        | RequestErrorKind::Other => {
            unavailable(format!("the {service} service cannot be reached: {error}")).into()
        }
    }
}
