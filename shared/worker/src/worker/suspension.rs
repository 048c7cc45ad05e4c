//! Reports steps of suspended runs, and the steps that a stopping worker still has (S1-R2, S1-R5).
//!
//! Owns the messages and their timeouts. Nothing of it may be needed for safety: if no report arrives, the leases end.

use std::time::Duration;

use holdpoint_bus::Bus;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::size::json_bytes;
use holdpoint_contracts::steps::StepRef;
use holdpoint_contracts::suspension::{Supplement, SuspendSteps, SuspendedStep};
use holdpoint_ids::{NodeName, Workspace};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::blobs;
use crate::suspension::{CallSuspension, CollectedSupplement};

/// Time that a tool has to save values after the request to stop. Then the worker reports its step.
const SAVE_TIME: Duration = Duration::from_secs(2);

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest time for the uploads of a worker that shuts down. It has four seconds for its reports.
const UPLOADS_AT_SHUTDOWN: Duration = Duration::from_secs(2);

/// Longest time for other uploads.
const UPLOADS: Duration = Duration::from_mins(1);

/// Tries of one report.
const TRIES: u32 = 3;

/// Bytes of one request at most, except for a single step above it.
const BYTES_MAX: usize = 256 * 1024;

/// A granted step, and what its tool saves.
#[derive(Clone)]
pub(super) struct SuspendableStep {
    pub(super) claimed: StepRef,
    pub(super) suspension: CallSuspension,
    pub(super) token: Option<String>,
}

impl SuspendableStep {
    /// Uploads large values until an instant, because the report may end the dispatch of the step. Later values stay
    /// references without content.
    async fn report(
        &self,
        bus: &Bus,
        shutdown: bool,
        stopped: bool,
        uploads_end: Instant,
    ) -> SuspendedStep {
        let collected = self.suspension.collect(self.token.as_deref()).await;
        let CollectedSupplement { supplement, large } = collected;
        if let Some(token) = &self.token {
            for value in &large {
                let upload = blobs::upload(bus, &self.claimed, token, value);
                if tokio::time::timeout_at(uploads_end, upload).await.is_err() {
                    tracing::warn!(step = %self.claimed.step, "no time is left to upload a saved value");
                }
            }
        }
        SuspendedStep {
            run: self.claimed.run,
            step: self.claimed.step.clone(),
            dispatch: self.claimed.dispatch,
            shutdown,
            stopped,
            supplement: (supplement != Supplement::default()).then_some(supplement),
        }
    }
}

/// A worker that shuts down must still have time to report its steps.
fn uploads_end(is_shutdown: bool) -> Instant {
    let time = if is_shutdown {
        UPLOADS_AT_SHUTDOWN
    } else {
        UPLOADS
    };
    Instant::now() + time
}

#[derive(Clone)]
pub(super) struct Suspender {
    bus: Bus,
    node: NodeName,
    /// Cancelled when the worker begins to stop.
    pub(super) stopping: CancellationToken,
}

impl Suspender {
    pub(super) fn new(bus: &Bus, node: &NodeName, stopping: &CancellationToken) -> Self {
        Self {
            bus: bus.clone(),
            node: node.clone(),
            stopping: stopping.clone(),
        }
    }

    pub(super) const fn node(&self) -> &NodeName {
        &self.node
    }

    /// Lets the tools save what they know, and reports it once. Tools may continue.
    pub(super) fn report_later(&self, steps: Vec<SuspendableStep>) {
        let suspender = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SAVE_TIME).await;
            suspender.report_all(&steps, false, false).await;
        });
    }

    /// Reports a tool that has stopped by itself. Returns whether it is known.
    pub(super) async fn report_stopped(&self, step: &SuspendableStep) -> bool {
        let is_stopping = self.stopping.is_cancelled();
        let uploads_end = uploads_end(is_stopping);
        let report = step.report(&self.bus, is_stopping, true, uploads_end);
        let report = vec![report.await];
        for _ in 0..TRIES {
            if self.send(&step.claimed.workspace, report.clone()).await {
                return true;
            }
            tokio::time::sleep(REPLY_TIMEOUT).await;
        }
        false
    }

    /// Reports the steps of a worker that has stopped its tools.
    pub(super) async fn report_shutdown(&self, steps: &[SuspendableStep]) {
        self.report_all(steps, true, true).await;
    }

    async fn report_all(&self, steps: &[SuspendableStep], shutdown: bool, stopped: bool) {
        let mut batch: Vec<SuspendedStep> = Vec::new();
        let (mut bytes, mut workspace) = (0, None);
        let uploads_end = uploads_end(shutdown);
        for step in steps {
            let report = step.report(&self.bus, shutdown, stopped, uploads_end);
            let report = report.await;
            let size = json_bytes(&report);
            let is_other = workspace.as_ref() != Some(&step.claimed.workspace);
            if let Some(workspace) = workspace.take()
                && (is_other || bytes + size > BYTES_MAX)
            {
                self.send(&workspace, std::mem::take(&mut batch)).await;
                bytes = 0;
            }
            workspace = Some(step.claimed.workspace.clone());
            bytes += size;
            batch.push(report);
        }
        if let Some(workspace) = workspace {
            self.send(&workspace, batch).await;
        }
    }

    /// Whether the executor has replied. An older executor does not know the message, so the leases end.
    async fn send(&self, workspace: &Workspace, steps: Vec<SuspendedStep>) -> bool {
        if steps.is_empty() {
            return true;
        }
        let node = self.node.clone();
        let envelope = Envelope::of_service("worker", SuspendSteps { node, steps });
        let asked = self.bus.ask(workspace, &envelope);
        match tokio::time::timeout(REPLY_TIMEOUT, asked).await {
            Ok(Ok(replies)) => {
                let refused = replies.into_iter().map(Result::from);
                for problem in refused.filter_map(Result::err) {
                    tracing::warn!(%problem, "the part of a snapshot was refused");
                }
                true
            }
            Ok(Err(problem)) => {
                tracing::debug!(%problem, "suspended steps not reported; their leases end");
                problem.status < 500
            }
            Err(_) => {
                tracing::debug!("no reply to suspended steps in time");
                false
            }
        }
    }
}
