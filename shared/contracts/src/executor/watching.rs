//! Which ends of runs the executor tells of: those of runs and agents that a user watches, or all.

use std::fmt;

use holdpoint_ids::{AgentName, HoldId, RunId};
use serde::{Deserialize, Serialize};

use super::SERVICE;
use crate::message::{Command, Reply};
use crate::notification::{RunEnded, Watched};

/// The ends of these are notified with [`RecordRunEnds`](crate::notification::RecordRunEnds) from the commit of this on.
/// Again changes nothing that anybody sees. 404 for what is not there, 422 for a request: its end is not
/// the executor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRunEnds {
    /// At least one.
    pub of: Vec<RunEndsOf>,
}
command!(
    WatchRunEnds,
    "watch_run_ends",
    Vec<Reply<RunEndWatched>>,
    |it| it.of.first().map(ToString::to_string).unwrap_or_default()
);

/// The runs whose ends are reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEndsOf {
    /// A request has no end that is a run's: refused by itself.
    Request(HoldId),
    /// One run.
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
