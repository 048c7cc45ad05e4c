//! Creates two consumers on the steps stream for each tool that a node offers, one for each lane, and creates them again
//! after the server has lost them.
//!
//! Workers have no right to create consumers, because the settings of a consumer name a subject to which
//! the server delivers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_contracts::subject::{self, Lane};
use holdpoint_ids::ToolName;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often the consumers are checked.
const EVERY: Duration = Duration::from_secs(2);

/// Most queues; a further tool gets none, so its steps wait.
const QUEUES_MAX: usize = 10_000;

/// The tools that nodes have offered since the start.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    wanted: Mutex<BTreeSet<ToolName>>,
    is_new: Notify,
}

impl Queues {
    /// Requests queues for the tools of a node; new ones are created at once.
    pub(crate) fn request(&self, tools: &[ToolName]) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = false;
        for tool in tools {
            if wanted.contains(tool) {
                continue;
            }
            if wanted.len() >= QUEUES_MAX {
                tracing::warn!(%tool, "limit of {QUEUES_MAX} queues reached; steps of this tool wait");
                break;
            }
            is_new |= wanted.insert(tool.clone());
        }
        drop(wanted);
        if is_new {
            self.is_new.notify_one();
        }
    }

    /// Keeps the queues until `stop`.
    pub(crate) async fn keep(&self, bus: Bus, stop: CancellationToken) {
        // A failure is logged once, not every two seconds.
        let mut is_logged = false;
        loop {
            match stop.run_until_cancelled(Box::pin(self.provide(&bus))).await {
                None => return,
                Some(Ok(())) => is_logged = false,
                Some(Err(error)) => {
                    if !is_logged {
                        tracing::warn!(%error, "queues of steps cannot be created; retrying");
                    }
                    is_logged = true;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.is_new.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }

    async fn provide(&self, bus: &Bus) -> Result<(), BusError> {
        let wanted = self
            .wanted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let existing = match bus.steps_consumers().await {
            Ok(existing) => existing,
            // The server has lost the stream with its disk.
            Err(_missing) => {
                bus.provide_stream(StreamUse::Steps).await?;
                bus.steps_consumers().await?
            }
        };
        for tool in wanted {
            for lane in Lane::ALL {
                if !existing.contains(&subject::steps_consumer(tool.as_str(), lane)) {
                    bus.provide_queue(tool.as_str(), lane).await?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-C1: a node that sends heartbeats names tools, and each tool costs the server two consumers.
    #[test]
    fn queues_have_a_bound() {
        let queues = Queues::default();
        let tools: Vec<ToolName> = (0..=QUEUES_MAX)
            .map(|number| format!("tool.t{number}").parse().unwrap())
            .collect();
        queues.request(&tools);
        assert_eq!(queues.wanted.lock().unwrap().len(), QUEUES_MAX);
    }
}
