//! What `bench` tells the processes that it starts, and how they answer: one JSON line each way.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::output;

/// What the load is to do next; it answers when that is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Order {
    /// Stores the agent and runs it a few times, so that nothing measured is the first of its kind.
    Warm { runs: u64 },
    /// Starts runs and waits until all have completed.
    Runs {
        runs: u64,
        /// How many may be open at once.
        window: usize,
        /// What is open: false, a start without an answer; true, a run that is not completed.
        is_closed_loop: bool,
        /// At most so many starts a second.
        rate: Option<u64>,
    },
    /// Sets timers that are due a day later and after.
    Far { timers: u64 },
    /// Sets one timer that is due now, and waits for it.
    One,
    /// Sets timers that come due evenly, and waits for all.
    Near {
        timers: u64,
        /// Over how many seconds.
        over_s: u64,
    },
}

/// The orders that come in; they end with the process that gives them.
pub(super) struct Orders(mpsc::UnboundedReceiver<String>);

impl Orders {
    pub(super) fn new() -> Self {
        let (said, orders) = mpsc::unbounded_channel();
        // A thread of its own, which ends with the process: reading stdin cannot be interrupted.
        std::thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    break;
                }
            }
        });
        Self(orders)
    }

    /// The next order; none: it is over.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Order>> {
        match self.0.recv().await {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }

    /// Waits for the end.
    pub(super) async fn ended(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

/// Answers an order.
pub(super) fn answer(value: &Value) -> io::Result<()> {
    output::line(&value.to_string())
}
