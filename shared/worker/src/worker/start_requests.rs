//! Asks the executor whether delivered steps may start (S4-R2).
//!
//! Owns the request and the meaning of its reply for the delivery. It must take silence neither for a grant nor
//! for a refusal: a silent executor may have granted the start.

use std::time::Duration;

use holdpoint_bus::{Bus, REQUEST_TIMEOUT};
use holdpoint_contracts::message::{Envelope, Reply};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::steps::{Grant, StartStep, StartSteps};
use holdpoint_ids::{NodeName, Workspace};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::batch::{self, Item};

/// Approximate length of one step in a request, as JSON.
const BYTES: usize = 200;

/// An error that takes longer than this may come from an executor that has granted the start.
const SILENCE: Duration = Duration::from_secs(1);

/// Wait before the same delivery is asked about again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Shortest timeout of a request.
const TIMEOUT_MIN: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// The grant is committed: call the tool.
    Start,
    /// Call the tool without a lease.
    StartWithoutLease,
    /// The step is withdrawn, or a person decides: ack the delivery.
    Discard,
    /// No decision was possible: the delivery is given back and redelivered.
    RetryLater,
}

#[derive(Clone)]
pub(super) struct StartRequester {
    requests: mpsc::Sender<Item<StartRequest>>,
}

struct StartRequest {
    step: StartStep,
    lease: Duration,
    reply: oneshot::Sender<StartReply>,
}

/// `None`: no reply in time. The start may have been granted.
type StartReply = Option<StartDecision>;

impl StartRequester {
    /// The requester and its task, which ends after all requesters are dropped.
    pub(super) fn start(bus: Bus, node: NodeName) -> (Self, AbortOnDropHandle<()>) {
        let (requests, task) =
            batch::start(move |workspace, batch| ask(bus.clone(), node.clone(), workspace, batch));
        (Self { requests }, task)
    }

    /// Asks until the executor replies. A repeated request for the same delivery gets the same decision, while
    /// another delivery of a granted step would be `uncertain`.
    ///
    /// A silent executor may have granted the start and died. No heartbeat renews such a lease, and when it
    /// expires the step becomes `uncertain`. One request therefore waits only a third of the `lease`.
    pub(super) async fn request_start(
        &self,
        workspace: &Workspace,
        step: &StartStep,
        lease: Duration,
    ) -> StartDecision {
        let mut maybe_granted = false;
        loop {
            match self.ask_once(workspace, step, lease).await {
                Some(StartDecision::RetryLater) if maybe_granted => {}
                Some(decision) => return decision,
                None => maybe_granted = true,
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    async fn ask_once(
        &self,
        workspace: &Workspace,
        step: &StartStep,
        lease: Duration,
    ) -> StartReply {
        let (reply, replied) = oneshot::channel();
        let request = Item {
            workspace: workspace.clone(),
            bytes: BYTES,
            body: StartRequest {
                step: step.clone(),
                lease,
                reply,
            },
        };
        self.requests.send(request).await.ok()?;
        replied.await.ok()?
    }
}

async fn ask(bus: Bus, node: NodeName, workspace: Workspace, batch: Vec<StartRequest>) {
    let leases = batch.iter().map(|request| request.lease);
    let request_timeout = leases.min().map_or(REQUEST_TIMEOUT, timeout_within);
    let (steps, callers): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|request| (request.step, request.reply))
        .unzip();
    let envelope = Envelope::of_service("worker", StartSteps { node, steps });
    let began = Instant::now();
    let replies: Vec<StartReply> = match timeout(request_timeout, bus.ask(&workspace, &envelope))
        .await
    {
        Ok(Ok(replies)) => replies.into_iter().map(decision).map(Some).collect(),
        Err(_) => {
            tracing::debug!(
                steps = callers.len(),
                "no reply about steps to start in time; asking again"
            );
            Vec::new()
        }
        Ok(Err(problem)) => {
            tracing::debug!(%problem, steps = callers.len(), "steps to start not decided; asking again");
            let is_quick = began.elapsed() < SILENCE;
            vec![is_quick.then_some(StartDecision::RetryLater); callers.len()]
        }
    };
    let replies = replies.into_iter().chain(std::iter::repeat(None));
    for (caller, reply) in callers.into_iter().zip(replies) {
        // A caller that does not wait any more has given up the step.
        caller.send(reply).ok();
    }
}

fn timeout_within(lease: Duration) -> Duration {
    (lease / 3).clamp(TIMEOUT_MIN, REQUEST_TIMEOUT)
}

fn decision(reply: Reply<Grant>) -> StartDecision {
    match reply {
        Reply::Ok(Grant::Go) => StartDecision::Start,
        Reply::Ok(Grant::GoWithoutLease) => StartDecision::StartWithoutLease,
        Reply::Ok(Grant::Drop | Grant::Uncertain) => StartDecision::Discard,
        Reply::Problem(Problem { code, detail, .. }) => {
            tracing::debug!(
                code,
                detail,
                "step may not start yet; it will be redelivered"
            );
            StartDecision::RetryLater
        }
    }
}
