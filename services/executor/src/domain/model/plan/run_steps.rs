//! The step `run`, as the author wrote it.

use holdpoint_ids::AgentName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::model::plan::signal_steps::OnWaitTimeout;

/// Most runs that one step starts.
pub const STEP_RUNS_MAX: usize = 20;

/// Starts runs of other agents, and waits for their ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStep {
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub until: RunsUntil,
    /// 1 to [`STEP_RUNS_MAX`]; exactly one with [`RunsUntil::Ended`].
    pub runs: Vec<AgentRun>,
    /// How long, in milliseconds: from 1 s to 90 days.
    pub timeout_ms: u64,
    #[serde(default, skip_serializing_if = "holdpoint_contracts::is_default")]
    pub on_timeout: OnWaitTimeout,
}

/// What a step with `run` waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsUntil {
    /// The end of its only run.
    #[default]
    Ended,
    /// The first run that completes. The others are cancelled.
    First,
    /// The completion of all runs.
    All,
}

/// One run of a `run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRun {
    pub agent: AgentName,
    /// The input of the run, perhaps with placeholders.
    #[serde(default)]
    pub input: Value,
}

impl RunStep {
    /// What may hold placeholders: the inputs in order.
    #[must_use]
    pub fn template(&self) -> Value {
        let inputs: Vec<_> = self.runs.iter().map(|run| &run.input).collect();
        json!(inputs)
    }

    /// One line for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let agents: Vec<_> = self.runs.iter().map(|run| run.agent.as_str()).collect();
        let agents = agents.join(", ");
        match self.until {
            RunsUntil::Ended => format!("Run {agents}"),
            RunsUntil::First => format!("Run {agents}, until the first one completes"),
            RunsUntil::All => format!("Run {agents}, until all complete"),
        }
    }
}
