//! The heartbeat: one message that renews all leases of a node (S4-R3).
//!
//! Owns when a node sends it, and stops the steps that the reply names. It must never end a step because the
//! executor does not reply. Only the executor knows whether another node has the step, and a late result is
//! fenced by `dispatch`.

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

use super::lease_table::LeaseTable;
use super::suspension::Suspender;

/// Shortest time between two heartbeats, whatever the executor requests.
const SOONEST: Duration = Duration::from_millis(50);

/// Longest wait for a reply, and for the next try after it.
const TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// How long a stopping node waits for the reply to its deregistration.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends the heartbeats of one node.
pub(super) struct HeartbeatTask {
    pub(super) bus: Bus,
    pub(super) workspace: Workspace,
    pub(super) node: NodeName,
    pub(super) tools: Vec<ToolName>,
    pub(super) leases: LeaseTable,
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) suspender: Suspender,
}

/// The time since the last reply.
struct Silence {
    since: Instant,
    is_logged: bool,
}

impl HeartbeatTask {
    /// Sends heartbeats until it is aborted: at once, at the interval that the executor requests, when a
    /// shorter lease was granted, and when the executor probes the node.
    pub(super) async fn run(self, mut probes: async_nats::Subscriber) {
        let mut silence = Silence {
            since: Instant::now(),
            is_logged: false,
        };
        let mut is_open = true;
        loop {
            let began = Instant::now();
            let pause = self.send(&mut silence).await;
            // Two grants in one moment need only one heartbeat.
            tokio::time::sleep_until(began + SOONEST).await;
            tokio::select! {
                () = tokio::time::sleep_until(began + pause) => {}
                () = self.leases.wait_for_trigger() => {}
                message = probes.next(), if is_open => is_open = self.answer_probe(message).await,
            }
        }
    }

    /// Replies to a probe; the heartbeat follows at once. `false`: there will be no more probes.
    async fn answer_probe(&self, message: Option<async_nats::Message>) -> bool {
        let Some(message) = message else {
            tracing::warn!("subscription to probes ended; the executor cannot probe this node");
            return false;
        };
        let reply = message.reply.map(|reply| reply.to_string());
        if let Some(reply) = reply.filter(|inbox| subject::is_inbox(inbox)) {
            let sent = self.bus.send(reply, "{\"ok\":null}".into());
            if let Err(error) = sent.await {
                tracing::debug!(%error, "reply to a probe not sent");
            }
        }
        true
    }

    /// Sends one heartbeat. Returns how long after its begin the next one is due.
    async fn send(&self, silence: &mut Silence) -> Duration {
        let held = self.leases.leases();
        let lease = Duration::from_millis(held.lease_ms);
        // Within a lease there is time for a lost reply and for further tries.
        let reply_timeout = (lease / 6).min(TIMEOUT_MAX);
        let is_idle = held.steps.is_empty();
        let heartbeat = Heartbeat {
            node: self.node.clone(),
            tools: self.tools.clone(),
            working: held.steps,
            queue_depth: self.waiting.load(Ordering::Relaxed),
            lease_ms: held.lease_ms,
        };
        let envelope = Envelope::of_service("worker", heartbeat);
        let asked = self.bus.ask(&self.workspace, &envelope);
        match tokio::time::timeout(reply_timeout, asked).await {
            Ok(Ok(HeartbeatReply {
                stop,
                suspend,
                again_ms,
            })) => {
                if silence.is_logged {
                    tracing::info!("the executor replies to heartbeats again");
                }
                *silence = Silence {
                    since: Instant::now(),
                    is_logged: false,
                };
                if !stop.is_empty() {
                    tracing::info!(steps = stop.len(), "the executor stops steps");
                    self.leases.stop(&stop);
                }
                if !suspend.is_empty() {
                    self.suspender.report_later(self.leases.suspend(&suspend));
                }
                return Duration::from_millis(again_ms).min(lease / 3);
            }
            Ok(Err(problem)) => tracing::debug!(%problem, "heartbeat refused; trying again"),
            Err(_) => tracing::debug!("no reply to a heartbeat in time; trying again"),
        }
        if !is_idle && !silence.is_logged && silence.since.elapsed() > lease {
            silence.is_logged = true;
            tracing::warn!(
                "no reply to heartbeats for longer than a lease; steps continue, but results of steps \
                 that other nodes have meanwhile are not applied"
            );
        }
        reply_timeout
    }
}

/// Deregisters the node, so that its steps need not wait until their leases expire. Takes at most a second.
pub(super) async fn deregister(bus: &Bus, workspace: &Workspace, node: NodeName) {
    let envelope = Envelope::of_service("worker", Deregister { node });
    match tokio::time::timeout(DEREGISTER_TIMEOUT, bus.ask(workspace, &envelope)).await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => tracing::debug!(%problem, "deregistration refused; the leases expire"),
        Err(_) => tracing::debug!("no reply to the deregistration in time; the leases expire"),
    }
}
