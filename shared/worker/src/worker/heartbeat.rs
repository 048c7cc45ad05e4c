//! One message a node that keeps all its leases (S4-R3).
//!
//! Owns when a node beats, and what the answer stops. It must never end a step because nobody
//! answers: whether another node has taken it over is the executor's word, and a result that comes
//! too late is fenced by `dispatch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use holdpoint_bus::Bus;
use holdpoint_contracts::message::Envelope;
use holdpoint_contracts::steps::{Deregister, Heartbeat, HeartbeatReply};
use holdpoint_contracts::subject;
use holdpoint_ids::{NodeName, ToolName, Workspace};
use tokio::time::Instant;

use super::held::LeaseTable;

/// Never more often than this, whatever the executor says.
const SOONEST: Duration = Duration::from_millis(50);

/// Longest wait for the answer to one beat, and for the next try after it.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// How long a stopping node waits for the answer to its deregistration.
const GOODBYE: Duration = Duration::from_secs(1);

/// The heart of one node.
pub(super) struct Heart {
    pub(super) bus: Bus,
    pub(super) workspace: Workspace,
    pub(super) node: NodeName,
    pub(super) tools: Vec<ToolName>,
    pub(super) held: LeaseTable,
    pub(super) waiting: Arc<AtomicU64>,
}

/// When somebody heard this node last.
struct Silence {
    since: Instant,
    is_logged: bool,
}

impl Heart {
    /// Beats until it is aborted: at once, then as often as the executor says, at once when a
    /// shorter lease was granted, and at once when `asked`.
    pub(super) async fn heartbeat(self, mut asked: async_nats::Subscriber) {
        let mut silence = Silence {
            since: Instant::now(),
            is_logged: false,
        };
        let mut is_open = true;
        loop {
            let began = Instant::now();
            let pause = self.beat_once(&mut silence).await;
            // Two grants in one moment ask for one beat.
            tokio::time::sleep_until(began + SOONEST).await;
            tokio::select! {
                () = tokio::time::sleep_until(began + pause) => {}
                () = self.held.shorter_lease() => {}
                message = asked.next(), if is_open => is_open = self.hear(message).await,
            }
        }
    }

    /// Tells that it was heard to who waits for that; the beat itself follows at once.
    async fn hear(&self, message: Option<async_nats::Message>) -> bool {
        let Some(message) = message else {
            tracing::warn!("nobody can ask this node to beat any more");
            return false;
        };
        let reply = message.reply.map(|reply| reply.to_string());
        if let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) {
            let sent = self.bus.send(reply, "{\"ok\":null}".into());
            if let Err(error) = sent.await {
                tracing::debug!(%error, "an answer was not sent");
            }
        }
        true
    }

    /// Says how long after its begin the next beat is due.
    async fn beat_once(&self, silence: &mut Silence) -> Duration {
        let working = self.held.working();
        let lease = Duration::from_millis(working.lease_ms);
        // Within a lease there is room for an answer that is lost, and for tries after it.
        let patience = (lease / 6).min(PATIENCE_MAX);
        let is_idle = working.claimed.is_empty();
        let heartbeat = Heartbeat {
            node: self.node.clone(),
            tools: self.tools.clone(),
            working: working.claimed,
            queue_depth: self.waiting.load(Ordering::Relaxed),
            lease_ms: working.lease_ms,
        };
        let envelope = Envelope::of_service("worker", heartbeat);
        let asked = self.bus.ask(&self.workspace, &envelope);
        match tokio::time::timeout(patience, asked).await {
            Ok(Ok(HeartbeatReply { stop, again_ms })) => {
                if silence.is_logged {
                    tracing::info!("the executor hears this node again");
                }
                *silence = Silence {
                    since: Instant::now(),
                    is_logged: false,
                };
                if !stop.is_empty() {
                    tracing::info!(steps = stop.len(), "steps are stopped by the executor");
                    self.held.stop(&stop);
                }
                return Duration::from_millis(again_ms).min(lease / 3);
            }
            Ok(Err(problem)) => tracing::debug!(%problem, "a beat was not heard"),
            Err(_) => tracing::debug!("a beat was not answered"),
        }
        if !is_idle && !silence.is_logged && silence.since.elapsed() > lease {
            silence.is_logged = true;
            tracing::warn!(
                "nobody has heard this node for longer than a lease: it works on, and what others \
                 have taken over meanwhile is not applied"
            );
        }
        patience
    }
}

/// Leaves: what this node still holds need not wait for the end of its leases. Never takes longer
/// than a second.
pub(super) async fn deregister(bus: &Bus, workspace: &Workspace, node: NodeName) {
    let envelope = Envelope::of_service("worker", Deregister { node });
    match tokio::time::timeout(GOODBYE, bus.ask(workspace, &envelope)).await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => tracing::debug!(%problem, "nobody took leave of this node"),
        Err(_) => tracing::debug!("nobody took leave of this node in time"),
    }
}
