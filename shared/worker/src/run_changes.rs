//! Wakes tools that wait for answers. One subscription of a worker receives the nudges of the executor, and each tool is
//! woken by its run.
//!
//! A nudge may be lost, so a tool also asks again from time to time.

use std::sync::Arc;

use async_nats::{Message, Subscriber};
use futures_util::StreamExt;
use holdpoint_bus::{Bus, Changes, Waiters};
use holdpoint_contracts::executor::SERVICE;
use holdpoint_contracts::history::Nudge;
use holdpoint_contracts::subject;
use holdpoint_ids::RunId;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// The tools of a worker that wait for changes of their runs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RunChanges {
    waiters: Waiters<RunId>,
    /// Absent until the first tool waits, because most workers have no tool that asks.
    receiving: Arc<Mutex<Option<AbortOnDropHandle<()>>>>,
}

impl RunChanges {
    /// Subscribe before asking: then no later change is missed.
    pub(crate) async fn subscribe(&self, bus: &Bus, run: RunId) -> Changes<RunId> {
        let changes = self.waiters.subscribe(run);
        let mut receiving = self.receiving.lock().await;
        if receiving
            .as_ref()
            .is_none_or(AbortOnDropHandle::is_finished)
        {
            match bus.client().subscribe(subject::live_filter(SERVICE)).await {
                Ok(nudges) => {
                    let receive = receive(self.waiters.clone(), nudges);
                    *receiving = Some(AbortOnDropHandle::new(tokio::spawn(receive)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot subscribe to nudges; tools notice their answers later");
                }
            }
        }
        changes
    }
}

/// Receives until the connection is closed.
async fn receive(waiters: Waiters<RunId>, mut nudges: Subscriber) {
    while let Some(message) = nudges.next().await {
        if !waiters.is_empty() {
            wake_by(&waiters, &message);
        }
    }
}

fn wake_by(waiters: &Waiters<RunId>, message: &Message) {
    match serde_json::from_slice::<Nudge>(&message.payload) {
        Ok(nudge) => waiters.wake(nudge.runs.into_iter().map(|(run, _)| run)),
        Err(error) => {
            tracing::warn!(%error, subject = %message.subject, "nudge cannot be read and is ignored");
        }
    }
}
