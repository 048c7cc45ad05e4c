//! Queues of steps: makes a consumer for each tool that a node offers, and makes it again where the server
//! has lost it.
//!
//! Workers must not make them: a consumer's settings name a subject that the server delivers to.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use holdpoint_bus::{Bus, BusError, StreamUse};
use holdpoint_contracts::subject;
use holdpoint_ids::ToolName;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether all are still there.
const EVERY: Duration = Duration::from_secs(2);

/// Queues that are made; a tool beyond it gets none, and its steps wait.
const QUEUES_MAX: usize = 10_000;

/// The tools that nodes have offered since the start.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    wanted: Mutex<BTreeSet<ToolName>>,
    is_new: Notify,
}

impl Queues {
    /// Takes the tools of a node; new ones get a queue at once.
    pub(crate) fn state(&self, tools: &[ToolName]) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_new = false;
        for tool in tools {
            if wanted.contains(tool) {
                continue;
            }
            if wanted.len() >= QUEUES_MAX {
                tracing::warn!(%tool, "{QUEUES_MAX} queues are the most: this tool gets none");
                break;
            }
            is_new |= wanted.insert(tool.clone());
        }
        drop(wanted);
        if is_new {
            self.is_new.notify_one();
        }
    }

    /// Keeps the queues until it is told to stop.
    pub(crate) async fn keep(&self, bus: Bus, stop: CancellationToken) {
        let mut is_told = false;
        loop {
            match stop.run_until_cancelled(Box::pin(self.provide(&bus))).await {
                None => return,
                Some(Ok(())) => is_told = false,
                Some(Err(error)) => {
                    if !is_told {
                        tracing::warn!(%error, "queues of steps cannot be made; trying again");
                    }
                    is_told = true;
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
        let there = match bus.steps_consumers().await {
            Ok(there) => there,
            // Gone where the server lost its disk.
            Err(_missing) => {
                bus.provide_stream(StreamUse::Steps).await?;
                bus.steps_consumers().await?
            }
        };
        for tool in wanted {
            if !there.contains(&subject::steps_consumer(tool.as_str())) {
                bus.provide_queue(tool.as_str()).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-C1: whoever may beat names tools, and each costs the server a consumer.
    #[test]
    fn queues_have_a_bound() {
        let queues = Queues::default();
        let tools: Vec<ToolName> = (0..=QUEUES_MAX)
            .map(|number| format!("tool.t{number}").parse().unwrap())
            .collect();
        queues.state(&tools);
        assert_eq!(queues.wanted.lock().unwrap().len(), QUEUES_MAX);
    }
}
