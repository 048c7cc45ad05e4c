//! Instructions of `bench` to its child processes, one JSON line per instruction and per result, and the agents
//! of measured runs.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::output;

/// Work for the load process, which prints the result when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Instruction {
    /// Store the agent and start some runs, so that caches and connections are ready.
    WarmUp { runs: u64, agent: BenchAgent },
    /// Start runs and wait until all are completed.
    Runs(Pace),
    /// Set timers that are due in a day or later.
    FarTimers { timers: u64 },
    /// Set one timer that is due now, and wait for it.
    OneTimer,
    /// Set timers that come due evenly over some seconds, and wait for all.
    NearTimers { timers: u64, over_s: u64 },
    /// Store the agent that asks a person, and answer the requests of some runs over HTTP.
    WarmUpAnswers { runs: u64, api: Api },
    /// Start runs that ask a person, and wait until all requests are open.
    Block { runs: u64 },
    /// Answer all open requests over HTTP, and wait until their runs are completed.
    Answer(Pace),
    /// Start runs that wait for an approval, and read the first page of open approvals some times.
    Inbox { runs: u64, calls: u64, api: Api },
    /// Start runs over HTTP, `lines` in each request.
    HttpStarts { pace: Pace, lines: u64, api: Api },
}

/// Where the gateway listens, and a token of the owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Api {
    pub(super) url: String,
    pub(super) token: String,
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

    /// Ticks at which a load looks for what it may send.
    pub(super) fn ticks(&self) -> Interval {
        let tick_ms = if self.rate.is_some() { 2 } else { 500 };
        let mut ticks = interval(Duration::from_millis(tick_ms));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
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

/// The tool that does nothing.
pub(super) const TOOL: &str = "bench_noop";

/// Steps of [`BenchAgent::ThreeSteps`].
pub(super) const STEPS: usize = 3;

/// How long the tool of a slow step works, in milliseconds.
pub(super) const SLOW_MS: u64 = 5_000;

/// The agents of measured runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", prefix = "bench_")]
pub(super) enum BenchAgent {
    /// Consecutive steps that call a tool which does nothing. Each is dispatched through the queue.
    ThreeSteps,
    /// A step whose tool works for [`SLOW_MS`].
    SlowStep,
    /// A question, and a step that gets the answer.
    Question,
    /// A step that needs an approval.
    Approval,
    /// A wait of a day.
    Wait,
}

impl BenchAgent {
    pub(super) fn name(self) -> &'static str {
        self.into()
    }

    /// The definition.
    pub(super) fn text(self) -> String {
        let text = "a hundred bytes of arguments or so, as a step that writes a mail would have them at the least";
        let steps = match self {
            Self::ThreeSteps => {
                let step = json!({ "tool": TOOL, "args": { "idempotent": true, "text": text } });
                vec![step; STEPS]
            }
            Self::SlowStep => {
                let args = json!({ "idempotent": true, "text": text, "work_ms": SLOW_MS });
                vec![json!({ "tool": TOOL, "args": args })]
            }
            Self::Question => {
                let ask = json!({ "to": "@user.owner", "question": text, "timeout": "1 day" });
                let args = json!({ "idempotent": true, "text": text, "sent": "{{ $ask.answer }}" });
                vec![
                    json!({ "id": "ask", "ask": ask }),
                    json!({ "tool": TOOL, "args": args }),
                ]
            }
            Self::Approval => {
                let args = json!({ "idempotent": true, "text": text });
                let approval = json!({ "from": "@user.owner", "decide_within": "1 day" });
                vec![json!({ "tool": TOOL, "args": args, "approval": approval })]
            }
            Self::Wait => vec![json!({ "wait": "1 day" })],
        };
        json!({ "agent": self.name(), "steps": steps }).to_string()
    }
}
