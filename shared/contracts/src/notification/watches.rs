//! Watches: a user is notified of a request, a run or an agent.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use holdpoint_ids::{AgentName, HoldId, IdError, RunId};
use serde::{Deserialize, Serialize};

/// Before the name of an agent, in the id of a watch.
const AGENT: &str = "agent_";

/// The watched thing; written `hold_…`, `run_…` or `agent_<name>`, which is the id of its watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    Request(HoldId),
    /// The requests and the end of one run.
    Run(RunId),
    /// The requests and the ends of all runs of an agent.
    Agent(AgentName),
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(id) => id.fmt(f),
            Self::Run(id) => id.fmt(f),
            Self::Agent(name) => write!(f, "{AGENT}{name}"),
        }
    }
}

impl FromStr for Watched {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if let Some(name) = text.strip_prefix(AGENT) {
            return name.parse().map(Self::Agent);
        }
        match text.parse() {
            Ok(run) => Ok(Self::Run(run)),
            Err(_no_run) => text.parse().map(Self::Request),
        }
    }
}

/// Notifies the caller of it from now on; a repetition changes nothing. Needs a signed assertion; 409
/// `too_many_watches` at the limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    pub of: Watched,
}

/// Ends a watch; the caller is still notified as a recipient. Needs a signed assertion; 404 without a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unwatch {
    pub of: Watched,
}

/// One watch as the API shows it: `{id, request | run | agent, since}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchView {
    /// `hold_…`, `run_…` or `agent_<name>`: one person watches a thing once.
    pub id: String,
    #[serde(flatten)]
    pub of: Watched,
    #[serde(with = "crate::instant")]
    pub since: DateTime<Utc>,
}

/// To [`Watch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchAdded {
    pub watch: WatchView,
    /// False: it was watched before.
    pub new: bool,
}

/// The watches of one user, by id. Only that user may see them, which the sender checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWatches {
    pub person: holdpoint_ids::UserName,
}

/// Whether one person watches something, and how many do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetWatchStatus {
    pub person: holdpoint_ids::UserName,
    pub of: Watched,
}

/// To [`GetWatchStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStatus {
    /// Whether that user watches it.
    pub is_watched: bool,
    pub watchers: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of a watch is read back as the watched thing.
    #[test]
    fn a_watch_id_is_parsed_back() {
        for text in [
            "hold_01920000000070008000000000000001-1",
            "run_01920000000070008000000000000001",
            "agent_run_1",
            "agent_agent_x",
        ] {
            assert_eq!(text.parse::<Watched>().unwrap().to_string(), text);
        }
        for text in ["", "agent_", "outreach", "run_1"] {
            assert!(text.parse::<Watched>().is_err(), "{text}");
        }
    }
}
