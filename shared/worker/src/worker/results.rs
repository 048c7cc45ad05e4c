//! Reports results, and keeps each until the executor has confirmed it (S4-R2).
//!
//! Owns the retries and the second way, over the command stream. It must never ack a step whose
//! result is neither confirmed nor stored, and never forget one that is only stored while there is
//! room: the stream may lose its tail, and the step is this node's until the executor knows.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::steps::{ResultReply, StepResult, StepResults};
use holdpoint_ids::{NodeName, Workspace};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::batch::{self, Item};
use super::held::Delivery;
use super::outcome::json_bytes;

/// Results that may wait for the next request; then tools keep their places until there is room.
const WAITING_MAX: usize = 256;

/// Without an answer for this long the results go to the command stream.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two requests: the first time, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Batches that are stored and asked about until they are confirmed; more are left to the stream.
const FOLLOWED_MAX: usize = 64;

/// Between two questions about a batch that is stored.
const FOLLOW: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Reporter {
    results: mpsc::Sender<Item<Kept>>,
}

/// A result, with the step that is held until it is confirmed.
pub(super) struct Kept {
    pub(super) result: StepResult,
    pub(super) delivery: Delivery,
}

impl Reporter {
    /// The reporter and its task, which ends after all reporters, when the last result is confirmed
    /// or stored. What is stored is asked about until `given_up`.
    pub(super) fn start(
        bus: Bus,
        node: NodeName,
        given_up: CancellationToken,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (results, waiting) = mpsc::channel(WAITING_MAX);
        let followed = Arc::new(Semaphore::new(FOLLOWED_MAX));
        let task = tokio::spawn(batch::drive(waiting, move |workspace, batch| {
            let report = Report {
                bus: bus.clone(),
                node: node.clone(),
                workspace,
                given_up: given_up.clone(),
                followed: Arc::clone(&followed),
            };
            report.until_safe(batch)
        }));
        (Self { results }, AbortOnDropHandle::new(task))
    }

    /// Takes charge of a result; waits while too many are unconfirmed.
    pub(super) async fn keep(&self, workspace: Workspace, kept: Kept) {
        let item = Item {
            workspace,
            bytes: json_bytes(&kept.result),
            body: kept,
        };
        if self.results.send(item).await.is_err() {
            tracing::error!("nobody reports results any more; the step comes again");
        }
    }
}

struct Report {
    bus: Bus,
    node: NodeName,
    workspace: Workspace,
    given_up: CancellationToken,
    followed: Arc<Semaphore>,
}

impl Report {
    /// Ends when every result is confirmed by the executor or stored for it.
    async fn until_safe(self, mut left: Vec<Kept>) {
        let due = Instant::now() + PATIENCE;
        let (mut pause, longest) = BACKOFF;
        loop {
            match tokio::time::timeout(PATIENCE, self.ask(&mut left)).await {
                Ok(()) => {}
                Err(_) => tracing::debug!("the executor is slow to confirm results"),
            }
            if left.is_empty() {
                return;
            }
            let patience = due.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                match self.store(&left).await {
                    Ok(()) => break,
                    Err(error) => tracing::warn!(%error, "results wait for the bus"),
                }
                tokio::time::sleep(pause).await;
            } else {
                tokio::time::sleep(pause.min(patience)).await;
            }
            pause = (pause * 2).min(longest);
        }
        for kept in &left {
            kept.delivery.stored().await;
        }
        if let Ok(place) = Arc::clone(&self.followed).try_acquire_owned() {
            let given_up = self.given_up.clone();
            tokio::spawn(given_up.run_until_cancelled_owned(async move {
                self.until_confirmed(left).await;
                drop(place);
            }));
        }
    }

    /// Asks about what is stored already. Others do not wait for this.
    async fn until_confirmed(&self, mut left: Vec<Kept>) {
        while !left.is_empty() {
            tokio::time::sleep(FOLLOW).await;
            self.ask(&mut left).await;
        }
    }

    /// One request; what it confirms is done with.
    async fn ask(&self, left: &mut Vec<Kept>) {
        match self.bus.ask(&self.workspace, &self.envelope(left)).await {
            Ok(answers) => *left = confirmed(std::mem::take(left), answers).await,
            Err(problem) => tracing::debug!(%problem, "results are not confirmed yet"),
        }
    }

    fn envelope(&self, kept: &[Kept]) -> Envelope<StepResults> {
        let command = StepResults {
            node: self.node.clone(),
            results: kept.iter().map(|kept| kept.result.clone()).collect(),
        };
        Envelope::of_service("worker", command)
    }

    /// The stream keeps them from here on, until the executor has handled them.
    async fn store(&self, left: &[Kept]) -> Result<(), BusError> {
        let envelope = self.envelope(left);
        let subject = envelope.command.subject(&self.workspace);
        match Outgoing::json(subject, &envelope) {
            Ok(message) => self.bus.publish_all(vec![message]).await?,
            // A `Value` can always be written; were it not so, repeating would not help.
            Err(error) => tracing::error!(%error, "results that cannot be written"),
        }
        tracing::info!(
            results = left.len(),
            "the executor is away: its stream keeps results"
        );
        Ok(())
    }
}

/// Ends what was answered and returns the rest, which is sent again.
async fn confirmed(kept: Vec<Kept>, answers: Vec<Reply<ResultReply>>) -> Vec<Kept> {
    let mut rest = Vec::new();
    let mut answers = answers.into_iter();
    for kept in kept {
        match answers.next() {
            Some(Reply::Ok(ResultReply::Applied | ResultReply::Known | ResultReply::Late)) => {
                kept.delivery.end().await;
            }
            Some(Reply::Problem(problem)) if problem.status < 500 => {
                let StepResult { run, step, .. } = &kept.result;
                tracing::warn!(%run, step, %problem, "the executor has no use for a result");
                kept.delivery.end().await;
            }
            Some(Reply::Problem(_)) | None => rest.push(kept),
        }
    }
    rest
}
