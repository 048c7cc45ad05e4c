//! Reports results, and keeps each until the executor has acknowledged it (S4-R2).
//!
//! Owns the retries and the second path, over the command stream. It must never ack a step whose result is
//! neither acknowledged nor stored. While there is room it must not drop a result that is only stored: the
//! stream may lose its tail, and the step belongs to this node until the executor has the result.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, Outgoing};
use holdpoint_contracts::message::{Command, Envelope, Reply};
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::{ResultReply, StepResult, StepResults};
use holdpoint_ids::{NodeName, Workspace};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::batch::{self, Item};
use super::lease_table::Delivery;

/// Without a reply for this long the results go to the command stream.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Wait between two requests: at first, and at most.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Stored batches that are reported until they are acknowledged. Further ones are left to the stream.
const STORED_MAX: usize = 64;

/// Wait between two reports of a stored batch.
const REPORT_STORED_EVERY: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Reporter {
    results: mpsc::Sender<Item<PendingResult>>,
}

/// A result, and its step, which is held until the result is acknowledged.
pub(super) struct PendingResult {
    pub(super) result: StepResult,
    pub(super) delivery: Delivery,
}

impl Reporter {
    /// The reporter and its task. The task ends after all reporters are dropped and the last result is
    /// acknowledged or stored. Stored results are reported until `given_up`.
    pub(super) fn start(
        bus: Bus,
        node: NodeName,
        given_up: CancellationToken,
    ) -> (Self, AbortOnDropHandle<()>) {
        let stored_permits = Arc::new(Semaphore::new(STORED_MAX));
        let (results, task) = batch::start(move |workspace, batch| {
            let report = Report {
                bus: bus.clone(),
                node: node.clone(),
                workspace,
                given_up: given_up.clone(),
                stored_permits: Arc::clone(&stored_permits),
            };
            report.until_safe(batch)
        });
        (Self { results }, task)
    }

    /// Accepts a result; waits while too many are unacknowledged.
    pub(super) async fn keep(&self, workspace: Workspace, pending: PendingResult) {
        let item = Item {
            workspace,
            bytes: json_bytes(&pending.result),
            body: pending,
        };
        if self.results.send(item).await.is_err() {
            tracing::error!(
                "result not reported because the reporter has ended; the step will be redelivered"
            );
        }
    }
}

struct Report {
    bus: Bus,
    node: NodeName,
    workspace: Workspace,
    given_up: CancellationToken,
    stored_permits: Arc<Semaphore>,
}

impl Report {
    /// Ends when every result is acknowledged by the executor or stored for it.
    async fn until_safe(self, mut left: Vec<PendingResult>) {
        let due = Instant::now() + REPORT_TIMEOUT;
        let mut pause = BACKOFF_FIRST;
        loop {
            match tokio::time::timeout(REPORT_TIMEOUT, self.report(&mut left)).await {
                Ok(()) => {}
                Err(_) => tracing::debug!(
                    "no acknowledgement of results in time; they are reported again"
                ),
            }
            if left.is_empty() {
                return;
            }
            let time_left = due.saturating_duration_since(Instant::now());
            if time_left.is_zero() {
                match self.store(&left).await {
                    Ok(()) => break,
                    Err(error) => tracing::warn!(%error, "results not stored; trying again"),
                }
                tokio::time::sleep(pause).await;
            } else {
                tokio::time::sleep(pause.min(time_left)).await;
            }
            pause = (pause * 2).min(BACKOFF_MAX);
        }
        for pending in &left {
            pending.delivery.set_stored().await;
        }
        if let Ok(slot) = Arc::clone(&self.stored_permits).try_acquire_owned() {
            let given_up = self.given_up.clone();
            tokio::spawn(given_up.run_until_cancelled_owned(async move {
                self.until_acknowledged(left).await;
                drop(slot);
            }));
        }
    }

    /// Reports stored results. Other results do not wait for this.
    async fn until_acknowledged(&self, mut left: Vec<PendingResult>) {
        while !left.is_empty() {
            tokio::time::sleep(REPORT_STORED_EVERY).await;
            self.report(&mut left).await;
        }
    }

    /// Sends one report and ends the steps that it acknowledges.
    async fn report(&self, left: &mut Vec<PendingResult>) {
        match self.bus.ask(&self.workspace, &self.envelope(left)).await {
            Ok(answers) => *left = end_acknowledged(std::mem::take(left), answers).await,
            Err(problem) => {
                tracing::debug!(%problem, "results not acknowledged; they are reported again");
            }
        }
    }

    fn envelope(&self, pending: &[PendingResult]) -> Envelope<StepResults> {
        let command = StepResults {
            node: self.node.clone(),
            results: pending.iter().map(|one| one.result.clone()).collect(),
        };
        Envelope::of_service("worker", command)
    }

    /// Stores results in the command stream until the executor has handled them.
    async fn store(&self, left: &[PendingResult]) -> Result<(), BusError> {
        let envelope = self.envelope(left);
        let subject = envelope.command.subject(&self.workspace);
        match Outgoing::json(subject, &envelope) {
            Ok(message) => self.bus.publish_all(vec![message]).await?,
            // A `Value` can always be serialized, and repeating an error would not help.
            Err(error) => tracing::error!(%error, "results not serialized"),
        }
        tracing::info!(
            results = left.len(),
            "executor unavailable; results are stored in its stream"
        );
        Ok(())
    }
}

/// Ends acknowledged steps and returns the others, which are reported again.
async fn end_acknowledged(
    pending: Vec<PendingResult>,
    answers: Vec<Reply<ResultReply>>,
) -> Vec<PendingResult> {
    let mut rest = Vec::new();
    let mut answers = answers.into_iter();
    for pending in pending {
        match answers.next() {
            Some(Reply::Ok(ResultReply::Applied | ResultReply::Known | ResultReply::Late)) => {
                pending.delivery.end().await;
            }
            Some(Reply::Problem(problem)) if problem.status < 500 => {
                let StepResult { run, step, .. } = &pending.result;
                tracing::warn!(%run, step, %problem, "result refused by the executor and dropped");
                pending.delivery.end().await;
            }
            Some(Reply::Problem(_)) | None => rest.push(pending),
        }
    }
    rest
}
