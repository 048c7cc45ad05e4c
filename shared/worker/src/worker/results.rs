//! Reports results, and keeps each until the executor has confirmed it (S4-R2).
//!
//! Owns the retries and the second way, over the command stream. It must never ack a step whose
//! result is neither confirmed nor stored: only the death of the process may lose one.

use std::time::Duration;

use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::steps::{ResultAnswer, StepResult, StepResults};
use holdpoint_ids::{NodeName, Workspace};
use tokio::sync::mpsc;
use tokio::time::Instant;
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

#[derive(Clone)]
pub(super) struct Reporter {
    results: mpsc::Sender<Item<Kept>>,
}

/// A result, with the delivery that is acked when it is safe.
pub(super) struct Kept {
    pub(super) result: StepResult,
    pub(super) delivery: Delivery,
}

impl Reporter {
    /// The reporter and its task, which ends after all reporters, with the last result.
    pub(super) fn start(bus: Bus, node: NodeName) -> (Self, AbortOnDropHandle<()>) {
        let (results, waiting) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(batch::drive(waiting, move |workspace, batch| {
            let report = Report {
                bus: bus.clone(),
                node: node.clone(),
                workspace,
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
}

impl Report {
    /// Ends when every result is confirmed by the executor or stored for it.
    async fn until_safe(self, mut left: Vec<Kept>) {
        let due = Instant::now() + PATIENCE;
        let (mut pause, longest) = BACKOFF;
        loop {
            let envelope = self.envelope(&left);
            let asked = self.bus.ask(&self.workspace, &envelope);
            match tokio::time::timeout(PATIENCE, asked).await {
                Ok(Ok(answers)) => left = confirmed(left, answers).await,
                Ok(Err(problem)) => tracing::debug!(%problem, "results are not confirmed yet"),
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
        for kept in left {
            kept.delivery.ack().await;
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

/// Acks what was answered and returns the rest, which is sent again.
async fn confirmed(kept: Vec<Kept>, answers: Vec<Reply<ResultAnswer>>) -> Vec<Kept> {
    let mut rest = Vec::new();
    let mut answers = answers.into_iter();
    for kept in kept {
        match answers.next() {
            Some(Reply::Ok(ResultAnswer::Applied | ResultAnswer::Known | ResultAnswer::Late)) => {
                kept.delivery.ack().await;
            }
            Some(Reply::Problem(problem)) if problem.status < 500 => {
                let StepResult { run, step, .. } = &kept.result;
                tracing::warn!(%run, step, %problem, "the executor has no use for a result");
                kept.delivery.ack().await;
            }
            Some(Reply::Problem(_)) | None => rest.push(kept),
        }
    }
    rest
}
