//! The ends of runs that the executor reports: those of watched runs and agents, or all.

use std::fmt;

use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::{Deserialize, Serialize};

use crate::notification::{RunEnded, Watched};

/// Reports the ends of these with [`RecordRunEnds`](crate::notification::RecordRunEnds) from this commit on. A
/// repetition changes nothing visible. 404 for an unknown run or agent, 422 for a request, whose end is not the
/// executor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRunEnds {
    /// At least one.
    pub of: Vec<RunEndsOf>,
}

/// The runs whose ends are reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEndsOf {
    /// A request has no end that is a run's: refused by itself.
    Request(HoldId),
    Run(RunId),
    /// All runs of an agent.
    Agent(AgentName),
    /// All runs of the workspace: a webhook wants them (Mend C-10).
    All,
}

impl fmt::Display for RunEndsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(id) => Watched::Request(*id).fmt(f),
            Self::Run(id) => Watched::Run(*id).fmt(f),
            Self::Agent(name) => Watched::Agent(name.clone()).fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

impl From<Watched> for RunEndsOf {
    fn from(of: Watched) -> Self {
        match of {
            Watched::Request(id) => Self::Request(id),
            Watched::Run(id) => Self::Run(id),
            Watched::Agent(name) => Self::Agent(name),
        }
    }
}

/// To one thing that is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEndWatched {
    /// The run has ended before, and so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Box<RunEnded>>,
}
