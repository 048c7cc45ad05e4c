//! Instructions of `bench` to its child processes, one JSON line per instruction and per result, and the agent
//! of measured runs.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::output;

/// Work for the load process, which prints the result when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Instruction {
    /// Store the agent and start some runs, so that caches and connections are ready.
    WarmUp { runs: u64 },
    /// Start runs and wait until all are completed.
    Runs(Pace),
    /// Set timers that are due in a day or later.
    FarTimers { timers: u64 },
    /// Set one timer that is due now, and wait for it.
    OneTimer,
    /// Set timers that come due evenly over some seconds, and wait for all.
    NearTimers { timers: u64, over_s: u64 },
}

/// Number and speed of runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pace {
    pub(super) runs: u64,
    /// Maximum in flight.
    pub(super) window: usize,
    /// Whether incomplete runs count as in flight, instead of unanswered starts.
    pub(super) is_closed_loop: bool,
    /// Maximum of starts per second.
    pub(super) rate: Option<u64>,
}

impl Pace {
    /// Number of runs that may have started after a time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a count of at most some millions"
    )]
    pub(super) fn allowed(&self, elapsed: Duration) -> u64 {
        let by_rate = |rate| (elapsed.as_secs_f64() * rate as f64) as u64 + 1;
        self.runs.min(self.rate.map_or(self.runs, by_rate))
    }

    pub(super) const fn has_room(&self, unanswered: usize, incomplete: usize) -> bool {
        let in_flight = if self.is_closed_loop {
            incomplete
        } else {
            unanswered
        };
        in_flight < self.window
    }
}

/// Lines of stdin, which ends when the parent process ends.
pub(super) struct Instructions(mpsc::UnboundedReceiver<String>);

impl Instructions {
    pub(super) fn new() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        // A thread that ends with the process, because a read of stdin cannot be cancelled.
        std::thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self(lines)
    }

    /// The next instruction; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Instruction>> {
        let line = self.0.recv().await;
        Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
    }

    pub(super) async fn wait_for_end(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

pub(super) fn print_result(value: &Value) -> io::Result<()> {
    output::line(&value.to_string())
}

/// The name of the measured agent: consecutive steps that call a tool which does nothing.
pub(super) const AGENT: &str = "bench";

pub(super) const TOOL: &str = "bench_noop";

pub(super) const STEPS: usize = 3;

/// The definition. Each step is dispatched through the queue.
pub(super) fn agent_text() -> String {
    let text = "a hundred bytes of arguments or so, as a step that writes a mail would have them at the least";
    let step = json!({ "tool": TOOL, "args": { "idempotent": true, "text": text } });
    json!({ "agent": AGENT, "steps": vec![step; STEPS] }).to_string()
}
